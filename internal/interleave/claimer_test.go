package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// events is the queue table of the scenarios.
const events = "outbox_events"

// The states of a row besides its holder.
const (
	rowDone     = "done"
	rowSettling = "settling" // its settle has begun
)

// claims takes rows and delivers them. Each is free, and everything before it in its group is done or held by this relay.
func claims(r *relay) error {
	slots := make([]int, adapters.Slots)
	for i := range slots {
		slots[i] = i
	}
	rows, err := again(func() ([]*adapters.Row, error) {
		return r.queue.Claim(r.w.ctx, adapters.ClaimRequest{Slots: slots, Limit: r.limit})
	})
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if len(rows) > r.limit {
		r.w.fault("%s claimed %d rows, and wanted %d at most", r.name, len(rows), r.limit)
	}
	r.held = append(r.held, rows...)
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for _, row := range rows {
		if by := r.w.holders[row.ID]; by != "" && by != rowSettling && !r.retakes {
			r.w.wrong = append(r.w.wrong, fmt.Sprintf("%s claimed %s, which %s has", r.name, row.ID, by))
		}
		r.w.holders[row.ID] = r.name
		for _, e := range r.w.committed {
			if e.id == row.ID {
				break
			}
			if by := r.w.holders[e.id]; "EVENT:"+e.group == row.Group && by != r.name && by != rowDone && by != rowSettling {
				r.w.wrong = append(r.w.wrong, fmt.Sprintf("%s claimed %s while %s, which is before it, is not done: %q", r.name, row.ID, e.id, by))
			}
		}
		r.w.received = append(r.w.received, row.ID)
	}
	return nil
}

// hold notes who has a row.
func (w *world) hold(id, by string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders[id] = by
}

// results settles all rows that are held with an outcome.
func (r *relay) results(outcome outbox.Outcome) (results []adapters.ClaimResult) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for _, row := range r.held {
		result := adapters.ClaimResult{Claim: row.Claim, Outcome: outcome, Attempts: row.Claim.Attempts}
		if r.w.holders[row.ID] = rowSettling; outcome == outbox.OutcomeRetry || outcome == outbox.OutcomeDead {
			result.Attempts, result.At, result.Error = result.Attempts+1, time.Now().Add(-time.Second), "no"
		}
		results = append(results, result)
	}
	return results
}

// settled notes what came of a settle.
func (r *relay) settled(outcome outbox.Outcome, lost []*adapters.Claim) {
	gone := map[*adapters.Claim]bool{}
	for _, claim := range lost {
		gone[claim] = true
	}
	for _, row := range r.held {
		if gone[row.Claim] {
			r.w.note("lost by "+r.name, 1)
		} else if outcome == outbox.OutcomeDelivered {
			r.w.settle(row.ID)
			r.w.mu.Lock()
			if r.w.holders[row.ID] == rowSettling {
				r.w.holders[row.ID] = rowDone
			}
			r.w.mu.Unlock()
		}
	}
	r.held = nil
}

// settles is a call that settles.
func settles(outcome outbox.Outcome) call {
	return func(r *relay) error {
		if len(r.held) == 0 {
			return nil
		}
		results, gone := r.results(outcome), []*adapters.Claim(nil)
		_, err := again(func() (lost []*adapters.Claim, err error) {
			lost, err = r.queue.Settle(r.w.ctx, results)
			gone = append(gone, lost...)
			if locked, ok := errors.AsType[*adapters.LockedError](err); ok { // the others are written
				results = slices.DeleteFunc(results, func(c adapters.ClaimResult) bool { return !slices.Contains(locked.Claims, c.Claim) })
			}
			return lost, err
		})
		if err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		r.settled(outcome, gone)
		return nil
	}
}

// extends renews the claims.
func extends(r *relay) error {
	claims := make([]*adapters.Claim, 0, len(r.held))
	for _, row := range r.held {
		claims = append(claims, row.Claim)
	}
	if len(claims) == 0 {
		return nil
	}
	lost, err := again(func() ([]*adapters.Claim, error) { return r.queue.Extend(r.w.ctx, claims) })
	r.w.note("lost by "+r.name, len(lost))
	return err
}

// recovers puts back what is stuck.
func recovers(r *relay) error {
	_, err := again(func() (int, error) { return r.queue.Recover(r.w.ctx) })
	return err
}

// retains removes what was delivered some time ago. Rows of a run are not as old as an hour.
func retains(keep time.Duration) call {
	return func(r *relay) error {
		gone, err := again(func() (adapters.Retained, error) {
			return r.queue.RetainDelivered(r.w.ctx, adapters.Retention{Mode: adapters.RetainRows, Keep: keep})
		})
		if gone.Rows > 0 && keep > 0 {
			r.w.fault("%d rows were removed that are not old", gone.Rows)
		}
		return err
	}
}

// changes is an operator's command on the dead rows.
func changes(session string, action adapters.ParkedAction) role {
	return does(session, calls{func(r *relay) error {
		dead, err := r.queue.Dead(r.w.ctx, adapters.DeadFilter{})
		if err != nil || len(dead) == 0 {
			return err
		}
		keys := make([]adapters.DeadKey, 0, len(dead))
		for i := range dead {
			keys = append(keys, dead[i].At)
		}
		n, err := r.queue.ChangeDead(r.w.ctx, action, keys, func(context.Context, int) error { return nil })
		r.w.note(string(action), n)
		return err
	}})
}

// emptied drains the queue: what is claimed is stuck, because all others are dead. Before that only another has taken claims for stuck.
func emptied(w *world) error { return emptiedBy(w, delivers) }

func emptiedBy(w *world, settle call) error {
	for _, name := range []string{relayA, relayB, another} {
		if n := w.notes["lost by "+name]; n > 0 && (name == another || w.session(another).steps == 0) {
			w.fault("%s has lost %d claims, and nobody takes them for stuck", name, n)
		}
	}
	r := w.relays[drainer]
	for range 20 {
		if err := errors.Join(recovers(r), claims(r), settle(r)); err != nil {
			return err
		}
		n, err := w.count(events + " WHERE status IN ('PENDING', 'PROCESSING')")
		if err != nil || n == 0 {
			return err
		}
	}
	return errors.New("rows wait, and are not claimed")
}
