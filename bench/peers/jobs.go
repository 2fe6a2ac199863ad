package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
)

// jobLoop inserts jobs of River for Yantra's rows, without handling failures.
type jobLoop struct {
	label, does string
	page        int // rows of a SELECT
	work        func(ctx context.Context, pool *pgxpool.Pool, client *river.Client[pgx.Tx], page int) (int, error)
	yantraTable
}

// The loops: the minimal work, and the loop of Yantra.
var (
	BareJobs = jobLoop{label: "bare", page: 500, work: wholePage,
		does: "SELECT 500 rows that are pending, InsertManyFastTx, UPDATE them, in one transaction, on one connection"}
	RowJobs = jobLoop{label: "yantra", page: 100, work: rowByRow,
		does: "as Yantra does: SELECT 100 rows that are pending, and for each InsertTx and UPDATE in a transaction"}
)

func (l jobLoop) Name() string  { return l.label }
func (l jobLoop) About() string { return l.does }

func (l jobLoop) Create(ctx context.Context, db *pgx.Conn) error {
	pool, err := riverMigrated(ctx, db.Config().ConnString())
	if err != nil {
		return err
	}
	defer pool.Close()
	q := layout.Yantra().Queue
	if _, err := queuetable.Init(ctx, pool, *q, true, q.Tables...); err != nil {
		return err
	}
	return l.fill(ctx, db)
}

func (l jobLoop) Rewind(ctx context.Context, db *pgx.Conn) error {
	if err := resetJobs(ctx, db); err != nil {
		return err
	}
	return l.yantraTable.Rewind(ctx, db)
}

func (l jobLoop) Relay(ctx context.Context, j measure.Job) error {
	pool, err := riverConnect(ctx, j.Postgres)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		n, err := l.work(ctx, pool, client, l.page)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case n == 0:
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// pendingRow is a row of Yantra's table.
type pendingRow struct {
	ID, Group string
	Payload   json.RawMessage
}

const pendingRows = "SELECT id::text, aggregate_id, payload FROM outbox_messages WHERE status = 'pending' ORDER BY created_at LIMIT $1"

func selectPending(ctx context.Context, from interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, sql string, page int) ([]pendingRow, error) {
	rows, err := from.Query(ctx, sql, page)
	if err != nil {
		return nil, fmt.Errorf("read rows that are pending: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[pendingRow])
}

// wholePage inserts the jobs of a page in one transaction.
func wholePage(ctx context.Context, pool *pgxpool.Pool, client *river.Client[pgx.Tx], page int) (n int, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		found, err := selectPending(ctx, tx, pendingRows+" FOR UPDATE SKIP LOCKED", page)
		if n = len(found); err != nil || n == 0 {
			return err
		}
		params, ids := make([]river.InsertManyParams, n), make([]string, n)
		for i, row := range found {
			params[i], ids[i] = river.InsertManyParams{Args: riverArgs{row.Group, row.Payload}}, row.ID
		}
		if _, err := client.InsertManyFastTx(ctx, tx, params); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE outbox_messages SET status = 'processed', processed_at = localtimestamp WHERE id = ANY ($1::text[]::uuid[])", ids)
		return err
	})
	return n, err
}

// rowByRow inserts the job of each row of a page in a transaction of its own.
func rowByRow(ctx context.Context, pool *pgxpool.Pool, client *river.Client[pgx.Tx], page int) (int, error) {
	found, err := selectPending(ctx, pool, pendingRows, page)
	if err != nil {
		return 0, err
	}
	for _, row := range found {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := client.InsertTx(ctx, tx, riverArgs{row.Group, row.Payload}, nil); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE outbox_messages SET status = 'processed', processed_at = localtimestamp WHERE id = $1::text::uuid", row.ID)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return len(found), nil
}

// jobRelay is Outrider with a destination of type river.
type jobRelay struct{ Outrider }

func (r jobRelay) Create(ctx context.Context, db *pgx.Conn) error {
	pool, err := riverMigrated(ctx, db.Config().ConnString())
	if err != nil {
		return err
	}
	pool.Close()
	return r.Outrider.Create(ctx, db)
}

func (r jobRelay) Rewind(ctx context.Context, db *pgx.Conn) error {
	if err := resetJobs(ctx, db); err != nil {
		return err
	}
	if _, err := db.Exec(ctx, forgetState); err != nil {
		return err
	}
	return r.Outrider.Rewind(ctx, db)
}

// Backlog returns the payloads as River stores them: as jsonb.
func (r jobRelay) Backlog() string {
	return "SELECT g, p::jsonb::text FROM (" + r.Outrider.Backlog() + ") AS b (g, p)"
}

func (yantraTable) Insert() string {
	return "INSERT INTO outbox_messages (id, aggregate_id, aggregate_type, event_type, payload, status, created_at) VALUES ($1, $2, 'workflow', 'bench', $3, 'pending', localtimestamp)"
}

func (yantraTable) Empty() string { return "TRUNCATE outbox_messages; " + forgetState }

// Outrider that inserts jobs of River for the rows of Yantra's table and of its own.
var (
	QueuedJobs = jobRelay{Outrider{
		label: OutriderName,
		Settings: "package outrider, layout yantra with poll.min 1ms, poll.batch 10000 and claims.in_memory 20000, and type: river; all else by default: " +
			"16 lanes, transactions of 500 jobs, leases, notes of attempts, metrics",
		Config: strings.NewReplacer("{source}", ", layout: yantra, poll: {batch: 10000, min: 1ms, max: 1s}, claims: {in_memory: 20000}", "{route}", "").Replace(jobConfig),
		table:  yantraTable{},
	}}
	LoggedJobs = jobRelay{Outrider{
		label:    OutriderName + "-own",
		Settings: "package outrider with its own table and type: river; all else by default",
		Config:   strings.NewReplacer("{source}", "", "{route}", ", start: beginning").Replace(jobConfig),
		table:    ownTable{},
	}}
)

// jobConfig has River's tables in the database of the outbox.
const jobConfig = `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: postgres, url: {postgres}{source}}}
destinations: {jobs: {type: river, url: {postgres}, kind: bench, args: {group: "{{.Group}}", payload: payload}}}
routes: {work: {from: app, to: jobs{route}}}
`
