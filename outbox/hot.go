package outbox

import (
	"context"
	"database/sql"
	"reflect"

	"github.com/jackc/pgx/v5"
)

// HotPath delivers messages right after their commit. A relay in the same process is one: (*outrider.Outrider).HotPath returns it
// for [ClientConfig].
type HotPath interface {
	// Announce prepares an INSERT; nil: its rows are left to the relay's next poll.
	Announce(insert string) HotInsert
}

// HotInsert is an INSERT whose rows may be delivered right after the commit. It is used by one
// goroutine.
type HotInsert interface {
	// Statement is what to run in place of the INSERT, with its arguments. All columns that it returns are text.
	Statement() string

	// Inserted takes a row that it returned.
	Inserted(columns []*string)

	// Committed hands the rows over, after the commit. It does not block and never fails: the poll finds rows that have no room.
	Committed()

	// Forget is called instead when the transaction was rolled back.
	Forget()
}

// publishHot publishes by the hot path. False, and nothing has been done: the transaction is not one of [InTx], whose end would be known, or
// its rows are left to the poll.
func (c *Client) publishHot(ctx context.Context, tx any, insert string, args []any) (done bool, err error) {
	of := runningOf(ctx, tx)
	if of == nil {
		return false, nil
	}
	query := querying(tx)
	if query == nil {
		return false, nil
	}
	in := c.hot.Announce(insert)
	if in == nil {
		return false, nil
	}
	if err := query(ctx, in, args); err != nil {
		in.Forget()
		return true, notEnded(err)
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.ended {
		in.Forget()
		return true, ErrNoTransaction
	}
	of.published = append(of.published, in)
	return true, nil
}

// runningOf is the transaction of [InTx] that tx is, if ctx carries it. A savepoint of it is another one.
func runningOf(ctx context.Context, tx any) *running {
	if !reflect.TypeOf(tx).Comparable() {
		return nil
	}
	for s, _ := ctx.Value(scopeKey{}).(*scope); s != nil; s = s.outer {
		if s.tx == tx {
			return s.running
		}
	}
	return nil
}

// querying returns how to run a statement that returns rows; nil for a transaction that cannot.
func querying(tx any) func(ctx context.Context, in HotInsert, args []any) error {
	switch tx := tx.(type) {
	case interface {
		Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	}:
		return func(ctx context.Context, in HotInsert, args []any) error {
			rows, err := tx.Query(ctx, in.Statement(), args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				if err := inserted(in, len(rows.FieldDescriptions()), rows.Scan); err != nil {
					return err
				}
			}
			return rows.Err()
		}
	case interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}:
		return func(ctx context.Context, in HotInsert, args []any) error {
			rows, err := tx.QueryContext(ctx, in.Statement(), args...)
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			for rows.Next() {
				if err := inserted(in, len(columns), rows.Scan); err != nil {
					return err
				}
			}
			return rows.Err()
		}
	}
	return nil
}

// inserted passes a row on.
func inserted(in HotInsert, n int, scan func(...any) error) error {
	columns, to := make([]*string, n), make([]any, n)
	for i := range columns {
		to[i] = &columns[i]
	}
	if err := scan(to...); err != nil {
		return err
	}
	in.Inserted(columns)
	return nil
}

// deliverHot hands over what was published by the hot path, or forgets it.
func (r *running) deliverHot(committed bool) {
	for _, in := range r.published {
		if committed {
			in.Committed()
		} else {
			in.Forget()
		}
	}
}
