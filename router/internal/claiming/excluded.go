package claiming

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// exceptions are what a claim leaves out.
type exceptions struct {
	groups []string
	rows   []*adapters.Claim
	next   time.Time // when the first of them ends; zero: none is planned
	held   bool      // something is left out until rows that are in memory are settled
}

// except returns what a claim that has begun leaves out: what is in backoff or on its way back, and
// groups that have as much in memory as one may.
func (l *ledger) except(now time.Time, perGroup int) exceptions {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := exceptions{}
	for k, v := range l.left {
		end := v.end()
		over := v.returning == 0 && !now.Before(end)
		if over && v.unknown <= l.placed {
			delete(l.left, k)
			continue
		}
		out.held = out.held || v.returning > 0
		if over {
			end = now // one more claim, and it may be claimed again
		}
		if (over || end.After(now)) && (out.next.IsZero() || end.Before(out.next)) {
			out.next = end
		}
		if k.row == (queueKey{}) {
			out.groups = append(out.groups, k.group)
		} else {
			out.rows = append(out.rows, &adapters.Claim{Table: k.row.table, Key: k.row.key})
		}
	}
	for g, n := range l.groups {
		if n >= perGroup && l.left[leaveKey{group: g}] == nil {
			out.groups, out.held = append(out.groups, g), true
		}
	}
	return out
}

// release puts everything back that a session leaves unfinished. Call with the
// session's mutex held.
func (l *ledger) release(s *lane.Session) {
	l.mu.Lock()
	l.endSession(s)
	for _, h := range l.held {
		if h.item != nil && h.item.Session == s {
			l.end(ending{h: h, outcome: outbox.OutcomeReleased})
		}
	}
	l.mu.Unlock()
	l.note(true)
}

// leaveOutEvicted leaves a group out to make room, until then or until an address is
// back.
func (l *ledger) leaveOutEvicted(key leaveKey, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving(key, time.Time{}).evictedUntil = until
}

// readmit ends what was left out to make room.
func (l *ledger) readmit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.left {
		v.evictedUntil = time.Time{}
	}
}

// stale returns the claims that were made or extended before then and are still
// wanted.
func (l *ledger) stale(then time.Time) []*adapters.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*adapters.Claim
	for c, h := range l.held {
		if h.since.Before(then) && !h.left {
			out = append(out, c)
		}
	}
	return out
}

// extended notes that claims were extended at a time, but for the lost ones. It
// returns the items of those. A claim that is lost before it got into a lane enters none,
// nor does what is behind it.
func (l *ledger) extended(claims, lost []*adapters.Claim, at time.Time) []*lane.Item {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range claims {
		if h := l.held[c]; h != nil {
			h.since = at
		}
	}
	var out []*lane.Item
	for _, c := range lost {
		h := l.held[c]
		switch {
		case h == nil || h.state != rowOpen: // what became of it is being written
		case h.item != nil:
			out = append(out, h.item)
		default:
			l.lose(h)
		}
	}
	return out
}

// forget drops a claim that is no longer ours, without a result. The rows
// behind it go back; nothing of the group is claimed before that.
func (l *ledger) forget(h *holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.state == rowOpen {
		l.lose(h)
	}
}

// lose is forget for an open row. Call with the mutex held.
func (l *ledger) lose(h *holding) {
	l.leaving(h.key, time.Time{})
	l.drop(h)
}

// oldest is when the oldest row in a lane of the route was created; zero: there
// is none, or rows do not say.
func (l *ledger) oldest(r *lane.Route) (created time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		if h.item == nil || h.item.Session.Route != r {
			continue
		}
		if t := h.item.Created(); !t.IsZero() && (created.IsZero() || t.Before(created)) {
			created = t
		}
	}
	return created
}

// underWay is which claims are under way: one whose statement runs, and the one before
// it whose rows are being handed out. It is part of the ledger, and guarded by its mutex.
type underWay struct {
	claims  uint64        // number of the last claim that has begun
	asking  bool          // it is not known yet what that one brings
	placing bool          // rows of the one before, or of that one, are being handed out
	placed  uint64        // this claim and those before it are over
	changed chan struct{} // closed when a claim is over; nil: nothing waits for that
}

// begin numbers a claim that begins.
func (l *ledger) begin() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking = true
	l.claims++
	return l.claims
}

// asked notes what the claim brought: rows that are handed out now, or nothing.
func (l *ledger) asked(rows bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking, l.placing = false, l.placing || rows
	l.over(l.placed)
}

// handedOut notes that the rows of a claim are in their lanes or on their way back.
func (l *ledger) handedOut(claim uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.placing = false
	l.over(claim)
}

// over notes that a claim and those before it are over, and wakes those who wait. Call with the mutex held.
func (u *underWay) over(claim uint64) {
	if u.placed = claim; !u.asking && !u.placing {
		u.placed = u.claims
	}
	if u.changed != nil {
		close(u.changed)
		u.changed = nil
	}
}

// await waits until all claims that have begun so far are over.
func (l *ledger) await(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := l.claims; l.placed < n; {
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		l.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}
