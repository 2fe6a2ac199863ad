package retention

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// A session that waits for a lock on the outbox that conflicts with that of an INSERT has
// all publishers wait behind it. (DETACH PARTITION CONCURRENTLY, which does not,
// exists only for tables without a default partition.) So no session is waited for in
// the lock's queue who might take long:
//
//   - First those who hold a lock on the table are watched, from outside, until all
//     of them have ended. Under ordinary load they do, however many others come
//     meanwhile; how long it took is about how long the lock will be waited for.
//   - Only then the lock is requested, for about that long. Publishers wait for as
//     long as the transactions that run at that moment still take.
//   - Publishers wait like that for at most a hundredth of the time.

const (
	// holdersMost is how long a transaction may hold a lock on the table before it
	// is in the way.
	holdersMost = time.Second

	// lockShare bounds the time that publishers wait: after a wait nothing is locked
	// for so many times as long.
	lockShare = 100

	// holdersSQL lists who holds a lock on the table itself.
	holdersSQL = `
SELECT DISTINCT coalesce('pid ' || l.pid || coalesce(' (' || nullif(a.application_name, '') || ')', ''), 'a prepared transaction') || ', transaction ' || l.virtualtransaction
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.relation = $1::text::regclass AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`
)

// inTheWay is the error for a lock that cannot be had now.
type inTheWay struct{ text string }

// Error says who is in the way.
func (e *inTheWay) Error() string { return e.text }

// exclusively runs f in a transaction that holds a lock on the table, and that no
// other process's retention of the table gets in between. The error is an inTheWay
// when transactions of others take too long.
func (p *pass) exclusively(ctx context.Context, mode string, f func(pgx.Tx) error) error {
	took, err := p.watch(ctx)
	if err != nil {
		return err
	}
	wait := min(2*took+100*time.Millisecond, holdersMost)
	began := time.Now()
	var waited time.Duration
	err = p.change(ctx, func(tx pgx.Tx) error {
		lock := fmt.Sprintf("SET LOCAL lock_timeout = %d;\nLOCK TABLE ONLY %s IN %s MODE;\nSET LOCAL lock_timeout = %s",
			wait.Milliseconds(), p.base.Quoted, mode, lockWait)
		began = time.Now()
		_, err := tx.Exec(ctx, lock, pgx.QueryExecModeSimpleProtocol)
		waited = time.Since(began)
		if err != nil {
			return err
		}
		return f(tx)
	})
	if took > 0 || err != nil {
		p.unlocked = time.Now().Add(lockShare * waited)
	}
	if pg.FailedWith(err, pg.LockNotAvailable, pg.DeadlockDetected) {
		return &inTheWay{fmt.Sprintf("the lock on the table was not to be had within %s: transactions that use the table are open for longer", wait)}
	}
	return err
}

// watch waits until those who hold a lock on the table now have ended, without
// anybody waiting for it in turn, and returns how long that took.
func (p *pass) watch(ctx context.Context) (time.Duration, error) {
	waiting, err := p.holders(ctx)
	if err != nil || len(waiting) == 0 {
		return 0, err
	}
	began := time.Now()
	for err == nil && len(waiting) > 0 {
		if time.Since(began) > holdersMost {
			return 0, &inTheWay{fmt.Sprintf("transactions that use the table are open for longer than %s: %s", holdersMost, strings.Join(waiting, "; "))}
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		var now []string
		now, err = p.holders(ctx)
		waiting = reader.Common(waiting, now)
	}
	return time.Since(began), err
}

func (p *pass) holders(ctx context.Context) ([]string, error) {
	rows, err := p.base.Pool.Query(ctx, holdersSQL, p.base.Quoted)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
