package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/outbox"
)

// SourceConfig says which table a [Source] reads.
type SourceConfig struct {
	// URL of the database, postgres://... It must lead to a primary, and not
	// through a pooler in transaction mode: the read is a prepared statement
	// with settings of its connection's. A connection may take 10 s to open, or
	// the seconds of the parameter connect_timeout.
	URL string

	// TLS says how connections by URL are encrypted. The zero value is safe.
	TLS TLS

	// Config replaces URL where more is to be set, such as a dial function. It is
	// the caller's: [TLS] does not change it. It is made by pgxpool.ParseConfig; the pool's sizes are ours.
	Config *pgxpool.Config

	// Table, as in SQL: table, schema.table, quoted where needed.
	// Empty: [DefaultTable].
	Table string

	// Wake is how new rows are noticed. Empty: [WakePoll].
	Wake Wake

	// Logger; nil: slog.Default().
	Logger *slog.Logger

	// Tracer sees every statement, reads included; optional.
	Tracer pgx.QueryTracer

	// MaxRow is the largest payload that is read, in bytes; a row with a larger one
	// is dead. 0: [outbox.DefaultMaxRow].
	MaxRow int64
}

// Source reads an outbox table in Outrider's own layout. It implements
// [outbox.Source]; cursors carry PostgreSQL snapshots.
//
// It uses one connection for Fetch, one more to be notified, and opens others
// for the rest when needed.
type Source struct {
	wakes
	pool     *pgxpool.Pool
	table    string // as configured, for people
	layout   layout // of the table with its schema, after find
	position string // column
	limits   limits
	log      *slog.Logger
	closing  sync.WaitGroup // connections being closed

	location location
	name     pgx.Identifier       // of the table, as configured
	located  func(pgx.Identifier) // takes its full name

	retention retention
	floor     atomic.Pointer[floor] // nil: none is known

	mu      sync.Mutex // held by Fetch
	reader  *reader    // nil: connect
	closed  bool
	cluster string // identity of what was read first; "" before
	decoder decoder

	bandRest int // fetches without a band

	// findSQL makes the statement that fetches; nil in the own layout, whose
	// statement needs no look at the table.
	findSQL func(ctx context.Context, q querier) (string, error)

	// findAt does what rowAt does, where findSQL is set.
	findAt func(ctx context.Context, q querier, c *outbox.Cursor) (outbox.Anchor, bool, error)
}

var (
	_ outbox.Source = (*Source)(nil)
	_ outbox.Waker  = (*Source)(nil)
)

// NewSource returns a source. It checks the configuration and does not connect:
// [Source.Check] does.
func NewSource(ctx context.Context, cfg SourceConfig) (*Source, error) {
	table := cmp.Or(cfg.Table, DefaultTable)
	name, err := parseTable(table)
	if err = errors.Join(err, cfg.Wake.check()); err != nil {
		return nil, fmt.Errorf("postgres source: %w", err)
	}
	pool, err := newPool(ctx, &cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres source of table %s: %w", table, err)
	}
	log := cmp.Or(cfg.Logger, slog.Default())
	s := &Source{
		wakes:    newWaker(cfg.Wake, pool, log, name),
		pool:     pool,
		table:    table,
		name:     name,
		position: "position",
		limits:   limits{payload: cmp.Or(cfg.MaxRow, outbox.DefaultMaxRow)},
		log:      log,
		decoder:  decoder{table: table, maxRow: cmp.Or(cfg.MaxRow, outbox.DefaultMaxRow)},
	}
	s.located = func(full pgx.Identifier) {
		s.layout = layoutOf(full)
	}
	return s, nil
}

// Start implements [outbox.Source]. [outbox.StartTime] begins at the lowest
// position of a row created at or after the time, so that none of those is
// missed; rows behind it can be older, because created_at is no order. It
// reads the whole table, once.
func (s *Source) Start(ctx context.Context, at outbox.Start) (outbox.Cursor, error) {
	const last = `coalesce((
    SELECT max(m.position)
    FROM generate_series(0, 15) AS s(slot)
    CROSS JOIN LATERAL (
        SELECT o.position FROM {table} o WHERE o.slot = s.slot::smallint
        ORDER BY o.slot DESC, o.position DESC LIMIT 1
    ) m), 0)`
	var position string
	var args []any
	switch at.Kind {
	case outbox.StartBeginning:
		position = "0::bigint"
	case outbox.StartEnd:
		position = last
	case outbox.StartTime:
		position = "coalesce((SELECT min(o.position) - 1 FROM {table} o WHERE o.created_at >= $1), " + last + ")"
		args = []any{at.Time}
	default:
		return outbox.Cursor{}, fmt.Errorf("outbox table %s: start %q is none of beginning, end, time", s.table, at.Kind)
	}
	if err := s.find(ctx); err != nil {
		return outbox.Cursor{}, explain(s.table, "start at "+string(at.Kind), err)
	}
	var c outbox.Cursor
	q := "SELECT " + inTable(position, s.layout.table) + ", pg_current_snapshot()::text"
	if err := s.pool.QueryRow(ctx, q, args...).Scan(&c.Position, &c.Snapshot); err != nil {
		return outbox.Cursor{}, explain(s.table, "start at "+string(at.Kind), err)
	}
	return c, nil
}

// find looks the table up, once; what uses its name or the layout calls it first.
func (s *Source) find(ctx context.Context) error {
	return s.location.find(ctx, s.pool, s.name, s.located)
}

// Close releases the connections. It waits for a Fetch that is running, so
// cancel that one's context first.
func (s *Source) Close() error {
	s.stopListening()
	s.mu.Lock()
	s.closed = true
	s.drop()
	s.mu.Unlock()
	s.pool.Close()
	s.closing.Wait()
	return nil
}

// drop gives the reading connection up; the next Fetch makes a new one.
func (s *Source) drop() {
	if s.reader != nil {
		s.discard(s.reader)
		s.reader = nil
		s.floor.Store(nil) // it belongs to the server that we were connected to
	}
}
