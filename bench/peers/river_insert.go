package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"golang.org/x/sync/errgroup"
)

// riverInsert inserts jobs into River and commits nothing else with them.
type riverInsert struct{ riverQueue }

// RiverInsert inserts jobs.
var RiverInsert = riverInsert{}

const (
	riverBatch     = 1000 // jobs of one InsertManyFast
	riverInserters = 4    // connections that insert; with 1 and 2 it was slower
)

// riverArgs are the arguments of a job.
type riverArgs struct {
	Group   string          `json:"group"`
	Payload json.RawMessage `json:"payload"`
}

// Kind names the kind of job.
func (riverArgs) Kind() string { return "bench" }

func (riverInsert) Name() string { return "river-insert" }

func (riverInsert) About() string {
	return fmt.Sprintf("River inserts the jobs with InsertManyFast, %d in a transaction, on %d connections", riverBatch, riverInserters)
}

func (riverInsert) Create(ctx context.Context, db *pgx.Conn) error {
	pool, err := riverTables(ctx, db)
	if err == nil {
		pool.Close()
	}
	return err
}

func (riverInsert) Rewind(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return err
	}
	return riverReset(ctx, db)
}

func (riverInsert) Relay(ctx context.Context, j measure.Job) error {
	pool, err := riverConnect(ctx, j.Postgres)
	if err != nil {
		return err
	}
	defer pool.Close()
	var inserted atomic.Int64
	g, working := errgroup.WithContext(ctx)
	g.Go(func() error { return riverInsertAll(working, pool, &inserted) })
	g.Go(func() error { return measure.ReportProgress(working, pool, &inserted) })
	return g.Wait()
}

// riverInsertAll inserts a job for each row of the backlog, on several
// connections, and counts them.
func riverInsertAll(ctx context.Context, pool *pgxpool.Pool, inserted *atomic.Int64) error {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	batches := make(chan []river.InsertManyParams, riverInserters)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(batches)
		return riverRead(ctx, pool, batches)
	})
	for range riverInserters {
		g.Go(func() error {
			for b := range batches {
				n, err := client.InsertManyFast(ctx, b)
				if err != nil {
					return err
				}
				inserted.Add(int64(n))
			}
			return nil
		})
	}
	return g.Wait()
}

// riverRead reads the backlog in batches.
func riverRead(ctx context.Context, pool *pgxpool.Pool, batches chan<- []river.InsertManyParams) error {
	rows, err := pool.Query(ctx, "SELECT message_group, payload FROM "+measure.ItemBacklog+" ORDER BY position")
	if err != nil {
		return err
	}
	defer rows.Close()
	batch := make([]river.InsertManyParams, 0, riverBatch)
	flush := func() error {
		if len(batch) == 0 {
			return nil // River refuses that
		}
		select {
		case batches <- batch:
			batch = make([]river.InsertManyParams, 0, riverBatch)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for rows.Next() {
		v := rows.RawValues()
		batch = append(batch, river.InsertManyParams{Args: riverArgs{string(v[0]), append(json.RawMessage(nil), v[1]...)}})
		if len(batch) == riverBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return flush()
}
