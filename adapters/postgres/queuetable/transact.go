package queuetable

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/internal/failpoint"
)

var _ adapters.TxQueue = (*Queue)(nil)

// errLost rolls back a transaction whose rows are not all ours any more.
var errLost = errors.New("claims are lost")

// Database implements [adapters.TxQueue]. A table without a claim status needs the epochs of lanes beside it: elsewhere
// an owner that was frozen would deliver what another one has delivered.
func (q *Queue) Database() string {
	for _, t := range q.tables {
		if !t.claims.marks() && !q.fence.Here {
			return ""
		}
	}
	return pg.Database(q.pool.Config().ConnConfig)
}

// Transact implements [adapters.TxQueue]. The tx of deliver is a pgx.Tx.
func (q *Queue) Transact(ctx context.Context, results []adapters.ClaimResult, deliver func(ctx context.Context, tx any) error) (lost []*adapters.Claim, err error) {
	pool, err := q.tx.Beside(ctx, q.pool)
	if err != nil {
		return nil, queueError(q.tables[0].name, "deliver", err)
	}
	s, lost := q.settling(results)
	if len(lost) > 0 {
		return lost, nil
	}
	var own error // of deliver
	err = pg.Transact(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		own = deliver(ctx, tx)
		if own != nil {
			return own
		}
		failpoint.Hit(failpoint.Delivered)
		if err := tx.SendBatch(ctx, s.batch(true)).Close(); err != nil {
			return pg.Refused(err)
		}
		if lost = s.unsettled(); len(lost) > 0 {
			return errLost
		}
		failpoint.Hit(failpoint.InDelivery)
		return nil
	}, func(ctx context.Context) (bool, error) { return s.written(ctx) })
	switch {
	case err == nil:
		failpoint.Hit(failpoint.Committed)
		s.forget()
		return nil, nil
	case own != nil:
		return nil, own
	case errors.Is(err, errLost):
		s.release()
		return lost, nil
	case errors.Is(err, adapters.ErrUnknown):
		s.tried()
	case pg.FailedWith(err, pg.LockNotAvailable):
		if locked, looked := s.locked(ctx, q.pool); looked == nil && len(locked) > 0 {
			return nil, &adapters.LockedError{Claims: slices.Collect(maps.Keys(locked))}
		}
	}
	return nil, queueError(q.tables[0].name, "deliver and settle", err)
}

// release ends the claims of the rows that are lost. Such a row may have been reset to waiting meanwhile: what comes of its message now,
// which was not delivered, must not be written, and the next claim finds the row. See [settling.forget] for the lock.
func (s *settling) release() {
	s.q.claiming.Lock()
	defer s.q.claiming.Unlock()
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	for _, rows := range s.order {
		for j, r := range rows.results {
			if !rows.settled[j] {
				s.q.lose(rows.table, r.Claim.Key, rows.holds[j])
			}
		}
	}
}

// unsettled are the claims of rows that a settle did not change.
func (s *settling) unsettled() (lost []*adapters.Claim) {
	for _, rows := range s.order {
		for j, r := range rows.results {
			if !rows.settled[j] {
				lost = append(lost, r.Claim)
			}
		}
	}
	return lost
}

// written waits until no transaction changes the rows, and reports whether they have been settled.
func (s *settling) written(ctx context.Context) (bool, error) {
	for _, rows := range s.order {
		rows.settled = make([]bool, len(rows.results))
		if _, err := s.q.pool.Exec(ctx, s.q.textOf(rows.table).locked, rows.keys.String()); err != nil {
			return false, err
		}
	}
	s.tried()
	if err := s.confirm(ctx); err != nil {
		return false, err
	}
	return len(s.unsettled()) == 0, nil
}

// A session may lock rows of a table and not let go, as a forgotten transaction does. Nothing here waits for it: what a settle has locked, rows of
// many groups and lanes that the next owner wants, would be locked for as long, also after this process was killed. Claims skip such
// rows. A settle gives up after a moment, and is done without them.

// locked are the claims of rows that other sessions have locked. In a transaction the other rows are locked by it.
func (s *settling) locked(ctx context.Context, in pg.Querier) (map[*adapters.Claim]bool, error) {
	claims := map[*adapters.Claim]bool{}
	for _, rows := range s.order {
		if rows.text == "" {
			continue
		}
		found, err := in.Query(ctx, s.q.textOf(rows.table).elsewhere, rows.keys.String())
		if err != nil {
			return nil, err
		}
		if err := markSettled(func(n int) { claims[rows.results[n].Claim] = true })(found); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

// runFree writes the results of rows that no other session has locked. They are locked first, so no statement waits for a row.
func (s *settling) runFree(ctx context.Context, results []adapters.ClaimResult) (free *settling, lost []*adapters.Claim, err error) {
	skipped := &adapters.LockedError{}
	err = pg.RetryDeadlock(func() error {
		return pgx.BeginFunc(ctx, s.q.pool, func(tx pgx.Tx) error {
			free = s
			locked, err := s.locked(ctx, tx)
			if err != nil {
				return err
			}
			skipped.Claims = nil
			rest := slices.DeleteFunc(slices.Clone(results), func(r adapters.ClaimResult) bool {
				if locked[r.Claim] {
					skipped.Claims = append(skipped.Claims, r.Claim)
				}
				return locked[r.Claim]
			})
			free, lost = s.q.settling(rest)
			free.back = s.back
			return tx.SendBatch(ctx, free.batch(false)).Close()
		})
	})
	if err == nil {
		err = free.end(ctx)
	}
	if err == nil && len(skipped.Claims) > 0 {
		err = skipped
	}
	return free, lost, err
}
