package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// inserted is a sink: the jobs that relays insert into River's table.
type inserted struct{ rows int }

// insertedReceiver is the table of a run.
type insertedReceiver struct {
	jobReceiver
	wanted int
}

func (s inserted) open(context.Context, *servers) (receiver, error) {
	return &insertedReceiver{wanted: s.rows}, nil
}

// received asks for the last number that was given to a job, which costs nothing; the table is counted when that says that all
// are there.
func (r *insertedReceiver) received(ctx context.Context) (n int, last time.Time, err error) {
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

// examine wants every row as one job, the rows of a group in order.
func (r *insertedReceiver) examine(ctx context.Context, c *checker) error {
	rows, err := r.db.Query(ctx, "SELECT args->>'group', (args->'payload')::text FROM river_job ORDER BY id")
	if err != nil {
		return err
	}
	return c.jobs(rows)
}
