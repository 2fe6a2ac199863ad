package measure

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Inserted is a sink: the jobs that relays insert into River's table.
type Inserted struct{ Rows int }

// insertedReceiver is the table of a run.
type insertedReceiver struct {
	jobReceiver
	wanted int
}

// Open implements [Sink].
func (s Inserted) Open(context.Context, *Servers) (Receiver, error) {
	return &insertedReceiver{wanted: s.Rows}, nil
}

// Received reads the last value of the sequence of job ids, which costs nothing. It
// counts the table only when that value says that all jobs are there.
func (r *insertedReceiver) Received(ctx context.Context) (n int, last time.Time, err error) {
	if r.db == nil {
		if r.db, err = pgx.Connect(ctx, r.postgres); err != nil {
			return 0, last, err
		}
	}
	if err := r.db.QueryRow(ctx, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM river_job_id_seq").Scan(&n); err != nil {
		return 0, last, err
	}
	if n >= r.wanted {
		err = r.db.QueryRow(ctx, "SELECT count(*) FROM river_job").Scan(&n)
	}
	return n, time.Now(), err
}

// Examine expects every row as one job, and the rows of a group in order.
func (r *insertedReceiver) Examine(ctx context.Context, c *Checker) error {
	rows, err := r.db.Query(ctx, "SELECT args->>'group', (args->'payload')::text FROM river_job ORDER BY id")
	if err != nil {
		return err
	}
	return c.jobs(rows)
}
