package queue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
)

var _ interface {
	CheckRetention(ctx context.Context, r adapters.Retention) error
	RetainDelivered(ctx context.Context, r adapters.Retention) (adapters.Retained, error)
} = (*Operators)(nil)

// CheckRetention implements [adapters.OperatorQueue].
func (o *Operators) CheckRetention(ctx context.Context, _ adapters.Retention) error {
	var errs []error
	for _, of := range o.q.Tables {
		d, err := o.q.Describe(ctx, of.Name)
		if err == nil {
			if index := d.Lacks(Delivered); index != "" {
				err = fmt.Errorf("the index %s is missing, and each look for old rows would read the whole table; `outrider init` creates it", index)
			} else {
				_, err = o.q.DB.ExecContext(ctx, "DELETE FROM "+d.Table()+" WHERE 1 = 0") //nolint:gosec // G202: the name is quoted
			}
		}
		errs = append(errs, o.q.Wrap(of.Name, "check retention", err))
	}
	return errors.Join(errs...)
}

// RetainDelivered implements [adapters.OperatorQueue].
func (o *Operators) RetainDelivered(ctx context.Context, r adapters.Retention) (sum adapters.Retained, err error) {
	r.Batch = cmp.Or(r.Batch, adapters.DefaultRetainBatch)
	for _, of := range o.q.Tables {
		d, err := o.q.Describe(ctx, of.Name)
		if err != nil {
			return sum, err
		}
		var step adapters.Retained
		if r.DryRun {
			step, err = o.countOld(ctx, of, d, r)
		} else {
			step, err = o.removeOld(ctx, d, r)
		}
		if err != nil {
			return sum, o.q.Wrap(of.Name, "remove old rows", err)
		}
		sum = sum.And(step)
	}
	return sum, nil
}

// countOld counts page by page: what a time says is known here alone.
func (o *Operators) countOld(ctx context.Context, of layout.Table, d Dialect, r adapters.Retention) (sum adapters.Retained, err error) {
	for at := (adapters.DeadKey{}); ; {
		p, err := o.oldPage(ctx, o.q.DB, d, at, r, "")
		if err != nil {
			return sum, err
		}
		sum.Rows, sum.Oldest = sum.Rows+int64(len(p.keys)), max(sum.Oldest, p.oldest)
		if at = p.last; len(p.keys) < r.Batch {
			return sum, nil
		}
		at.Table = of.Name
	}
}

// removeOld deletes a page. Each row is deleted by its key, so that no server waits for another one that is locked.
func (o *Operators) removeOld(ctx context.Context, d Dialect, r adapters.Retention) (step adapters.Retained, err error) {
	//nolint:gosec // G202: names from the table's description
	remove := "DELETE FROM " + d.Table() + " WHERE " + d.Quote(o.q.Layout.Columns.Key) + " = ? AND " + d.Statuses(o.q.Layout.Statuses.Done)
	err = o.q.Transact(ctx, o.q.DB, func(tx *sql.Tx) error {
		p, err := o.oldPage(ctx, tx, d, adapters.DeadKey{}, r, d.SkipLocked())
		if err != nil || len(p.keys) == 0 {
			step = adapters.Retained{Oldest: p.left}
			return err
		}
		stmt, err := tx.PrepareContext(ctx, remove)
		if err != nil {
			return err
		}
		defer func() { _ = stmt.Close() }() // the transaction has its errors
		for _, key := range p.keys {
			if _, err := stmt.ExecContext(ctx, key); err != nil {
				return err
			}
		}
		step = adapters.Retained{Rows: int64(len(p.keys)), More: len(p.keys) == r.Batch, Oldest: p.left}
		return nil
	})
	return step, err
}

// oldPage are delivered rows that are old.
type oldPage struct {
	keys   []any
	last   adapters.DeadKey
	oldest time.Duration // age of the first row
	left   time.Duration // age of the first row that is not old; 0: there was none
}

// oldPage reads the oldest delivered rows behind a position, up to the first that is not old. A row whose time cannot be read is old.
func (o *Operators) oldPage(ctx context.Context, db Querier, d Dialect, after adapters.DeadKey, r adapters.Retention, lock string) (p oldPage, err error) {
	c := &o.q.Layout.Columns
	query := Statement{Text: "SELECT " + d.Raw(c.Created) + ", " + d.Raw(c.Key) + " " + d.Aged(Delivered)}
	query = query.behind(d, after).and(o.byAge(d)+" LIMIT ?"+lock, r.Batch)
	rows, err := db.QueryContext(ctx, query.Text, query.Args...)
	if err != nil {
		return p, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for now := time.Now(); rows.Next(); {
		var created, key any
		if err := rows.Scan(&created, &key); err != nil {
			return p, err
		}
		age := max(r.Keep, 0)
		if at := known(d, created); !at.IsZero() {
			age = now.Sub(at)
		}
		if p.oldest == 0 {
			p.oldest = max(age, 0)
		}
		if age < r.Keep {
			p.left = max(age, 0)
			break
		}
		p.keys, p.last = append(p.keys, key), adapters.DeadKey{Created: d.Text(created), Key: d.KeyText(key)}
	}
	return p, rows.Err()
}
