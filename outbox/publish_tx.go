package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNoTransaction is the error of Publish and Lock when they are not given a
// running transaction.
var ErrNoTransaction = errors.New("publish inside your transaction: pass the pgx.Tx or *sql.Tx that changes your data, before it ends, or nil inside of outbox.InTx, " +
	"so that message and data are committed or rolled back together; outside of it a crash between the two loses the message or announces what never happened")

// pgxTx and sqlTx have the methods that are needed of a transaction. Commit and Rollback are
// never called: they tell a transaction from a pool or connection.
type (
	pgxTx interface {
		Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
		Commit(ctx context.Context) error
		Rollback(ctx context.Context) error
	}
	sqlTx interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		Commit() error
		Rollback() error
	}
)

// execFunc runs one statement in a transaction.
type execFunc func(ctx context.Context, query string, args ...any) error

// current returns tx, or if it is nil the transaction that ctx carries, see [InTx].
func current(ctx context.Context, tx any) any {
	if tx == nil {
		if s, _ := ctx.Value(scopeKey{}).(*scope); s != nil {
			return s.tx
		}
	}
	return tx
}

// transaction returns how to run a statement in tx, or [ErrNoTransaction].
func transaction(tx any, dialect Dialect) (execFunc, error) {
	if v := reflect.ValueOf(tx); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("the transaction is nil: %w", ErrNoTransaction)
	}
	var exec execFunc
	switch tx := tx.(type) {
	case pgxTx:
		if dialect != PostgreSQL {
			return nil, fmt.Errorf("a %T is a PostgreSQL transaction, but the client's Dialect is %q; use a client with outbox.PostgreSQL", tx, dialect)
		}
		exec = func(ctx context.Context, query string, args ...any) error {
			_, err := tx.Exec(ctx, query, args...)
			return err
		}
	case sqlTx:
		exec = func(ctx context.Context, query string, args ...any) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		}
	default:
		return nil, fmt.Errorf("a %T is not a transaction: %w", tx, ErrNoTransaction)
	}
	return func(ctx context.Context, query string, args ...any) error {
		return notEnded(exec(ctx, query, args...))
	}, nil
}

// notEnded says of a transaction that has ended that it is none.
func notEnded(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("the transaction has ended already (%w): %w", err, ErrNoTransaction)
	}
	return err
}
