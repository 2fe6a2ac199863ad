package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// events is the queue table of the scenarios.
const events = "outbox_events"

// claimer does what the router does with a queue, a call at a time.
type claimer struct {
	w       *world
	name    string
	q       adapters.OperatorQueue
	limit   int  // rows of a claim
	retakes bool // it takes rows that others hold: what is claimed longer than for a moment counts as stuck
	held    []*adapters.Row
}

// The states of a row besides its holder.
const (
	rowDone     = "done"
	rowSettling = "settling" // its settle has begun
)

// claim takes rows and delivers them. Each is free, and everything before it in its group is done or held by this claimer.
func (c *claimer) claim() error {
	slots := make([]int, adapters.Slots)
	for i := range slots {
		slots[i] = i
	}
	rows, err := again(func() ([]*adapters.Row, error) {
		return c.q.Claim(c.w.ctx, adapters.ClaimRequest{Slots: slots, Limit: c.limit})
	})
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if len(rows) > c.limit {
		c.w.fault("%s claimed %d rows, and wanted %d at most", c.name, len(rows), c.limit)
	}
	c.held = append(c.held, rows...)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for _, row := range rows {
		if by := c.w.holders[row.ID]; by != "" && by != rowSettling && !c.retakes {
			c.w.wrong = append(c.w.wrong, fmt.Sprintf("%s claimed %s, which %s has", c.name, row.ID, by))
		}
		c.w.holders[row.ID] = c.name
		for _, e := range c.w.committed {
			if e.id == row.ID {
				break
			}
			if by := c.w.holders[e.id]; "EVENT:"+e.group == row.Group && by != c.name && by != rowDone && by != rowSettling {
				c.w.wrong = append(c.w.wrong, fmt.Sprintf("%s claimed %s while %s, which is before it, is not done: %q", c.name, row.ID, e.id, by))
			}
		}
		c.w.received = append(c.w.received, row.ID)
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
func (c *claimer) results(outcome outbox.Outcome) (results []adapters.ClaimResult) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for _, row := range c.held {
		r := adapters.ClaimResult{Claim: row.Claim, Outcome: outcome, Attempts: row.Claim.Attempts}
		if c.w.holders[row.ID] = rowSettling; outcome == outbox.OutcomeRetry || outcome == outbox.OutcomeDead {
			r.Attempts, r.At, r.Error = r.Attempts+1, time.Now().Add(-time.Second), "no"
		}
		results = append(results, r)
	}
	return results
}

// settled notes what came of a settle.
func (c *claimer) settled(outcome outbox.Outcome, lost []*adapters.Claim) {
	gone := map[*adapters.Claim]bool{}
	for _, claim := range lost {
		gone[claim] = true
	}
	for _, row := range c.held {
		if gone[row.Claim] {
			c.w.note("lost by "+c.name, 1)
		} else if outcome == outbox.OutcomeDelivered {
			c.w.settle(row.ID)
			c.w.mu.Lock()
			if c.w.holders[row.ID] == rowSettling {
				c.w.holders[row.ID] = rowDone
			}
			c.w.mu.Unlock()
		}
	}
	c.held = nil
}

// settles is a call that settles.
func settles(outcome outbox.Outcome) func(c *claimer) error {
	return func(c *claimer) error {
		if len(c.held) == 0 {
			return nil
		}
		results := c.results(outcome)
		lost, err := again(func() ([]*adapters.Claim, error) { return c.q.Settle(c.w.ctx, results) })
		if err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		c.settled(outcome, lost)
		return nil
	}
}

// extends renews the claims.
func extends(c *claimer) error {
	claims := make([]*adapters.Claim, 0, len(c.held))
	for _, row := range c.held {
		claims = append(claims, row.Claim)
	}
	if len(claims) == 0 {
		return nil
	}
	lost, err := again(func() ([]*adapters.Claim, error) { return c.q.Extend(c.w.ctx, claims) })
	c.w.note("lost by "+c.name, len(lost))
	return err
}

// recovers puts back what is stuck.
func recovers(c *claimer) error {
	_, err := again(func() (int, error) { return c.q.Recover(c.w.ctx) })
	return err
}

func claims(c *claimer) error { return c.claim() }

var delivers = settles(outbox.OutcomeDelivered)

// claimCalls are what a claimer does, one after the other.
type claimCalls []func(c *claimer) error

// works is a role of a claimer.
func works(name string, cuts int, calls claimCalls) role {
	return role{session: name, cuts: cuts, run: func(w *world) error {
		for _, call := range calls {
			if err := call(w.claimers[name]); err != nil {
				return err
			}
		}
		return nil
	}}
}

// changes is an operator's command on the dead rows.
func changes(session string, action adapters.ParkedAction) role {
	return role{session: session, run: func(w *world) error {
		q := w.claimers[session].q
		dead, err := q.Dead(w.ctx, adapters.DeadFilter{})
		if err != nil || len(dead) == 0 {
			return err
		}
		keys := make([]adapters.DeadKey, 0, len(dead))
		for i := range dead {
			keys = append(keys, dead[i].At)
		}
		n, err := q.ChangeDead(w.ctx, action, keys, func(context.Context, int) error { return nil })
		w.note(string(action), n)
		return err
	}}
}

// emptied drains the queue: what is claimed is stuck, because all others are dead. Before that only another has taken claims for stuck.
func emptied(w *world) error {
	for _, name := range []string{relayA, relayB, another} {
		if n := w.notes["lost by "+name]; n > 0 && (name == another || w.session(another).steps == 0) {
			w.fault("%s has lost %d claims, and nobody takes them for stuck", name, n)
		}
	}
	c := w.claimers[drainer]
	for range 20 {
		if err := errors.Join(recovers(c), c.claim(), delivers(c)); err != nil {
			return err
		}
		n, err := w.count("SELECT count(*) FROM " + events + " WHERE status IN ('PENDING', 'PROCESSING')")
		if err != nil || n == 0 {
			return err
		}
	}
	return errors.New("rows wait, and are not claimed")
}
