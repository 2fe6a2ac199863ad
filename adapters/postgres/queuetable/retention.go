package queuetable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
)

// CheckRetention implements [adapters.OperatorQueue]. [Queue.Check] looks at the privileges.
func (q *Queue) CheckRetention(ctx context.Context, _ adapters.Retention) error {
	var errs []error
	for _, t := range q.tables {
		sql, err := q.described(ctx, t)
		if err == nil {
			var there bool
			index := sql.oldIndex(t.full)
			if there, err = isValid(ctx, q.pool, index); err == nil && !there {
				err = fmt.Errorf("the index %s is missing, and each look for old rows would read the whole table; run `outrider init --indexes`, or %s",
					index.Name, concurrently(index.Create))
			}
		}
		errs = append(errs, queueError(t.name, "check retention", err))
	}
	return errors.Join(errs...)
}

// RetainDelivered implements [adapters.OperatorQueue].
func (q *Queue) RetainDelivered(ctx context.Context, r adapters.Retention) (sum adapters.Retained, err error) {
	for _, t := range q.tables {
		step, err := q.retain(ctx, t, r)
		if err != nil {
			return sum, queueError(t.name, "remove old rows", err)
		}
		sum = sum.And(step)
	}
	return sum, nil
}

func (q *Queue) retain(ctx context.Context, t *queueTable, r adapters.Retention) (step adapters.Retained, err error) {
	sql, err := q.described(ctx, t)
	if err != nil {
		return step, err
	}
	text, limit := sql.removeOld(), cmp.Or(r.Batch, adapters.DefaultRetainBatch)
	args := []any{r.Keep.Seconds(), limit}
	if r.DryRun {
		text, args = sql.countOld(), args[:1]
	}
	batch := &pgx.Batch{}
	batch.Queue(briefLocks)
	batch.Queue(text, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&step.Rows) })
	if err := q.pool.SendBatch(ctx, batch).Close(); err != nil {
		return adapters.Retained{}, err
	}
	if step.More = !r.DryRun && step.Rows == int64(limit); step.More {
		return step, nil
	}
	var age float64
	err = q.pool.QueryRow(ctx, sql.oldest()).Scan(&age)
	if errors.Is(err, pgx.ErrNoRows) {
		return step, nil
	}
	if age > 0 && age < math.MaxInt64/float64(time.Second) {
		step.Oldest = time.Duration(age * float64(time.Second))
	}
	return step, err
}

// old is the condition that a row was delivered and is old. Parameter: seconds.
func (q *queueSQL) old() string {
	return "{status} = {is_done} AND {created} <= " + nowOf(q.types.created) + " - make_interval(secs => $1)"
}

// removeOld deletes old rows and counts them. It is one transaction, which waits for no row: the rows are locked before they are deleted,
// but for those that others have locked. Parameters: seconds, limit.
func (q *queueSQL) removeOld() string {
	return q.fill(`WITH old AS MATERIALIZED (
    SELECT {key} AS key FROM {t} t WHERE ` + q.old() + ` ORDER BY {created}, {key} LIMIT $2 FOR UPDATE OF t SKIP LOCKED
), gone AS (
    DELETE FROM {t} t USING old o WHERE {key} = o.key AND ({status} = {is_done}) IS TRUE RETURNING 1
)
SELECT count(*) FROM gone`)
}

// countOld counts what removeOld would delete. Parameter: seconds.
func (q *queueSQL) countOld() string { return q.fill("SELECT count(*) FROM {t} t WHERE " + q.old()) }

// oldest is the age of the oldest delivered row in seconds.
func (q *queueSQL) oldest() string {
	return q.fill("SELECT -" + until("{created}", q.types.created) + " FROM {t} t WHERE {status} = {is_done} ORDER BY {created}, {key} LIMIT 1")
}
