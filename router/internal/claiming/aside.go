package claiming

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// A result that cannot be written by itself must not keep the others from being written: the table refuses the row, by a type, a constraint or
// a trigger, or another session has locked it. It is set aside in the ledger: its row stays claimed, counts for the rows in memory, and is not
// delivered again by this process. A refused row is found by halves; its result is tried again every claims.recover and at the end, that of a
// locked one after lockedPause. Until then [adapters.RouteStats].StateError names a refused row.

const (
	// refusedMost bounds the rows of one write that are refused: a table that refuses more takes nothing, and that is an outage.
	refusedMost = 100

	// lockedPause is after how long the result of a locked row is written again: there is no signal when the other session lets go.
	lockedPause = time.Second
)

// byHalves calls do with items and, while that is refused for one of them, with each half; those that are refused alone go to refused, whose
// error ends it. It returns how many items are done with.
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

// settle writes results, and sets aside those that cannot be written by themselves.
func (c *Claimer) settle(ctx context.Context, taken []*holding, results []adapters.ClaimResult) (lost []*adapters.Claim, err error) {
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
	if fresh := c.ledger.written(taken[:done], lost, aside); len(fresh) > 0 {
		h := fresh[0]
		c.log.Error("the queue's table does not take the results of rows: they stay claimed and are not sent again by this process, the others go on, and the results are tried again "+
			"every claims.recover; mend what the error names", "rows", len(fresh), "first", h.claim.Key, "table", h.claim.Table, "outcome", h.result.Outcome.String(), "error", aside[h.claim])
	}
	c.ledger.failed(taken[done:])
	return lost, err
}

// refused reports whether the table refused the result when it was last written.
func (h *holding) refused() bool { return errors.Is(h.aside, adapters.ErrRefused) }

// setAside sets aside a row, and reports whether it is refused for the first time. Call with the mutex held.
func (l *ledger) setAside(h *holding, err error) (fresh bool) {
	fresh = !h.refused() && errors.Is(err, adapters.ErrRefused)
	h.state, h.aside, h.asideAt, l.aside = rowEnded, err, time.Now(), append(l.aside, h)
	h.giveBack(l.credits.Take(queueKeyOf(h.claim)))
	return fresh
}

// again takes back what was set aside, if it is time to try it.
func (l *ledger) again(every time.Duration, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aside = slices.DeleteFunc(l.aside, func(h *holding) bool {
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
	var first *holding
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

// lockedIn returns the error of results that are not written because other sessions have locked the rows: those of some lanes, nil: of all.
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

// endSession notes that a lane is not ours any more: claims of refused rows are not extended, so another owner gets them once they count as
// stuck. Call with the mutex held.
func (l *ledger) endSession(s *lane.Session) {
	for _, h := range l.aside {
		h.left = h.left || h.refused() && h.lane.Route == s.Route.Name && slices.ContainsFunc(s.Streams(), func(str *lane.Stream) bool { return str.Slot == h.lane.Slot })
	}
}
