package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"strconv"
	"strings"

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
	// Statement runs in place of the INSERT, with its arguments. All columns that it returns are text.
	Statement() string

	// Inserted takes a row that it returned.
	Inserted(columns []*string)

	// Committed hands the rows over, after the commit. It does not block and never fails: the poll finds rows that have no room.
	Committed()

	// Forget is called instead when the transaction was rolled back.
	Forget()
}

// HotVersions is a [HotInsert] that says which versions of rows it would hand over. [InTx] asks the database right before the commit whether the
// transaction still has them: only the server knows what the function did by SQL after the INSERT.
type HotVersions interface {
	// Versions returns the transaction of the rows, an xid8, and the place of each, a ctid. None: nothing would be handed over.
	Versions() (xid string, places []string)
}

// hotInsert has the rows that were published by the hot path.
type hotInsert struct {
	HotInsert
	table string // quoted
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
	if err := query(ctx, in.Statement(), args, in.Inserted); err != nil {
		in.Forget()
		return true, notEnded(err)
	}
	return true, of.publishes(hotInsert{in, c.table})
}

// publishes keeps an INSERT until the end of the transaction.
func (r *running) publishes(in hotInsert) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		in.Forget()
		return ErrNoTransaction
	}
	r.published = append(r.published, in)
	return nil
}

// announce has the relay read the table after the commit: nothing that MySQL or SQLite returns of an INSERT says whether a row is the next of
// its group. The transaction is one of [InTx], or nothing is done.
func (c *Client) announce(ctx context.Context, tx any, insert string) error {
	of := runningOf(ctx, tx)
	if of == nil {
		return nil
	}
	if in := c.hot.Announce(insert); in != nil {
		return of.publishes(hotInsert{in, c.table})
	}
	return nil
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

// querying returns how to run a statement that returns rows of text; nil for a transaction that cannot.
func querying(tx any) func(ctx context.Context, statement string, args []any, each func(columns []*string)) error {
	switch tx := tx.(type) {
	case interface {
		Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	}:
		return func(ctx context.Context, statement string, args []any, each func([]*string)) error {
			rows, err := tx.Query(ctx, statement, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				if err := scanned(each, len(rows.FieldDescriptions()), rows.Scan); err != nil {
					return err
				}
			}
			return rows.Err()
		}
	case interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}:
		return func(ctx context.Context, statement string, args []any, each func([]*string)) error {
			rows, err := tx.QueryContext(ctx, statement, args...)
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			for rows.Next() {
				if err := scanned(each, len(columns), rows.Scan); err != nil {
					return err
				}
			}
			return rows.Err()
		}
	}
	return nil
}

// scanned passes a row on.
func scanned(each func([]*string), n int, scan func(...any) error) error {
	columns, to := make([]*string, n), make([]any, n)
	for i := range columns {
		to[i] = &columns[i]
	}
	if err := scan(to...); err != nil {
		return err
	}
	each(columns)
	return nil
}

// hotLook counts the versions of rows that a transaction still has, and says which transaction that is. By ctid it needs no index.
const hotLook = `SELECT count(*)::text, pg_catalog.pg_current_xact_id_if_assigned()::text
FROM %s WHERE ctid = ANY (($1::text)::tid[]) AND xmin = (($2::text)::xid8)::xid`

// checkHot asks, before the commit, whether the transaction is still the one that has published, with the rows as they were inserted. Otherwise it
// forgets them, which leaves them to the relay's poll.
func (r *running) checkHot(ctx context.Context) {
	places, xid := map[string][]string{}, ""
	for _, in := range r.published {
		v, ok := in.HotInsert.(HotVersions)
		if !ok {
			continue
		}
		of, at := v.Versions()
		if len(at) > 0 {
			r.endedBySQL = r.endedBySQL || xid != "" && xid != of
			xid, places[in.table] = of, append(places[in.table], at...)
		}
	}
	kept := !r.endedBySQL
	for table, at := range places {
		err := querying(r.tx)(ctx, fmt.Sprintf(hotLook, table), []any{`{"` + strings.Join(at, `","`) + `"}`, xid}, func(c []*string) {
			r.endedBySQL = r.endedBySQL || c[1] == nil || *c[1] != xid
			kept = kept && !r.endedBySQL && *c[0] == strconv.Itoa(len(at))
		})
		kept = kept && err == nil
	}
	if !kept {
		r.deliverHot(false)
		r.published = nil
	}
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
