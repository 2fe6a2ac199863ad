package state

import (
	"context"
	"database/sql"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

// Tx is a transaction of whatever driver a store uses, or for reading alone its
// pool.
type Tx interface {
	// Each runs a query and calls row for each of its rows, with the function
	// that scans it.
	Each(ctx context.Context, s *sqltext.Statement, row func(scan func(...any) error) error) error

	// Exec returns how many rows were changed.
	Exec(ctx context.Context, s *sqltext.Statement) (int64, error)
}

// Database is how a state store reaches its database.
type Database struct {
	Dialect
	Name string // what it is, for errors: state store
	Log  *slog.Logger

	// Pool is the database outside of transactions. Transact runs f in one, and again as a whole while another transaction is in the way.
	Pool     Tx
	Transact func(ctx context.Context, f func(tx Tx) error) error

	// Wrap says what failed; nil for nil.
	Wrap func(what string, err error) error

	// LockOwners keeps those who change who has lanes of a route, or which table it reads, away until the transaction ends. nil: the
	// transaction does.
	LockOwners func(ctx context.Context, tx Tx, route string) error

	// LockRoute keeps those who take lanes of a route, and settles of its lanes, away until the transaction ends. nil: the transaction does.
	LockRoute func(ctx context.Context, tx Tx, route string) error

	// Migrations has the files that lead to the newest version of the tables, and Version returns the one that they have; 0: there are none.
	Migrations fs.ReadFileFS
	Version    func(ctx context.Context) (int64, error)

	// Open begins the session that shows that an instance lives, and renews its lease. It ends those of the former sessions
	// that still hold its lock. With an error, session has to be closed unless it is nil.
	Open func(ctx context.Context, instance string, lease time.Duration, former []int64) (session Session, lanes map[adapters.LaneRef]adapters.LaneMark, err error)

	// Sweep removes instances that ended long ago without leaving.
	Sweep func(ctx context.Context) error

	// EndSession ends the session that shows that an instance lives, if there is one. nil: nothing but its lease shows it.
	EndSession func(ctx context.Context, instance string) error

	// Move places the cursors of a route, whose lock the transaction has; their rows may be missing.
	Move func(ctx context.Context, tx Tx, m adapters.Move) error
}

// Operators is the part of a state store that is the same for all databases: what operators read and change, and parked messages as
// their owner reads them. A state store embeds it.
type Operators struct {
	db        Database
	announced atomic.Pointer[announced]

	mu       sync.Mutex // guards the rest
	session  Session    // nil: not joined
	instance string     // that the session is of
	former   []int64    // sessions that were given up, and may hold the lock
}

// NewOperators returns that part over a database.
func NewOperators(db Database) *Operators { return &Operators{db: db} }

// query makes a statement.
func (db *Database) query(template string, args ...any) *sqltext.Statement {
	return db.New(template, db.Names, args...)
}

// exec runs a statement.
func (db *Database) exec(ctx context.Context, tx Tx, template string, args ...any) (int64, error) {
	return tx.Exec(ctx, db.query(template, args...))
}

// transact runs f in a transaction. what says what failed then.
func (db *Database) transact(ctx context.Context, what string, f func(tx Tx) error) error {
	return db.Wrap(what, db.Transact(ctx, f))
}

// Querier is a database, a connection or a transaction of database/sql.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// SQLTx is a Querier as a [Tx].
type SQLTx struct{ DB Querier }

// Each implements [Tx].
func (t SQLTx) Each(ctx context.Context, s *sqltext.Statement, row func(scan func(...any) error) error) error {
	return Each(ctx, t.DB, s.SQL(), s.Args, row)
}

// Each runs a query and calls row for each of its rows.
func Each(ctx context.Context, q Querier, query string, args []any, row func(scan func(...any) error) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Exec implements [Tx].
func (t SQLTx) Exec(ctx context.Context, s *sqltext.Statement) (int64, error) {
	result, err := t.DB.ExecContext(ctx, s.SQL(), s.Args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// SQLTransact is a [Database.Transact] by one of database/sql.
func SQLTransact(transact func(ctx context.Context, f func(tx *sql.Tx) error) error) func(ctx context.Context, f func(tx Tx) error) error {
	return func(ctx context.Context, f func(tx Tx) error) error {
		return transact(ctx, func(tx *sql.Tx) error { return f(SQLTx{tx}) })
	}
}
