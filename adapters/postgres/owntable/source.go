package owntable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wake"
	"github.com/outriderhq/outrider/adapters/postgres/retention"
)

// Config says which table a [Source] reads.
type Config struct {
	// URL of the database, postgres://... It must lead to a primary, and not
	// through a pooler in transaction mode: the read is a prepared statement
	// with settings of its connection's. A connection may take 10 s to open, or
	// the seconds of the parameter connect_timeout.
	URL string

	// TLS says how connections by URL are encrypted. The zero value is safe.
	TLS pg.TLS

	// Config replaces URL where more is to be set, such as a dial function. It is
	// the caller's: [TLS] does not change it. It is made by pgxpool.ParseConfig; Outrider sets the pool's sizes.
	Config *pgxpool.Config

	// Table, as in SQL: table, schema.table, quoted where needed.
	// Empty: [DefaultTable].
	Table string

	// Wake is how new rows are noticed. Empty: wake.Poll.
	Wake wake.Mode

	// Logger; nil: slog.Default().
	Logger *slog.Logger

	// Tracer sees every statement, reads included; optional.
	Tracer pgx.QueryTracer

	// MaxRow is the largest payload that is read, in bytes; a row with a larger one
	// is dead. 0: [adapters.DefaultMaxRow].
	MaxRow int64
}

// Source reads an outbox table in Outrider's own layout. It implements
// [adapters.Source]; cursors carry PostgreSQL snapshots.
//
// It uses one connection for Fetch, one more to be notified, and opens others
// for the rest when needed.
type Source struct {
	sourceMethods
	*retention.Remover
	base   *reader.Reader
	layout layout // of the table with its schema, after find

	hot hot // nil: not known yet

	// The fields below are guarded by the reader's lock.
	limits         limits
	rangeScan      *reader.Statement // on the connection that reads; nil until a range scan is read
	rangeScanPause int               // fetches without a range scan
	fetchOne       *reader.Statement // on the connection that reads; nil until a single slot is read
}

// sourceMethods are those that do not depend on the layout.
type sourceMethods = reader.SourceMethods

var (
	_ adapters.OperatorSource = (*Source)(nil)
	_ adapters.Waker          = (*Source)(nil)
	_ adapters.Retainer       = (*Source)(nil)
)

// New returns a source. It checks the configuration and does not connect:
// [Source.Check] does.
func New(ctx context.Context, cfg Config) (*Source, error) {
	table := cmp.Or(cfg.Table, DefaultTable)
	name, err := pg.ParseTable(table)
	if err = errors.Join(err, cfg.Wake.Check()); err != nil {
		return nil, fmt.Errorf("postgres source: %w", err)
	}
	pool, err := reader.NewPool(ctx, pg.Connection{URL: cfg.URL, TLS: cfg.TLS, Config: cfg.Config, Tracer: cfg.Tracer})
	if err != nil {
		return nil, fmt.Errorf("postgres source of table %s: %w", table, err)
	}
	maxRow := cmp.Or(cfg.MaxRow, adapters.DefaultMaxRow)
	s := &Source{limits: limits{payload: maxRow}}
	s.base = reader.New(pool, table, name, cfg.Wake, cfg.Logger, maxRow, reader.Layout{
		Position: "position", Lanes: "its column slot", Own: true, Prepare: s.prepare, RowAt: s.rowAt,
		Located: func(full pgx.Identifier) { s.layout = layoutOf(full) },
		Explain: func(what string, err error) error { return pg.DescribeOwn(table, what, err) },
		Dropped: func() { s.DropFloor() },
	})
	s.sourceMethods = s.base
	s.Remover = retention.New(s.base, func(mode adapters.RetentionMode) pg.Grants { return s.layout.grants(mode) })
	return s, nil
}

// Table implements [adapters.Source].
func (s *Source) Table(ctx context.Context) (adapters.Table, error) { return s.base.Identity(ctx) }

// Start implements [adapters.Source]. [adapters.StartTime] begins at the lowest
// position of a row created at or after the time, so that none of those is
// missed; rows behind it can be older, because created_at is no order. It
// reads the whole table, once.
func (s *Source) Start(ctx context.Context, at adapters.Start) (adapters.Cursor, error) {
	const last = `coalesce((
    SELECT max(m.position)
    FROM generate_series(0, 15) AS s(slot)
    CROSS JOIN LATERAL (
        SELECT o.position FROM {table} o WHERE o.slot = s.slot::smallint
        ORDER BY o.slot DESC, o.position DESC LIMIT 1
    ) m), 0)`
	return s.base.Start(ctx, at, reader.Starts{
		Beginning: beginningSQL, End: last,
		Since: "coalesce((SELECT min(o.position) - 1 FROM {table} o WHERE o.created_at >= $1), " + last + ")",
	}, func(sql string) string { return sqltext.Fill(sql, sqltext.Names{"table": s.base.Quoted}) })
}

// beginningSQL is the position before all rows.
const beginningSQL = `least(coalesce((
    SELECT min(m.position) - 1
    FROM generate_series(0, 15) AS s(slot)
    CROSS JOIN LATERAL (
        SELECT o.position FROM {table} o WHERE o.slot = s.slot::smallint
        ORDER BY o.slot, o.position LIMIT 1
    ) m), 0), 0)`

func (s *Source) beginning(ctx context.Context) (position int64, err error) {
	err = s.base.Pool.QueryRow(ctx, sqltext.Fill("SELECT "+beginningSQL, sqltext.Names{"table": s.base.Quoted})).Scan(&position)
	return position, err
}

// prepare prepares the fetch on a new connection.
func (s *Source) prepare(ctx context.Context, r *reader.Conn) (err error) {
	if r.Fetch, err = r.Prepare(ctx, "outrider_fetch", fetchStatement(s.base.Quoted, s.limits)); err != nil {
		return err
	}
	s.rangeScan, s.fetchOne = nil, nil
	r.Conn.PgConn().Frontend().SetMaxBodyLen(s.limits.body())
	for i, c := range fetchColumns {
		if r.Fetch.Fields[i+reader.FetchPosition].DataTypeOID != c.oid {
			return fmt.Errorf("column %s has a type that is not the layout's (%s); \"outrider init --print\" shows the layout",
				c.name, s.layout.definition(c))
		}
	}
	return s.describeHot(ctx, r)
}
