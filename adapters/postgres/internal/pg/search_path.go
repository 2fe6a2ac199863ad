package pg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Every role that may CREATE in a schema of the search path can have its own
// functions and operators called by sessions with that path: one for (text,
// integer) fits hashtextextended('x', 0) better than PostgreSQL's own for (text,
// bigint). So on our connections nothing is looked for outside of pg_catalog.
// Tables are looked up once, in the path that the connection was opened with,
// and named with their schema from then on.

const (
	// safePath is the search path of our connections. pg_temp is named so that it
	// comes last; otherwise temporary tables hide those of the catalogue.
	safePath = "pg_catalog, pg_temp"

	// pinSession sets it, the isolation level of our transactions, and what costs more than any of our statements, until the
	// connection ends. As parameters of the start a PgBouncer would refuse them.
	pinSession = "SET search_path = " + safePath + ";\nSET default_transaction_isolation = 'read committed';\nSET jit = off;\n"

	// PinTransaction sets it until the transaction ends.
	PinTransaction = "SET LOCAL search_path = " + safePath + ";\n"

	// openedSQL reads the path that the connection was opened with, and sets what is ours
	// where the process at its other end is the one that it was opened to. At another isolation level,
	// which can be a database's default, rows that another process changes at the same time would fail a settle.
	openedSQL = `WITH opened AS MATERIALIZED (SELECT pg_catalog.current_schemas(false)::pg_catalog.text[] AS path)
SELECT o.path, CASE WHEN pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) %d
    THEN pg_catalog.concat(pg_catalog.set_config('search_path', '` + safePath + `', false), pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
        pg_catalog.set_config('jit', 'off', false)) END
FROM opened o`

	// openedPath is where a connection remembers the path that it was opened with.
	openedPath = "outrider search_path"

	// lentSessions is where a connection remembers that its server sessions are lent for a transaction.
	lentSessions = "outrider lent sessions"
)

// pinConnections has each new connection of a pool remember its search path, and
// set ours, the isolation level READ COMMITTED, and jit off. It costs one round trip.
//
// A connection that leads to another process than it was opened to has a pooler in
// between. If that lends us another session of the server for each transaction,
// what is set stays with a session that is next given to another client, whose
// tables would not be found any more. So there only our transactions set the path
// (see beginPinned), and all that sets more of a session asks [KeepsSession] first.
func pinConnections(pc *pgxpool.Config) {
	connected := pc.AfterConnect
	var behind pooled
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if connected != nil {
			if err := connected(ctx, conn); err != nil {
				return err
			}
		}
		path, pinned, err := readPath(ctx, conn, fmt.Sprintf(openedSQL, int32(conn.PgConn().PID())))
		if err != nil {
			return err
		}
		conn.PgConn().CustomData()[openedPath] = path
		if pinned {
			return nil
		}
		shared, err := behind.sharesSessions(ctx, conn)
		if shared {
			conn.PgConn().CustomData()[lentSessions] = true
		}
		if err != nil || shared {
			return err
		}
		return conn.PgConn().Exec(ctx, pinSession).Close()
	}
}

// pooled finds out what kind of pooler a pool's connections lead through.
type pooled struct {
	mu     sync.Mutex
	known  time.Time
	shares bool
}

// pooledAnew is for how long the answer holds. A pooler that is restarted in another mode breaks all connections; those that
// are opened next must know it, and not each of them has to find out.
const pooledAnew = 10 * time.Second

// sharesSessions reports whether the pooler lends sessions for a transaction.
func (p *pooled) sharesSessions(ctx context.Context, conn *pgx.Conn) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known.IsZero() && time.Since(p.known) < pooledAnew {
		return p.shares, nil
	}
	other, err := pgx.ConnectConfig(ctx, conn.Config())
	if err != nil {
		return false, err
	}
	defer func() { _ = other.Close(context.WithoutCancel(ctx)) }() // nothing was written
	p.shares, err = sessionsAreShared(ctx, conn, other)
	if err == nil {
		p.known = time.Now()
	}
	return p.shares, err
}

// readPath runs a statement whose first column is a path; more reports whether a second
// one has a value. It takes one round trip, and no prepared statement.
func readPath(ctx context.Context, conn *pgx.Conn, sql string) (path []string, more bool, err error) {
	result := conn.PgConn().ExecParams(ctx, sql, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return nil, false, result.Err
	}
	row := result.Rows[0]
	err = conn.TypeMap().Scan(pgtype.TextArrayOID, pgtype.TextFormatCode, row[0], &path)
	return path, len(row) > 1 && row[1] != nil, err
}

// pathOf returns the schemas that exist and are searched, in their order, as they
// were when the connection was opened. Those of the catalogue and of temporary
// tables are left out: Outrider has no table there.
func pathOf(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	path, ok := conn.PgConn().CustomData()[openedPath].([]string)
	if !ok { // a connection that the application has opened
		var err error
		if path, _, err = readPath(ctx, conn, "SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]"); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(path), func(s string) bool {
		return s == "pg_catalog" || strings.HasPrefix(s, "pg_temp_")
	}), nil
}

// Locate returns the name of a table, or of something else in its schema, with
// the schema: for a name without one the first of the connection's path that has
// it. found is false when none has; the schema is then the one in which the table
// would be created.
func Locate(ctx context.Context, conn *pgx.Conn, name pgx.Identifier) (_ pgx.Identifier, found bool, err error) {
	const sql = `SELECT n.nspname FROM pg_catalog.unnest($1::pg_catalog.text[]) WITH ORDINALITY AS s(name, n)
JOIN pg_catalog.pg_namespace n ON n.nspname OPERATOR(pg_catalog.=) s.name::pg_catalog.name
JOIN pg_catalog.pg_class c ON c.relnamespace OPERATOR(pg_catalog.=) n.oid AND c.relname OPERATOR(pg_catalog.=) $2::pg_catalog.name
ORDER BY s.n LIMIT 1`
	if len(name) > 1 {
		return name, true, nil
	}
	path, err := pathOf(ctx, conn)
	if err != nil {
		return nil, false, err
	}
	if len(path) == 0 {
		return nil, false, fmt.Errorf("the role's search_path names no schema that exists and that it may use, so a table without one is in none: write schema.%s",
			name.Sanitize())
	}
	rows, err := conn.Query(ctx, sql, path, name[0])
	if err != nil {
		return nil, false, err
	}
	schemas, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, false, err
	}
	if len(schemas) == 0 {
		return pgx.Identifier{path[0], name[0]}, false, nil
	}
	return pgx.Identifier{schemas[0], name[0]}, true, nil
}

// LocateTable is [Locate] for a table that is there; one that is missing is the
// server's own error.
func LocateTable(ctx context.Context, pool *pgxpool.Pool, name pgx.Identifier) (pgx.Identifier, error) {
	if len(name) > 1 {
		return name, nil
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	full, found, err := Locate(ctx, conn.Conn(), name)
	if err == nil && !found {
		// Unlike to_regclass the cast says what is missing.
		_, err = conn.Exec(ctx, "SELECT $1::pg_catalog.text::pg_catalog.regclass", full.Sanitize())
	}
	return full, err
}

// BeginPinned runs f in a transaction of a pool that may be anybody's, with our
// search path.
func BeginPinned(ctx context.Context, pool *pgxpool.Pool, f func(pgx.Tx) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	// Before the transaction, because it can be read only before the path is set.
	path, err := pathOf(ctx, conn.Conn())
	if err != nil {
		return err
	}
	data := conn.Conn().PgConn().CustomData()
	if _, ok := data[openedPath]; !ok {
		data[openedPath] = path
		defer delete(data, openedPath) // its owner may set another
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, PinTransaction, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		return f(tx)
	})
}

// Location finds out once where a table is. The values that f of Find sets may be read
// after it has returned nil, and do not change any more.
type Location struct {
	Name  pgx.Identifier // as configured
	known atomic.Bool
	mu    sync.Mutex
}

// Find calls f with the table's full name, unless it has been.
func (l *Location) Find(ctx context.Context, pool *pgxpool.Pool, f func(pgx.Identifier)) error {
	if l.known.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known.Load() {
		return nil
	}
	full, err := LocateTable(ctx, pool, l.Name)
	if err == nil {
		f(full)
		l.known.Store(true)
	}
	return err
}
