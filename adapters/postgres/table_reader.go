package postgres

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/outbox"
)

// tableReader is what the sources of all layouts have in common: where the table is,
// the connection that reads it, and what keeps a cursor from being used in a
// database that it does not belong to.
type tableReader struct {
	outbox.Waker
	waker   *waker
	kind    readLayout
	pool    *pgxpool.Pool // for everything but reading rows
	table   string        // as configured, for people
	quoted  string        // with its schema, after find
	log     *slog.Logger
	closing sync.WaitGroup // connections being closed

	location location

	mu      sync.Mutex // held by Fetch; guards the rest
	conn    *readConn  // nil: connect
	closed  bool
	cluster string // identity of what was read first; "" before
	decoder decoder
}

// readLayout is what differs between the layouts of tables.
type readLayout struct {
	// position is the column of positions.
	position string

	// own reports that the layout is Outrider's: its positions come from a sequence, and
	// `outrider rebase` can place its cursors anew.
	own bool

	// located is called once with the table's full name.
	located func(full pgx.Identifier)

	// prepare prepares the statement that fetches, on a new connection.
	prepare func(ctx context.Context, r *readConn) error

	// rowAt returns the anchor of the row at the cursor's position; zero: there is none.
	// below: rows before it prove that it should be there.
	rowAt func(ctx context.Context, q querier, c *outbox.Cursor) (a outbox.Anchor, below bool, err error)

	// explain says for which table and in doing what an error came up, and its fix.
	explain func(what string, err error) error

	// dropped is called when the connection was given up.
	dropped func()
}

const (
	// sideConns bounds the connections beside the one that fetches: for checks
	// and commands, which are rare.
	sideConns = 2

	// sideIdle is how long such a connection is kept without use.
	sideIdle = time.Minute

	// readBuffer is how much is read from a connection at once, if so much has
	// come: pgx alone takes 8 KiB, which is a system call for every twenty rows of
	// a backlog.
	readBuffer = 64 << 10
)

// newReadPool returns the pool for everything but reading rows. It does not connect.
func newReadPool(ctx context.Context, c connection) (*pgxpool.Pool, error) {
	c.application, c.most = "outrider-source", sideConns
	pc, err := c.poolConfig()
	if err != nil {
		return nil, err
	}
	pc.MaxConnIdleTime = sideIdle
	// A connection that died while idle, with the server's restart, is no reason
	// for a command to fail.
	pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	if c.config == nil { // what an application configured itself is its own
		pc.ConnConfig.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
			return pgproto3.NewFrontend(bufio.NewReaderSize(r, readBuffer), w)
		}
	}
	return pgxpool.NewWithConfig(ctx, pc)
}

func newTableReader(pool *pgxpool.Pool, table string, name pgx.Identifier, mode wakeMode, log *slog.Logger, maxRow int64, layout readLayout) *tableReader {
	log = cmp.Or(log, slog.Default())
	w := newWaker(mode, pool, log, name)
	return &tableReader{
		Waker: w, waker: w, kind: layout, pool: pool, table: table, log: log,
		location: location{name: name}, decoder: decoder{table: table, maxRow: maxRow},
	}
}

// find looks the table up, once; what uses its name calls it first.
func (t *tableReader) find(ctx context.Context) error {
	return t.location.find(ctx, t.pool, func(full pgx.Identifier) {
		t.quoted = full.Sanitize()
		t.kind.located(full)
	})
}

// errClosed is for the use of a source after its end.
var errClosed = errors.New("the source is closed")

// connected returns the connection that reads, and makes it where there is none. The
// caller has the lock.
func (t *tableReader) connected(ctx context.Context, reads []outbox.Read) (*readConn, error) {
	if t.closed {
		return nil, t.kind.explain("read", errClosed)
	}
	if t.conn != nil {
		return t.conn, nil
	}
	err := t.find(ctx)
	var r *readConn
	if err == nil {
		r, err = t.open(ctx)
	}
	if err == nil {
		if err = t.verify(ctx, r.conn, reads); err != nil {
			t.discard(r)
		}
	}
	if err != nil {
		return nil, t.kind.explain("connect to read", err)
	}
	t.conn = r
	t.log.DebugContext(ctx, "connected to read a table", "table", t.table)
	return r, nil
}

// open makes a connection that can fetch. It is taken out of the pool, so that the
// pool's hooks apply to it.
func (t *tableReader) open(ctx context.Context) (*readConn, error) {
	c, err := t.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	r := &readConn{conn: c.Hijack()}
	if _, err = r.conn.PgConn().Exec(ctx, fetchSettings).ReadAll(); err == nil {
		err = t.kind.prepare(ctx, r)
	}
	if err != nil {
		t.discard(r)
		return nil, err
	}
	return r, nil
}

// drop gives the reading connection up; the next Fetch makes a new one.
func (t *tableReader) drop() {
	if t.conn != nil {
		t.discard(t.conn)
		t.conn = nil
		t.kind.dropped()
	}
}

// discard closes a connection without waiting for it; Close does.
func (t *tableReader) discard(r *readConn) {
	t.closing.Go(func() { closeConn(r.conn) })
}

// Close releases the connections. It waits for a Fetch that is running, so
// cancel that one's context first.
func (t *tableReader) Close() error {
	t.waker.stopListening()
	t.mu.Lock()
	t.closed = true
	t.drop()
	t.mu.Unlock()
	t.pool.Close()
	t.closing.Wait()
	return nil
}

// TableName implements [outbox.TableNamer]: database, schema and table.
func (t *tableReader) TableName(ctx context.Context) (name string, err error) {
	const q = `SELECT 'postgresql/' || current_database() || '/' || n.nspname || '.' || c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::text::regclass`
	if err = t.find(ctx); err == nil {
		err = t.pool.QueryRow(ctx, q, t.quoted).Scan(&name)
	}
	return name, t.kind.explain("ask for the table's full name", err)
}

// starts are expressions of the positions at which a route may start. Of since the
// parameter is the time; empty: it is not known when rows were created.
type starts struct{ beginning, end, since string }

// errNoTimes is for a start at a time in a table that does not say when rows were created.
var errNoTimes = errors.New("which column says when a row was created is not known: " +
	"give columns: {created_at: ...}, or start at beginning or end")

// start returns the cursor at one of the places; fill puts the table's names into a
// statement.
func (t *tableReader) start(ctx context.Context, at outbox.Start, places starts, fill func(sql string) string) (outbox.Cursor, error) {
	err := t.find(ctx)
	var position string
	var args []any
	switch at.Kind {
	case outbox.StartBeginning:
		position = places.beginning
	case outbox.StartEnd:
		position = places.end
	case outbox.StartTime:
		if position, args = places.since, []any{at.Time}; position == "" {
			err = errNoTimes
		}
	default:
		err = errors.New("it is none of beginning, end, time")
	}
	var c outbox.Cursor
	if err == nil {
		err = t.pool.QueryRow(ctx, fill("SELECT ("+position+")::bigint, pg_current_snapshot()::text"), args...).Scan(&c.Position, &c.Snapshot)
	}
	if err != nil {
		return outbox.Cursor{}, t.kind.explain("start at "+string(at.Kind), err)
	}
	return c, nil
}

// backlogSettings keep the plan of the counts to ranges of indexes, whatever the
// planner's statistics say.
const backlogSettings = pinTransaction + `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;
SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off;
SET LOCAL max_parallel_workers_per_gather = 0`

// count runs f in a transaction that only reads, and along indexes.
func (t *tableReader) count(ctx context.Context, f func(pgx.Tx) error) error {
	if err := t.find(ctx); err != nil {
		return err
	}
	return pgx.BeginTxFunc(ctx, t.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, backlogSettings); err != nil {
			return err
		}
		return f(tx)
	})
}
