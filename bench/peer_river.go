package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverQueue is River as a queue whose jobs have been inserted: they are claimed,
// worked and marked as completed. The worker does nothing but count, so what is
// measured is the queue; River promises no order.
type riverQueue struct{}

// River is that peer.
var River = riverQueue{}

const (
	riverWorkers = 10_000 // MaxWorkers, which is also the most jobs of one fetch; with 100 and 1,000 it was slower
	riverPool    = 10     // connections

	// riverFetch is FetchCooldown and FetchPollInterval; River takes no less.
	riverFetch = time.Millisecond

	// riverJobs keeps what River's table is filled with.
	riverJobs = "bench_jobs"
)

func (riverQueue) name() string { return "river" }
func (riverQueue) disorderly()  {}

func (riverQueue) about() string {
	return fmt.Sprintf("River with riverpgxv5 works jobs that do nothing (MaxWorkers %d, FetchCooldown and FetchPollInterval %v, pool of %d connections); "+
		"the clock stops when all are marked as completed; keeps no order", riverWorkers, riverFetch, riverPool)
}

// create inserts the jobs with River itself and keeps a copy.
func (riverQueue) create(ctx context.Context, db *pgx.Conn) error {
	pool, err := riverTables(ctx, db)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := riverInsertAll(ctx, pool, new(atomic.Int64)); err != nil {
		return err
	}
	_, err = db.Exec(ctx, "CREATE TABLE "+riverJobs+" AS SELECT * FROM river_job ORDER BY id")
	return err
}

// riverTables makes River's tables and keeps the backlog, of which jobs are made.
func riverTables(ctx context.Context, db *pgx.Conn) (*pgxpool.Pool, error) {
	if err := keepEvents(ctx, db); err != nil {
		return nil, err
	}
	if _, err := db.Exec(ctx, "DROP TABLE "+eventTable+"; CREATE TABLE "+jobProgress+" (done bigint NOT NULL)"); err != nil {
		return nil, err
	}
	return riverMigrated(ctx, db.Config().ConnString())
}

// riverMigrated connects to the database and makes River's tables.
func riverMigrated(ctx context.Context, postgres string) (*pgxpool.Pool, error) {
	pool, err := riverConnect(ctx, postgres)
	if err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet()})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// rewind writes the jobs again, as they were when River had inserted them.
func (riverQueue) rewind(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "TRUNCATE river_job; INSERT INTO river_job SELECT * FROM "+riverJobs+" ORDER BY id"); err != nil {
		return err
	}
	return riverReset(ctx, db)
}

func riverReset(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "TRUNCATE "+jobProgress+", river_leader; INSERT INTO "+jobProgress+" VALUES (0)")
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, "VACUUM (ANALYZE) river_job")
	return err
}

// backlog has the payloads as River's table keeps them: as jsonb.
func (riverQueue) backlog() string {
	return "SELECT message_group, payload::jsonb::text FROM " + itemBacklog + " ORDER BY position"
}

func (riverQueue) relay(ctx context.Context, j job) error {
	pool, err := riverConnect(ctx, j.Postgres)
	if err != nil {
		return err
	}
	defer pool.Close()
	var worked atomic.Int64
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[riverArgs]) error {
		worked.Add(1)
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		Workers:           workers,
		FetchCooldown:     riverFetch,
		FetchPollInterval: riverFetch,
		Logger:            quiet(),
	})
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	err = reportProgress(ctx, pool, &worked)
	return errors.Join(err, client.Stop(context.WithoutCancel(ctx)))
}

// riverConnect opens the pool that River's client has.
func riverConnect(ctx context.Context, postgres string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(postgres)
	if err != nil {
		return nil, err // pgx leaves the password out
	}
	cfg.MaxConns = riverPool
	return pgxpool.NewWithConfig(ctx, cfg)
}

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
