package statestore

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// stateConns bounds the connections: one settles, one acquires, two look up and record
// events, and operators and metrics look on. The connection that shows our
// life is not among them.
const stateConns = 6

// TLS says how connections are encrypted. The zero value is safe.
type TLS = my.TLS

// Config says where a [Store] keeps its tables.
type Config struct {
	// URL of the database, mysql://... or mariadb://... It must lead to the server that takes writes, and not through a proxy that
	// shares a connection among clients: ownership of lanes is shown by a lock of the session.
	URL string

	// TLS says how the connections are encrypted. The zero value is safe.
	TLS TLS

	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Store keeps cursors, ownership of lanes and parked messages in MariaDB or MySQL. It
// implements [adapters.StateStore]. The database need not be the one that a queue
// is in.
//
// An instance that joined holds one connection of its own with a lock (GET_LOCK). When its process dies the server
// drops the lock with the connection, and others take its lanes without waiting for the lease.
type Store struct {
	*state.Operators
	db     *sql.DB
	leases *sql.DB // makes connections that hold the lock; keeps none
	log    *slog.Logger
}

var _ adapters.OperatorStore = (*Store)(nil)

// New opens the store. It connects to verify the URL; it creates no
// tables, see [Store.Migrate].
func New(ctx context.Context, cfg Config) (*Store, error) {
	c := my.Connection{URL: cfg.URL, TLS: cfg.TLS, MaxConns: stateConns}
	db, err := c.Open()
	if err != nil {
		return nil, stateError("open", err)
	}
	leases, err := alone(c)
	if err != nil {
		return nil, errors.Join(stateError("open", err), db.Close())
	}
	s := &Store{db: db, leases: leases, log: cfg.Logger}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.Operators = state.NewOperators(s.database())
	var database sql.NullString
	if err := db.QueryRowContext(ctx, "SELECT database()").Scan(&database); err != nil {
		return nil, errors.Join(stateError("connect", err), s.Close())
	}
	if database.String == "" {
		return nil, errors.Join(errors.New("state store: the URL names no database; write mysql://user@host:port/database"), s.Close())
	}
	return s, nil
}

// alone makes connections that are closed when they are given back.
func alone(c my.Connection) (*sql.DB, error) {
	db, err := c.Open()
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(-1)
	return db, nil
}

// Close releases the connections, the one that shows our life too: without
// [Store.Leave] before it, others take the lanes as after a crash.
func (s *Store) Close() error {
	s.CloseSession()
	return errors.Join(s.leases.Close(), s.db.Close())
}

// transact runs f in one transaction, and again as a whole while another one is in the way.
func (s *Store) transact(ctx context.Context, f func(tx *sql.Tx) error) error {
	return my.Transact(ctx, s.db, f)
}

// affected is how many rows a statement found.
func affected(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// stateError says what failed and, where one follows from the server's answer,
// the fix.
func stateError(what string, err error) error {
	switch {
	case my.FailedWith(err, my.NoSuchTable, my.UnknownColumn):
		return my.Describe("state store", what+" (the state tables are missing or of an older version, call Migrate: `outrider run` does)", err)
	case my.FailedWith(err, packetTooLarge):
		return my.Describe("state store", what+" (raise max_allowed_packet on the server above the largest message)", err)
	}
	return my.Describe("state store", what, err)
}

// packetTooLarge is the number of the error for a statement above max_allowed_packet.
const packetTooLarge = 1153
