package main

import (
	"context"

	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// jobs is a sink: River's table itself, in which the jobs of a run end in a state.
type jobs struct {
	state string
	rows  int // of the entry
}

// jobProgress is a table with one row, in which a relay says how many jobs it has
// done: to count them in their own table all the time would cost the relay what it
// is measured for. Only when it says that all are done, the table itself is asked.
const jobProgress = "bench_progress"

// jobReceiver is the table of a run.
type jobReceiver struct {
	jobs
	postgres string
	db       *pgx.Conn // nil until it is asked
}

func (s jobs) open(context.Context, *servers) (receiver, error) { return &jobReceiver{jobs: s}, nil }

// describe learns where the table is; the relay knows.
func (r *jobReceiver) describe(j *job) { r.postgres = j.Postgres }

func (r *jobReceiver) received(ctx context.Context) (n int, last time.Time, err error) {
	if r.db == nil {
		if r.db, err = pgx.Connect(ctx, r.postgres); err != nil {
			return 0, last, err
		}
	}
	if err := r.db.QueryRow(ctx, "SELECT done FROM "+jobProgress).Scan(&n); err != nil {
		return 0, last, err
	}
	if n >= r.rows {
		err = r.db.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = $1", r.state).Scan(&n)
	}
	return n, time.Now(), err
}

// examine wants every job in its state, after one attempt if it was worked.
func (r *jobReceiver) examine(ctx context.Context, c *checker) error {
	var done int
	if err := r.db.QueryRow(ctx, "SELECT done FROM "+jobProgress).Scan(&done); err != nil {
		return err
	}
	if done != r.rows {
		return fmt.Errorf("the run does not count: %d jobs were done instead of %d", done, r.rows)
	}
	rows, err := r.db.Query(ctx, `SELECT args->>'group', (args->'payload')::text FROM river_job
		WHERE state = $1 AND attempt = CASE WHEN state = 'completed' THEN 1 ELSE 0 END ORDER BY id`, r.state)
	if err != nil {
		return err
	}
	return c.jobs(rows)
}

// jobs takes rows with the group and the payload of a job as arrivals.
func (c *checker) jobs(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		v := rows.RawValues()
		c.arrived(0, v[0], v[1])
	}
	return rows.Err()
}

func (r *jobReceiver) close() error {
	if r.db == nil {
		return nil
	}
	return r.db.Close(context.Background())
}

// reportProgress writes down how many jobs are done, until ctx ends.
func reportProgress(ctx context.Context, pool *pgxpool.Pool, done *atomic.Int64) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var said int64
	for {
		if n := done.Load(); n > said {
			said = n
			if _, err := pool.Exec(context.WithoutCancel(ctx), "UPDATE "+jobProgress+" SET done = $1", n); err != nil {
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
