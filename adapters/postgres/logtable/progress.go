package logtable

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// ProgressConfig says which tables a [ProgressTable] is about.
type ProgressConfig struct {
	// URL, TLS and Config are those of [Config].
	URL    string
	TLS    TLS
	Config *pgxpool.Config

	Table  string // of progress, as in SQL
	Events string // of events, as in SQL, with a column position
}

// ProgressTable reads and writes a table of progress as Crablet's own management does.
type ProgressTable struct {
	pool *pgxpool.Pool
	cfg  ProgressConfig

	mu            sync.Mutex
	table, events string // with their schemas, once they were found
}

var _ adapters.ProgressTable = (*ProgressTable)(nil)

// progressConns bounds the pool: operators and metrics look on.
const progressConns = 2

// OpenProgress checks the configuration. It does not connect.
func OpenProgress(ctx context.Context, cfg ProgressConfig) (*ProgressTable, error) {
	for _, name := range []*string{&cfg.Table, &cfg.Events} {
		table, err := pg.ParseTable(*name)
		if err != nil {
			return nil, err
		}
		*name = table.Sanitize()
	}
	c := pg.Connection{URL: cfg.URL, TLS: cfg.TLS, Config: cfg.Config, Application: "outrider-progress", MaxConns: progressConns}
	pool, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &ProgressTable{pool: pool, cfg: cfg}, nil
}

// Close frees the connections.
func (t *ProgressTable) Close() { t.pool.Close() }

// locate finds the schemas of the tables, once.
func (t *ProgressTable) locate(ctx context.Context) (table, events string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for to, name := range map[*string]string{&t.table: t.cfg.Table, &t.events: t.cfg.Events} {
		if *to != "" {
			continue
		}
		full, err := pg.LocateTable(ctx, t.pool, pg.NameOf(name))
		if err != nil {
			return "", "", t.failed(name, "look for it", "SELECT", err)
		}
		*to = full.Sanitize()
	}
	return t.table, t.events, nil
}

// Rows implements [adapters.ProgressTable].
func (t *ProgressTable) Rows(ctx context.Context, topic string) ([]adapters.Progress, error) {
	table, _, err := t.locate(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := t.pool.Query(ctx, `SELECT topic, publisher, last_position, last_published_at, status, error_count, coalesce(last_error, ''), updated_at,
    coalesce(leader_instance, ''), leader_since, leader_heartbeat
FROM `+table+` WHERE topic = $1 OR $1 = '' ORDER BY topic COLLATE "C", publisher COLLATE "C"`, topic)
	if err != nil {
		return nil, t.failed(table, "read its rows", "SELECT", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p adapters.Progress, err error) {
		var published, since, heartbeat *time.Time
		p.Table = t.cfg.Table
		err = row.Scan(&p.Topic, &p.Publisher, &p.Position, &published, &p.Status, &p.Errors, &p.LastError, &p.UpdatedAt, &p.Leader, &since, &heartbeat)
		for to, at := range map[*time.Time]*time.Time{&p.PublishedAt: published, &p.LeaderSince: since, &p.Heartbeat: heartbeat} {
			if at != nil {
				*to = *at
			}
		}
		return p, err
	})
	return out, t.failed(table, "read its rows", "SELECT", err)
}

// Order implements [adapters.ProgressTable].
func (t *ProgressTable) Order(ctx context.Context, topic, publisher, status string, reset bool) (bool, error) {
	table, _, err := t.locate(ctx)
	if err != nil {
		return false, err
	}
	set := ""
	if reset {
		set = ", error_count = 0, last_error = NULL"
	}
	done, err := t.pool.Exec(ctx, "UPDATE "+table+" SET status = $3, updated_at = CURRENT_TIMESTAMP"+set+" WHERE topic = $1 AND publisher = $2", topic, publisher, status)
	return done.RowsAffected() > 0, t.failed(table, "write a status", "UPDATE", err)
}

// Last implements [adapters.ProgressTable].
func (t *ProgressTable) Last(ctx context.Context) (last int64, err error) {
	_, events, err := t.locate(ctx)
	if err != nil {
		return 0, err
	}
	err = t.pool.QueryRow(ctx, "SELECT position FROM "+events+" ORDER BY position DESC LIMIT 1").Scan(&last)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return last, t.failed(events, "look for the last event", "SELECT", err)
}

// failed describes an error with a table; nil stays nil.
func (t *ProgressTable) failed(table, what, right string, err error) error {
	return pg.Describe("table "+table, what, err, func(refused *pgconn.PgError) string { return fix(table, right, refused) })
}

// fix says what to do about a refusal of the server.
func fix(table, right string, refused *pgconn.PgError) string {
	switch refused.Code {
	case "42501":
		return "; GRANT " + right + " ON " + table + " TO the role of the URL"
	case "42P01":
		return "; create it with Crablet's migrations, or name it in table or progress_table of the source"
	}
	return ""
}
