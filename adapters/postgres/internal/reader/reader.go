package reader

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wake"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// Reader is what the sources of all layouts have in common: where the table is,
// the connection that reads it, and what keeps a cursor from being used in a
// database that it does not belong to.
type Reader struct {
	adapters.Waker
	pg.Transactions // its Pool is for everything but reading rows
	Listening       *wake.Waker
	kind            Layout
	Table           string         // as configured, for people
	Name            pgx.Identifier // with its schema, after Find
	Quoted          string         // likewise, as in SQL
	Log             *slog.Logger
	closing         sync.WaitGroup // connections being closed

	location pg.Location

	Mu      sync.Mutex // held by Fetch; guards the rest
	Conn    *Conn      // nil: connect
	closed  bool
	Cluster string // identity of what was read first; "" before
	Decoder wire.Decoder

	newest atomic.Int64 // rows that were created up to then were there before anything was read
}

// SourceMethods are the methods of a source that are the same for all layouts.
type SourceMethods interface {
	adapters.Waker
	adapters.TransactionLister
	adapters.SnapshotComparer
	adapters.SnapshotFitter
	Anchored(ctx context.Context, c adapters.Cursor) (adapters.Cursor, error)
	Validate(ctx context.Context, c adapters.Cursor) error
	Close() error
}

// Layout is what differs between the layouts of tables.
type Layout struct {
	// position is the column of positions.
	Position string

	// Lanes becomes [adapters.Table].Lanes.
	Lanes string

	// own reports that the layout is Outrider's: its positions come from a sequence, and
	// `outrider rebase` can reposition its cursors.
	Own bool

	// located is called once with the table's full name.
	Located func(full pgx.Identifier)

	// prepare prepares the statement that fetches, on a new connection.
	Prepare func(ctx context.Context, r *Conn) error

	// rowAt returns the anchor of the row at the cursor's position; zero: there is none. newest is then when the newest row
	// was created that the cursor covers, in microseconds since 1970; 0: not known.
	RowAt func(ctx context.Context, q pg.Querier, c *adapters.Cursor) (a adapters.Anchor, newest int64, err error)

	// explain says for which table and in doing what an error came up, and its fix.
	Explain func(what string, err error) error

	// dropped is called when the connection was given up.
	Dropped func()
}

const (
	// sideConns bounds the connections beside the one that fetches: for checks
	// and commands, which are rare.
	sideConns = 2

	// sideIdle is how long such a connection is kept without use.
	sideIdle = time.Minute
)

// NewPool returns the pool for everything but reading rows. It does not connect.
func NewPool(ctx context.Context, c pg.Connection) (*pgxpool.Pool, error) {
	c.Application, c.MaxConns = "outrider-source", sideConns
	pc, err := c.PoolConfig()
	if err != nil {
		return nil, err
	}
	pc.MaxConnIdleTime = sideIdle
	// A connection that died while idle, with the server's restart, is no reason
	// for a command to fail.
	pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	return pgxpool.NewWithConfig(ctx, pc)
}

// New returns the reader of a table, by its name as configured and as parsed.
func New(pool *pgxpool.Pool, table string, name pgx.Identifier, mode wake.Mode, log *slog.Logger, maxRow int64, layout Layout) *Reader {
	log = cmp.Or(log, slog.Default())
	w := wake.New(mode, pool, log, name)
	return &Reader{
		Waker: w, Listening: w, kind: layout, Transactions: pg.Transactions{Pool: pool}, Table: table, Log: log,
		location: pg.Location{Name: name}, Decoder: wire.Decoder{Table: table, MaxRow: maxRow},
	}
}

// Find looks the table up, once; what uses its name calls it first.
func (r *Reader) Find(ctx context.Context) error {
	return r.location.Find(ctx, r.Pool, func(full pgx.Identifier) {
		r.Name, r.Quoted = full, full.Sanitize()
		r.kind.Located(full)
	})
}

// Explain says for which table and in doing what an error came up, and its fix.
func (r *Reader) Explain(what string, err error) error { return r.kind.Explain(what, err) }

// errClosed is for the use of a source after its end.
var errClosed = errors.New("the source is closed")

// Connected returns the connection that reads, and makes it where there is none. The
// caller has the lock.
func (r *Reader) Connected(ctx context.Context, reads []adapters.Read) (*Conn, error) {
	if r.closed {
		return nil, r.kind.Explain("read", errClosed)
	}
	r.Decoder.Newest = max(r.Decoder.Newest, r.newest.Load())
	for i := range reads {
		r.Decoder.Newest = max(r.Decoder.Newest, reads[i].From.Anchor.Newest)
	}
	if r.Conn != nil {
		return r.Conn, nil
	}
	err := r.Find(ctx)
	var conn *Conn
	if err == nil {
		conn, err = r.Open(ctx)
	}
	if err == nil {
		if err = r.verify(ctx, conn.Conn, reads); err != nil {
			r.Discard(conn)
		}
	}
	if err != nil {
		return nil, r.kind.Explain("connect to read", err)
	}
	r.Conn = conn
	r.Log.DebugContext(ctx, "connected to read a table", "table", r.Table)
	return conn, nil
}

// Open makes a connection that can fetch. It is taken out of the pool, so that the
// pool's hooks apply to it.
func (r *Reader) Open(ctx context.Context) (*Conn, error) {
	c, err := r.Pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	conn := &Conn{Conn: c.Hijack()}
	if err = pg.KeepsSession(conn.Conn); err == nil {
		_, err = conn.Conn.PgConn().Exec(ctx, fetchSettings).ReadAll()
	}
	if err == nil {
		err = r.kind.Prepare(ctx, conn)
	}
	if err != nil {
		r.Discard(conn)
		return nil, err
	}
	return conn, nil
}

// Drop gives the reading connection up; the next Fetch makes a new one.
func (r *Reader) Drop() {
	if r.Conn != nil {
		r.Discard(r.Conn)
		r.Conn = nil
		r.kind.Dropped()
	}
}

// Discard closes a connection without waiting for it; Close does.
func (r *Reader) Discard(conn *Conn) {
	r.closing.Go(func() { pg.Close(conn.Conn) })
}

// Close releases the connections. It waits for a Fetch that is running, so
// cancel that one's context first.
func (r *Reader) Close() error {
	r.Listening.Stop()
	r.Mu.Lock()
	r.closed = true
	r.Drop()
	r.Mu.Unlock()
	r.Pool.Close()
	r.closing.Wait()
	return nil
}

// Identity is the table that cursors belong to. Its name has database, schema and table.
func (r *Reader) Identity(ctx context.Context) (t adapters.Table, err error) {
	t.Lanes = r.kind.Lanes
	if t.Cluster, err = r.identity(ctx); err == nil {
		t.Name, err = r.tableName(ctx)
	}
	return t, err
}

func (r *Reader) tableName(ctx context.Context) (name string, err error) {
	const q = `SELECT 'postgresql/' || current_database() || '/' || n.nspname || '.' || c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::text::regclass`
	if err = r.Find(ctx); err == nil {
		err = r.Pool.QueryRow(ctx, q, r.Quoted).Scan(&name)
	}
	return name, r.kind.Explain("ask for the table's full name", err)
}

// Starts are expressions of the positions at which a route may start. Of since the
// parameter is the time; empty: it is not known when rows were created.
type Starts struct{ Beginning, End, Since string }

// errNoTimes is for a start at a time in a table that does not say when rows were created.
const errNoTimes = adapters.NoStart("which column says when a row was created is not known: " +
	"give columns: {created_at: ...}, or start at beginning or end")

// Start returns the cursor at one of the places; fill puts the table's names into a
// statement.
func (r *Reader) Start(ctx context.Context, at adapters.Start, places Starts, fill func(sql string) string) (adapters.Cursor, error) {
	err := r.Find(ctx)
	var position string
	var args []any
	switch at.Kind {
	case adapters.StartBeginning:
		position = places.Beginning
	case adapters.StartEnd:
		position = places.End
	case adapters.StartTime:
		if position, args = places.Since, []any{at.Time}; position == "" {
			err = errNoTimes
		}
	default:
		err = adapters.NoStart("it is none of beginning, end, time")
	}
	var c adapters.Cursor
	if err == nil {
		err = r.Pool.QueryRow(ctx, fill("SELECT ("+position+")::bigint, pg_current_snapshot()::text"), args...).Scan(&c.Position, &c.Snapshot)
	}
	if err != nil {
		return adapters.Cursor{}, r.kind.Explain("start at "+string(at.Kind), err)
	}
	return c, nil
}

// backlogSettings keep the plan of the counts to ranges of indexes, whatever the
// planner's statistics say.
const backlogSettings = pg.PinTransaction + `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;
SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off;
SET LOCAL max_parallel_workers_per_gather = 0`

// Count runs f in a transaction that only reads, and along indexes.
func (r *Reader) Count(ctx context.Context, f func(pgx.Tx) error) error {
	if err := r.Find(ctx); err != nil {
		return err
	}
	return pgx.BeginTxFunc(ctx, r.Pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, backlogSettings); err != nil {
			return err
		}
		return f(tx)
	})
}
