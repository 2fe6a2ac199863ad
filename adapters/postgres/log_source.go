package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/outbox"
)

// LogConfig says which table a [LogSource] reads, and how.
type LogConfig struct {
	// URL, TLS, Config, Wake, Logger and Tracer are those of [SourceConfig].
	URL    string
	TLS    tlsConfig
	Config *pgxpool.Config
	Wake   wakeMode
	Logger *slog.Logger
	Tracer pgx.QueryTracer

	// MaxRow is the largest payload that is read, in bytes; a row with a larger one
	// is dead. 0: [outbox.DefaultMaxRow].
	MaxRow int64

	// Layout is the table's shape; required.
	Layout Layout

	// Table, as in SQL: table, schema.table, "Quoted"."Table". In
	// [LayoutWatermill] it may be left out: then it is watermill_TOPIC.
	Table string

	// Topic is, in [LayoutWatermill], the topic that the table belongs to: the
	// type of messages that name none. Empty: the table's name without watermill_.
	Topic string

	// Columns describes a table of [LayoutCustom]; required there.
	Columns Columns

	// Metadata names keys of the headers that hold what has no column.
	Metadata Metadata
}

// LogSource reads an append-only table that is not Outrider's own: a stock
// Watermill topic or a table of the application's. It implements
// [outbox.Source]; it only reads, and creates nothing.
//
// Cursors are those of [Source], with PostgreSQL snapshots. The table has no
// column for slots, so they are computed here ([outbox.SlotOf]) and all slots
// are read by one scan; so a route has one owner at a time ([outbox.Undivided]).
type LogSource struct {
	*tableReader
	mapping  *mapping
	rowBytes float64 // running estimate of a row's size; held by Fetch
}

var (
	_ outbox.Source = (*LogSource)(nil)
	_ outbox.Waker  = (*LogSource)(nil)
)

// firstRowBytes is the estimate of a row's size before the first row.
const firstRowBytes = 1024

// NewLogSource returns a source. It checks the configuration and does not
// connect: [LogSource.Check] does.
func NewLogSource(ctx context.Context, cfg LogConfig) (*LogSource, error) {
	m, err := newMapping(&cfg)
	if err = errors.Join(err, cfg.Wake.check()); err != nil {
		return nil, fmt.Errorf("postgres source of table %s: %w", cmp.Or(cfg.Table, cfg.Topic, "(none)"), err)
	}
	table := cmp.Or(cfg.Table, m.table.Sanitize())
	pool, err := newReadPool(ctx, connection{url: cfg.URL, tls: cfg.TLS, config: cfg.Config, tracer: cfg.Tracer})
	if err != nil {
		return nil, fmt.Errorf("postgres source of table %s: %w", table, err)
	}
	s := &LogSource{mapping: m, rowBytes: firstRowBytes}
	s.tableReader = newTableReader(pool, table, m.table, cfg.Wake, cfg.Logger, m.maxRow, readLayout{
		position: m.columns[rolePosition], prepare: s.prepare, rowAt: s.rowAt,
		located: func(full pgx.Identifier) { m.table = full },
		explain: func(what string, err error) error { return explainLog(table, what, err) },
		dropped: func() {},
	})
	return s, nil
}

// LogTable returns the name of the table that a configuration describes, quoted.
func LogTable(cfg LogConfig) (string, error) {
	m, err := newMapping(&cfg)
	if err != nil {
		return "", err
	}
	return m.table.Sanitize(), nil
}

// prepare prepares the fetch on a new connection, for the types that the table has now.
func (s *LogSource) prepare(ctx context.Context, r *readConn) error {
	t, err := s.mapping.sound(ctx, r.conn)
	if err != nil {
		return err
	}
	oid := t.typeOf(rolePayload)
	s.mapping.json = oid == pgtype.JSONOID || oid == pgtype.JSONBOID
	r.fetch, err = r.prepare(ctx, "outrider_fetch", t.fetchSQL())
	return err
}

// Start implements [outbox.Source]. [outbox.StartTime] begins at the lowest
// position of a row created at or after the time, and needs to know the column.
func (s *LogSource) Start(ctx context.Context, at outbox.Start) (outbox.Cursor, error) {
	places := starts{
		beginning: "least(coalesce((SELECT min(o.{position}) FROM {table} o) - 1, 0), 0)",
		end:       "coalesce((SELECT max(o.{position}) FROM {table} o), 0)",
	}
	if s.mapping.columns[roleCreatedAt] != "" {
		places.since = "coalesce((SELECT min(o.{position}) - 1 FROM {table} o WHERE o.{created} >= $1), " + places.end + ")"
	}
	return s.start(ctx, at, places, s.mapping.replace)
}

// Undivided implements [outbox.Undivided]: one scan reads all slots.
func (*LogSource) Undivided() {}

// explain says for which table and in doing what the error came up and, where
// one is known, the fix.
func (s *LogSource) explain(what string, err error) error {
	return explainLog(s.table, what, err)
}

func explainLog(table, what string, err error) error {
	return describeError("table "+table, what, err, func(refused *pgconn.PgError) string {
		switch refused.Code {
		case undefinedTable, invalidSchema:
			return "; the table is the application's to create; correct its name or the database in the config"
		case insufficientPrivilege:
			return "; " + grantFor(table, refused.Message)
		case undefinedColumn, featureNotSupported:
			return "; the table was altered; the next read looks at it again"
		case undefinedFunction:
			return "; PostgreSQL 13 or later is needed"
		}
		return ""
	})
}
