package claiming

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// write is called by the queue's settler: it writes results and, from time to time, extends claims. Only the settler does this, one
// after the other.
func (c *Claimer) write(ctx context.Context, e settling.Extent) error {
	c.ledger.again(c.claims.Recover, e >= settling.Everything)
	taken, results := c.ledger.take()
	if len(taken) > 0 {
		failpoint.Hit(failpoint.BeforeSettle)
		done := c.Settler.Begin(len(taken), "rows")
		lost, err := c.settle(ctx, taken, results)
		done(err)
		failpoint.Hit(failpoint.AfterSettle)
		if c.Settler.Report(err); err != nil {
			return err
		}
		if len(lost) > 0 {
			c.lost.Add(int64(len(lost)))
			c.log.Warn("rows were no longer ours when they were settled: another processor or instance has taken, ended or put them back, "+
				"and they may be delivered again", "rows", len(lost), "first", lost[0].Key)
		}
		if slices.ContainsFunc(taken, (*claimedRow).returns) {
			c.Wake() // a claim that began before does not know when they may be claimed again
		}
		c.RoomFreed()
	}
	if e >= settling.Passed {
		c.extend(ctx)
	}
	err := c.ledger.lockedIn(nil) // the settler tries again
	c.locking.Report(c.log, slog.LevelWarn, err, "results cannot be written: another session has locked the rows; other rows go on", "all results are written again")
	return err
}

// extend keeps claims that last from being taken for stuck. Lost claims are dropped.
func (c *Claimer) extend(ctx context.Context) {
	now := time.Now()
	claims := c.ledger.stale(now.Add(-c.claims.Timeout / 4))
	if len(claims) == 0 {
		return
	}
	var lost []*adapters.Claim
	_, err := byHalves(claims, func(part []*adapters.Claim) error {
		more, err := c.Queue.Extend(ctx, part)
		lost = append(lost, more...)
		return err
	}, func(*adapters.Claim, error) error { return nil }) // settling the row says so
	if err != nil {
		if ctx.Err() == nil {
			c.extending.Fail(c.log, slog.LevelWarn, "claims cannot be extended, trying again", err, "rows", len(claims))
		}
		return
	}
	c.extending.End(c.log, "claims can be extended again")
	for _, it := range c.ledger.extended(claims, lost, now) {
		c.loseClaim(it)
	}
	if len(lost) > 0 {
		c.lost.Add(int64(len(lost)))
		c.log.Warn("waiting rows are no longer ours: another processor or instance has taken, ended or put them back; they are dropped here",
			"rows", len(lost), "first", lost[0].Key)
	}
	c.RoomFreed()
}

// Maintain extends claims and recovers stuck rows until ctx ends, which is after the drain.
func (c *Claimer) Maintain(ctx context.Context) {
	tick := signal.Every(min(c.claims.Timeout/4, c.claims.Recover))
	defer tick.Stop()
	var recovered time.Time
	for {
		_ = c.Settler.Flush(ctx, settling.Passed, nil) // the settler has told
		if _, works := c.sessions(); works && time.Since(recovered) >= c.claims.Recover {
			recovered = time.Now()
			c.recover(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// recover puts rows back that a crash left marked.
func (c *Claimer) recover(ctx context.Context) {
	n := 0
	err := c.recoverLimit.Call(ctx, func(ctx context.Context) (err error) { // meanwhile the queue may claim nothing
		n, err = c.Queue.Recover(ctx)
		return err
	})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.recovering.Fail(c.log, slog.LevelWarn, "stuck rows cannot be recovered, trying again", err)
		return
	case n > 0:
		c.recovered.Add(int64(n))
		c.log.Warn("rows that were marked as being processed for too long were put back; some may be delivered again", "rows", n)
		signal.Send(c.wake)
	}
	if err == nil {
		c.recovering.End(c.log, "stuck rows can be recovered again")
	}
}

// longestError is how many characters of an error tables of queues keep.
const longestError = 4000

// A result that cannot be written must not keep other results from being written: the table may refuse the row, by a type, a constraint or
// a trigger, or another transaction may have locked it. It is set aside in the ledger: its row stays claimed, counts for the rows in
// memory, and is not delivered again by this process. A refused row is found by halves; its result is tried again every claims.recover
// and at the end, that of a locked row after lockedPause. Until then [adapters.RouteStats].StateError names a refused row.

const (
	// refusedMost bounds the rows of one write that are refused: a table that refuses more takes nothing, and that is an outage.
	refusedMost = 100

	// lockedPause is the pause before the result of a locked row is written again: there is no signal when the lock ends.
	lockedPause = time.Second
)

// byHalves calls do with items and, if one of them is refused, with each half, and so on. An item that is refused alone goes to refused,
// whose error ends it. It returns how many items are done.
func byHalves[T any](items []T, do func([]T) error, refused func(T, error) error) (done int, err error) {
	err = do(items)
	switch {
	case err == nil:
		return len(items), nil
	case !errors.Is(err, adapters.ErrRefused):
		return 0, err
	case len(items) == 1:
		return 1, refused(items[0], err)
	}
	half := len(items) / 2
	if done, err = byHalves(items[:half], do, refused); err != nil {
		return done, err
	}
	more, err := byHalves(items[half:], do, refused)
	return done + more, err
}

// settle writes results, and sets aside those that cannot be written.
func (c *Claimer) settle(ctx context.Context, taken []*claimedRow, results []adapters.ClaimResult) (lost []*adapters.Claim, err error) {
	aside, refused := map[*adapters.Claim]error{}, 0
	done, err := byHalves(results, func(part []adapters.ClaimResult) error {
		more, err := c.Queue.Settle(ctx, part)
		lost = append(lost, more...)
		if locked, partly := errors.AsType[*adapters.LockedError](err); partly {
			for _, claim := range locked.Claims {
				aside[claim] = err
			}
			return nil
		}
		return err
	}, func(r adapters.ClaimResult, err error) error {
		aside[r.Claim] = err
		if refused++; refused > refusedMost {
			return err
		}
		return nil
	})
	fresh, dead, alive := c.ledger.written(taken[:done], lost, aside)
	for _, it := range dead {
		it.DeathWritten()
	}
	for _, it := range alive {
		it.DeathLost(func(out []*lane.Item) { c.ledger.conclude(released(out)...) })
	}
	if len(fresh) > 0 {
		h := fresh[0]
		c.log.Error("the queue's table does not take the results of rows: they stay claimed and are not sent again by this process, the others go on, and the results are tried again "+
			"every claims.recover; mend what the error names", "rows", len(fresh), "first", h.claim.Key, "table", h.claim.Table, "outcome", h.result.Outcome.String(), "error", aside[h.claim])
	}
	c.ledger.failed(taken[done:])
	return lost, err
}

// refused reports whether the table refused the result when it was last written.
func (h *claimedRow) refused() bool { return errors.Is(h.aside, adapters.ErrRefused) }

// setAside sets aside a row, and reports whether it is refused for the first time. Call with the mutex held.
func (l *ledger) setAside(h *claimedRow, err error) (fresh bool) {
	fresh = !h.refused() && errors.Is(err, adapters.ErrRefused)
	h.state, h.aside, h.asideAt, l.aside = rowEnded, err, time.Now(), append(l.aside, h)
	h.giveBack(l.credits.Take(queueKeyOf(h.claim)))
	return fresh
}

// again takes back what was set aside, if it is time to try it.
func (l *ledger) again(every time.Duration, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aside = slices.DeleteFunc(l.aside, func(h *claimedRow) bool {
		pause := lockedPause
		if h.refused() {
			pause = every
		}
		due := time.Since(h.asideAt) >= pause || last && h.refused()
		if due {
			l.ready = append(l.ready, h)
		}
		return due
	})
}

// refusal says which results the table refuses; empty: none.
func (l *ledger) refusal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first *claimedRow
	n := 0
	for _, h := range l.aside {
		if h.refused() {
			if n++; n == 1 {
				first = h
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("the table does not take the result of %d rows, the first is %s (%v): %v", n, first.claim.Key, first.result.Outcome, first.aside)
}

// lockedIn returns the error of results that are not written because other transactions have locked the rows: of some lanes, nil: of all.
func (l *ledger) lockedIn(lanes []adapters.LaneRef) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := &adapters.LockedError{}
	for _, h := range l.aside {
		if !h.refused() && (lanes == nil || slices.Contains(lanes, h.lane)) {
			err.Claims = append(err.Claims, h.claim)
		}
	}
	if len(err.Claims) == 0 {
		return nil
	}
	return err
}

// endSession notes that a lane is not ours any more: claims of refused rows are not extended, so another owner gets the rows when they
// count as stuck. Call with the mutex held.
func (l *ledger) endSession(s *lane.Session) {
	for _, h := range l.aside {
		h.abandoned = h.abandoned || h.refused() && h.lane.Route == s.Route.Name && slices.ContainsFunc(s.Streams(), func(str *lane.Stream) bool { return str.Slot == h.lane.Slot })
	}
}
