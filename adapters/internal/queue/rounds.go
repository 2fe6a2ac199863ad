package queue

import (
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

const (
	// roundShare bounds the share of time of rounds that find next to nothing: one part of so many. Shorter ones than roundFree are free.
	roundShare = 20
	roundFree  = 20 * time.Millisecond

	// blockedPause is after how long a group is read again if another process holds a row of it: there is no signal when that row is released.
	blockedPause = time.Second

	// dueMost bounds the groups of which it is known when they are to be read again, and freshMost those that are to be. Rounds find the others.
	dueMost   = 10_000
	freshMost = 100_000
)

// rounds is the state of the rounds through a table's index. Guarded by claiming.
type rounds struct {
	at        Position // where the next page begins
	round     round
	whole     time.Time // when the latest round began that has read everything
	blocked   time.Time // when the first row may be out of the way that this round and those after it have found in the way; zero: none is
	rest      time.Time // before it no round begins; zero: one may
	slots     [adapters.Slots]bool
	terms     [adapters.Slots]uint64
	wants     uint64
	unmatched map[string]bool // rows that no route wants, by key, as long as wants stays

	fresh   []string             // groups that are to be read before the round goes on, without duplicates
	queued  map[string]bool      // the same
	due     map[string]time.Time // groups that are to be read then
	soonest time.Time            // of due, or earlier
}

// round is a way around the index.
type round struct {
	began   time.Time
	partial bool          // it did not begin at the beginning
	due     time.Time     // when the first row that is in the way may be out of it; zero: none is
	took    time.Duration // to read pages
	read    int           // entries of those
	got     int           // rows that were claimed
	left    bool          // rows were left because there was no room
}

func newRounds() rounds {
	return rounds{unmatched: map[string]bool{}, queued: map[string]bool{}, due: map[string]time.Time{}}
}

// restart forgets what is known of the rows. The next claim reads on with the group that is next.
func (r *rounds) restart() {
	r.round, r.whole, r.blocked, r.rest, r.unmatched = round{partial: r.at != Position{}}, time.Time{}, time.Time{}, time.Time{}, map[string]bool{}
	r.leaveGroup()
}

// leaveGroup has the next page begin behind the group in which the last one ended: a group is read from its beginning. Rows in no order
// have none.
func (r *rounds) leaveGroup() {
	if r.at.ID != Alone {
		r.at = Position{ID: r.at.ID}
	}
}

// wanted takes note of what a claim wants. If it may want other rows, those that were passed over are read again.
func (r *rounds) wanted(req *Request, wants uint64, now time.Time) {
	if changed := wants != r.wants || req.Slots != r.slots || req.Terms != r.terms; changed || wants == 0 {
		r.unmatched = map[string]bool{}
		if changed {
			r.wants, r.slots, r.terms = wants, req.Slots, req.Terms
			r.restart()
			r.round.began = now
		}
	}
	if r.at == (Position{}) {
		r.round.began = now
	}
	if !r.soonest.IsZero() && !now.Before(r.soonest) {
		r.soonest = time.Time{}
		for id, due := range r.due {
			if now.Before(due) {
				r.soonest = Sooner(r.soonest, due)
				continue
			}
			delete(r.due, id)
			r.enter(id)
		}
	}
}

// enter has groups read before the round goes on.
func (r *rounds) enter(ids ...string) {
	for _, id := range ids {
		if id != Alone && !r.queued[id] && len(r.fresh) < freshMost {
			r.fresh, r.queued[id] = append(r.fresh, id), true
		}
	}
}

// putOff has a group read again at a time.
func (r *rounds) putOff(id string, until time.Time) {
	r.round.due = Sooner(r.round.due, until)
	if _, known := r.due[id]; id != Alone && (known || len(r.due) < dueMost) {
		r.due[id], r.soonest = until, Sooner(r.soonest, until)
	}
}

// complete ends a round.
func (r *rounds) complete(pageRows int) {
	if r.round.partial {
		r.blocked = Sooner(r.blocked, r.round.due)
	} else {
		r.whole, r.blocked = r.round.began, r.round.due
	}
	r.rest = r.round.restAfter(pageRows)
	r.round = round{began: time.Now()}
	r.at = Position{}
}

// restAfter is when the next round may begin.
func (r *round) restAfter(pageRows int) time.Time {
	if r.left || r.read < pageRows || r.took <= roundFree || r.got*100 > r.read {
		return time.Time{}
	}
	return time.Now().Add((roundShare - 1) * r.took)
}

// readOn continues the round of a table until so many rows are claimed, the claim has read everything, or enough.
func (c *tableClaim[T]) readOn(ctx context.Context, most int) error {
	for c.got < most && !c.full && !c.around && !c.cut {
		page, err := c.read(ctx, c.table.at)
		if err != nil {
			return err
		}
		if err := c.takePage(ctx, page, most); err != nil {
			return err
		}
	}
	return nil
}

// takePage claims what it can of a page of the round, and moves on.
func (c *tableClaim[T]) takePage(ctx context.Context, page Page, most int) error {
	t := c.table
	if c.wrapped {
		if i := slices.IndexFunc(page.Entries, func(e Entry) bool { return e.ID > c.start }); i >= 0 {
			page.Entries, c.around = page.Entries[:i], true
		}
	}
	n, err := c.consume(ctx, page.Entries, most)
	switch {
	case err != nil:
		return err
	case c.around || n < len(page.Entries):
		t.round.left = t.round.left || !c.around
		if n > 0 {
			t.at = page.Entries[n-1].position()
		}
	case page.End:
		if c.start == "" && !c.wrapped { // it came to all groups
			t.fresh, t.queued = nil, map[string]bool{}
		}
		t.complete(c.db.PageRows)
		c.around = c.wrapped || c.start == "" || !t.rest.IsZero()
		c.wrapped = true
	default:
		if t.at = page.Next; t.at.In && t.at.ID != Alone && c.progress(t.at.ID).ended {
			t.at = Position{ID: t.at.ID}
		}
		c.cut = c.spent >= c.db.ClaimRows
	}
	return nil
}

// readFresh claims from groups that have something new, at most half of what is to be claimed. A round that begins now comes to them anyway.
func (c *tableClaim[T]) readFresh(ctx context.Context, most int) error {
	t := c.table
	if t.at == (Position{}) && !c.around {
		return nil
	}
	most = c.got + (most-c.got+1)/2
	for len(t.fresh) > 0 && c.got < most && !c.full && c.spent < c.db.ClaimRows {
		id := t.fresh[0]
		t.fresh = t.fresh[1:]
		delete(t.queued, id)
		if err := c.readGroup(ctx, id, most); err != nil {
			return err
		}
	}
	return nil
}

// readGroup claims from one group.
func (c *tableClaim[T]) readGroup(ctx context.Context, id string, most int) error {
	for at := (Position{ID: id, In: true}); !c.progress(id).ended; {
		page, err := c.read(ctx, at)
		if err != nil {
			return err
		}
		n, err := c.consume(ctx, page.Entries, most)
		if err != nil {
			return err
		}
		if n < len(page.Entries) {
			c.table.enter(id)
			return nil
		}
		if at = page.Next; page.End || at.ID != id || !at.In || c.spent >= c.db.ClaimRows {
			return nil
		}
	}
	return nil
}

// read reads a page.
func (c *tableClaim[T]) read(ctx context.Context, at Position) (Page, error) {
	began := time.Now()
	page, err := c.table.Driver.Page(ctx, at)
	c.spent += max(len(page.Entries), 1)
	c.table.round.took, c.table.round.read = c.table.round.took+time.Since(began), c.table.round.read+len(page.Entries)
	return page, err
}

// coverage is how much the claims so far have read of the table.
func (c *tableClaim[T]) coverage() adapters.Coverage {
	t := c.table
	read := adapters.Coverage{Since: t.whole, Next: t.rest, Unwanted: len(t.unmatched)}
	if !c.around {
		read.Next = c.began
	}
	if c.cut {
		read.Since = time.Time{}
	}
	for _, due := range []time.Time{t.blocked, t.round.due} {
		if due.After(c.began) {
			read.Due = Sooner(read.Due, due)
		} else if !due.IsZero() { // the row may be claimed now, and nothing has looked since
			read.Since = time.Time{}
		}
	}
	return read
}
