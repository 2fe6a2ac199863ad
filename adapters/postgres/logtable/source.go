package logtable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// Config says which table a [Source] reads, and how.
type Config struct {
	// URL of the database, postgres://... It must lead to a primary, and not through a
	// pooler in transaction mode. Config replaces it where more is to be set, such as a
	// dial function; TLS does not change Config. Tracer sees every statement. Only one of URL
	// and Config is required.
	URL    string
	TLS    TLS
	Config *pgxpool.Config
	Wake   Wake
	Logger *slog.Logger
	Tracer pgx.QueryTracer

	// MaxRow is the largest payload that is read, in bytes; a row with a larger one
	// is dead. 0: [adapters.DefaultMaxRow].
	MaxRow int64

	// Layout is the table's shape; required.
	Layout Layout

	// Table, as in SQL: table, schema.table, "Quoted"."Table". In
	// layout watermill it may be left out: then it is watermill_TOPIC.
	Table string

	// Topic is, in layout watermill, the topic that the table belongs to: the
	// type of messages that name none. Empty: the table's name without watermill_.
	Topic string

	// Columns describes a table of [LayoutCustom]; required there. In a layout that is captured ([layout.Log]) they are those that
	// have other names.
	Columns Columns

	// Headers are, in such a layout, further columns that travel as headers.
	Headers []layout.Header

	// Offsets and Group are, in layout watermill, the table and the consumer group in
	// which watermill-sql's Subscriber keeps how far it is, for [adapters.StartOffsets].
	// Defaults: watermill_offsets_TOPIC, in the schema of the table; and "".
	Offsets, Group string

	// Metadata names keys of the headers that hold what has no column.
	Metadata Metadata
}

// Source reads an append-only table that is not Outrider's own: a
// Watermill topic or a table of the application's. It implements
// [adapters.Source]; it only reads, and creates nothing.
//
// Cursors are those of [Source], with PostgreSQL snapshots. The table has no
// column for slots, so they are computed here ([adapters.SlotOf]) and all slots
// are read by one scan; so a route has one owner at a time ([adapters.SharedRead]).
type Source struct {
	sourceMethods
	base     *reader.Reader
	mapping  *mapping
	rowBytes float64 // running estimate of a row's size; held by Fetch
}

// sourceMethods are those that do not depend on the layout.
type sourceMethods = reader.SourceMethods

var (
	_ adapters.OperatorSource = (*Source)(nil)
	_ adapters.Waker          = (*Source)(nil)
)

// firstRowBytes is the estimate of a row's size before the first row.
const firstRowBytes = 1024

// New returns a source. It checks the configuration and does not
// connect: [Source.Check] does.
func New(ctx context.Context, cfg Config) (*Source, error) {
	m, err := newMapping(&cfg)
	if err = errors.Join(err, cfg.Wake.Check()); err != nil {
		return nil, fmt.Errorf("postgres source of table %s: %w", cmp.Or(cfg.Table, cfg.Topic, "(none)"), err)
	}
	table := cmp.Or(cfg.Table, m.table.Sanitize())
	pool, err := reader.NewPool(ctx, pg.Connection{URL: cfg.URL, TLS: cfg.TLS, Config: cfg.Config, Tracer: cfg.Tracer})
	if err != nil {
		return nil, fmt.Errorf("postgres source of table %s: %w", table, err)
	}
	s := &Source{mapping: m, rowBytes: firstRowBytes}
	s.base = reader.New(pool, table, m.table, cfg.Wake, cfg.Logger, m.maxRow, reader.Layout{
		Position: m.columns[rolePosition], Lanes: m.lanesFrom(), Prepare: s.prepare, RowAt: s.rowAt,
		Located: func(full pgx.Identifier) { m.table = full },
		Explain: func(what string, err error) error { return explainLog(table, what, err) },
		Dropped: func() {},
	})
	s.sourceMethods = s.base
	return s, nil
}

// Name returns the name of the table that a configuration describes, quoted.
func Name(cfg Config) (string, error) {
	m, err := newMapping(&cfg)
	if err != nil {
		return "", err
	}
	return m.table.Sanitize(), nil
}

// prepare prepares the fetch on a new connection, for the types that the table has now.
func (s *Source) prepare(ctx context.Context, r *reader.Conn) error {
	t, err := s.mapping.sound(ctx, r.Conn)
	if err != nil {
		return err
	}
	oid := t.typeOf(rolePayload)
	s.mapping.array.Store(isArray(t.typeOf(roleTags)))
	s.mapping.json.Store(oid == pgtype.JSONOID || oid == pgtype.JSONBOID)
	r.Fetch, err = r.Prepare(ctx, "outrider_fetch", t.fetchSQL())
	return err
}

// Table implements [adapters.Source].
func (s *Source) Table(ctx context.Context) (adapters.Table, error) { return s.base.Identity(ctx) }

// Start implements [adapters.Source]. [adapters.StartTime] begins at the lowest
// position of a row created at or after the time, and needs to know the column.
func (s *Source) Start(ctx context.Context, at adapters.Start) (adapters.Cursor, error) {
	if at.Kind == adapters.StartOffsets {
		c, err := s.startAtOffsets(ctx)
		return c, s.explain("start at offsets", err)
	}
	places := reader.Starts{
		Beginning: "least(coalesce((SELECT min(o.{position})::bigint FROM {table} o) - 1, 0), 0)",
		End:       "coalesce((SELECT max(o.{position}) FROM {table} o), 0)",
	}
	if s.mapping.columns[roleCreatedAt] != "" {
		places.Since = "coalesce((SELECT min(o.{position})::bigint - 1 FROM {table} o WHERE o.{created} >= $1), " + places.End + ")"
	}
	return s.base.Start(ctx, at, places, func(sql string) string { return sqltext.Fill(sql, s.mapping.sqlNames()) })
}

// lanesFrom says where a row's group is read, and what takes its place in rows without one.
func (m *mapping) lanesFrom() string {
	var from []string
	if c := m.columns[roleGroup]; c != "" {
		from = append(from, "column "+strconv.Quote(c))
	}
	if c := m.columns[roleHeaders]; c != "" {
		if key := m.keys[roleGroup]; key != "" {
			from = append(from, fmt.Sprintf("key %q of column %q", key, c))
		}
		from = append(from, fmt.Sprintf("key %q of column %q", metaKeys[roleGroup], c))
	}
	return strings.Join(append(from, "column "+strconv.Quote(m.columns[roleID])), " or ")
}

// SharedRead implements [adapters.SharedRead]: one scan reads all slots.
func (*Source) SharedRead() {}

// explain says for which table and in doing what the error came up and, where
// one is known, the fix.
func (s *Source) explain(what string, err error) error {
	return explainLog(s.base.Table, what, err)
}

func explainLog(table, what string, err error) error {
	return pg.Describe("table "+table, what, err, func(refused *pgconn.PgError) string {
		switch refused.Code {
		case pg.UndefinedTable, pg.InvalidSchema:
			return "; the table is the application's to create; correct its name or the database in the config"
		case pg.InsufficientPrivilege:
			return "; " + pg.GrantFor(table, refused.Message)
		case pg.UndefinedColumn, pg.FeatureNotSupported:
			return "; the table was altered; the next read looks at it again"
		case pg.UndefinedFunction:
			return "; PostgreSQL 13 or later is needed"
		}
		return ""
	})
}
