package measure

import (
	"context"

	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Jobs is a sink: River's table, in which the jobs of a run reach a state.
type Jobs struct {
	State string
	Rows  int // of the entry
}

// JobProgress is a table with one row, in which a relay writes how many jobs it has
// done. Counting River's own table all the time would slow the relay down, so that
// table is counted only when all jobs are said to be done.
const JobProgress = "bench_progress"

// jobReceiver is the table of a run.
type jobReceiver struct {
	Jobs
	postgres string
	db       *pgx.Conn // nil before the first query
}

// Open implements [Sink].
func (s Jobs) Open(context.Context, *Servers) (Receiver, error) { return &jobReceiver{Jobs: s}, nil }

// Describe reads the address of the database from the job.
func (r *jobReceiver) Describe(j *Job) { r.postgres = j.Postgres }

func (r *jobReceiver) Received(ctx context.Context) (n int, last time.Time, err error) {
	if r.db == nil {
		if r.db, err = pgx.Connect(ctx, r.postgres); err != nil {
			return 0, last, err
		}
	}
	if err := r.db.QueryRow(ctx, "SELECT done FROM "+JobProgress).Scan(&n); err != nil {
		return 0, last, err
	}
	if n >= r.Rows {
		err = r.db.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = $1", r.State).Scan(&n)
	}
	return n, time.Now(), err
}

// Examine expects every job in its state, after one attempt if it was worked.
func (r *jobReceiver) Examine(ctx context.Context, c *Checker) error {
	var done int
	if err := r.db.QueryRow(ctx, "SELECT done FROM "+JobProgress).Scan(&done); err != nil {
		return err
	}
	if done != r.Rows {
		return fmt.Errorf("the run does not count: %d jobs were done instead of %d", done, r.Rows)
	}
	rows, err := r.db.Query(ctx, `SELECT args->>'group', (args->'payload')::text FROM river_job
		WHERE state = $1 AND attempt = CASE WHEN state = 'completed' THEN 1 ELSE 0 END ORDER BY id`, r.State)
	if err != nil {
		return err
	}
	return c.jobs(rows)
}

// jobs takes rows with the group and the payload of a job as arrived messages.
func (c *Checker) jobs(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		v := rows.RawValues()
		c.arrived(0, v[0], v[1])
	}
	return rows.Err()
}

func (r *jobReceiver) Close() error {
	if r.db == nil {
		return nil
	}
	return r.db.Close(context.Background())
}

// ReportProgress writes the number of done jobs into [JobProgress] until ctx ends.
func ReportProgress(ctx context.Context, pool *pgxpool.Pool, done *atomic.Int64) error {
	tick := time.NewTicker(WatchInterval)
	defer tick.Stop()
	var said int64
	for {
		if n := done.Load(); n > said {
			said = n
			if _, err := pool.Exec(context.WithoutCancel(ctx), "UPDATE "+JobProgress+" SET done = $1", n); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
