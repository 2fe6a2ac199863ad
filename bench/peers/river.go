package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverQueue is River with inserted jobs, which it claims, works and completes. The
// worker only counts, so the queue itself is measured. River promises no order.
type riverQueue struct{}

// River works inserted jobs.
var River = riverQueue{}

const (
	riverWorkers = 10_000 // MaxWorkers, which is also the most jobs of one fetch; with 100 and 1,000 it was slower
	riverPool    = 10     // connections

	// riverFetch is FetchCooldown and FetchPollInterval; River takes no less.
	riverFetch = time.Millisecond

	// riverJobs is a copy of the inserted jobs.
	riverJobs = "bench_jobs"
)

func (riverQueue) Name() string { return "river" }
func (riverQueue) Disorderly()  {}

func (riverQueue) About() string {
	return fmt.Sprintf("River with riverpgxv5 works jobs that do nothing (MaxWorkers %d, FetchCooldown and FetchPollInterval %v, pool of %d connections); "+
		"the clock stops when all are marked as completed; keeps no order", riverWorkers, riverFetch, riverPool)
}

// Create inserts the jobs with River itself and keeps a copy.
func (riverQueue) Create(ctx context.Context, db *pgx.Conn) error {
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

// riverTables makes River's tables and keeps the backlog.
func riverTables(ctx context.Context, db *pgx.Conn) (*pgxpool.Pool, error) {
	if err := measure.KeepEvents(ctx, db); err != nil {
		return nil, err
	}
	if _, err := db.Exec(ctx, "DROP TABLE "+measure.EventTable+"; CREATE TABLE "+measure.JobProgress+" (done bigint NOT NULL)"); err != nil {
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

// Rewind restores the jobs as River had inserted them.
func (riverQueue) Rewind(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "TRUNCATE river_job; INSERT INTO river_job SELECT * FROM "+riverJobs+" ORDER BY id"); err != nil {
		return err
	}
	return riverReset(ctx, db)
}

func riverReset(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "TRUNCATE "+measure.JobProgress+", river_leader; INSERT INTO "+measure.JobProgress+" VALUES (0)")
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, "VACUUM (ANALYZE) river_job")
	return err
}

// Backlog returns the payloads as River stores them: as jsonb.
func (riverQueue) Backlog() string {
	return "SELECT message_group, payload::jsonb::text FROM " + measure.ItemBacklog + " ORDER BY position"
}

func (riverQueue) Relay(ctx context.Context, j measure.Job) error {
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
	err = measure.ReportProgress(ctx, pool, &worked)
	return errors.Join(err, client.Stop(context.WithoutCancel(ctx)))
}

// riverConnect opens the pool of River's client.
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
