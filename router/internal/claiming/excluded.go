package claiming

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// exclusions are the groups and rows that a claim excludes.
type exclusions struct {
	groups []string
	rows   []*adapters.Claim
	next   time.Time // when the first of them ends; zero: none is planned
	held   bool      // something is excluded until rows that are in memory are settled
	ended  bool      // something is not excluded any more
}

// exclusions returns what a claim that has begun excludes: rows and groups that are in backoff or on their way back, and groups that have
// as many rows in memory as they may.
func (l *ledger) exclusions(now time.Time, perGroup int) exclusions {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := exclusions{}
	for k, v := range l.excluded {
		end := v.end()
		over := v.returning == 0 && !now.Before(end)
		if over && v.unknownTo <= l.handed {
			delete(l.excluded, k)
			out.ended = true
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
		if n >= perGroup && l.excluded[exclusionKey{group: g}] == nil {
			out.groups, out.held = append(out.groups, g), true
		}
	}
	return out
}

// release puts back what a session leaves unfinished. Call with the session's mutex held.
func (l *ledger) release(s *lane.Session) {
	l.mu.Lock()
	l.endSession(s)
	for _, h := range l.rows {
		if h.item != nil && h.item.Session == s {
			l.end(ending{h: h, outcome: outbox.OutcomeReleased})
		}
		if h.dead != nil && h.dead.Session == s && !h.holds && !h.refused() {
			h.holds = true
			l.exclude(h.key, time.Time{}).returning++
		}
	}
	l.mu.Unlock()
	l.notify(true)
}

// letGo ends what a dead row's hold excludes. Call with the mutex held.
func (l *ledger) letGo(h *claimedRow) {
	if h.holds {
		h.holds = false
		l.excluded[h.key].returning--
	}
}

// excludeEvicted excludes a group to make room, until a time or until an address is back.
func (l *ledger) excludeEvicted(key exclusionKey, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exclude(key, time.Time{}).evictedUntil = until
}

// readmit ends exclusions that made room.
func (l *ledger) readmit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.excluded {
		v.evictedUntil = time.Time{}
	}
}

// stale returns the claims that were made or extended before a time and are still needed.
func (l *ledger) stale(then time.Time) []*adapters.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*adapters.Claim
	for c, h := range l.rows {
		if h.since.Before(then) && !h.abandoned {
			out = append(out, c)
		}
	}
	return out
}

// extended notes that claims were extended at a time, except the lost ones, whose items it returns. A claim that is lost before it
// got into a lane enters none, nor does what is behind it.
func (l *ledger) extended(claims, lost []*adapters.Claim, at time.Time) []*lane.Item {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range claims {
		if h := l.rows[c]; h != nil {
			h.since = at
		}
	}
	var out []*lane.Item
	for _, c := range lost {
		h := l.rows[c]
		switch {
		case h == nil || h.state != rowOpen: // its result is being written
		case h.item != nil:
			out = append(out, h.item)
		default:
			l.lose(h)
		}
	}
	return out
}

// forget drops a claim that is no longer ours, without a result. The rows behind it go back; until then its group is excluded.
func (l *ledger) forget(h *claimedRow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.state == rowOpen {
		l.lose(h)
	}
}

// lose is forget for an open row. Call with the mutex held.
func (l *ledger) lose(h *claimedRow) {
	l.exclude(h.key, time.Time{})
	l.drop(h)
}

// oldest is when the oldest row in a lane of the route was created; zero: there is none, or it is not known.
func (l *ledger) oldest(r *lane.Route) (created time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.rows {
		if h.item == nil || h.item.Session.Route != r {
			continue
		}
		if t := h.item.Created(); !t.IsZero() && (created.IsZero() || t.Before(created)) {
			created = t
		}
	}
	return created
}

// inFlight has the claims in flight: one whose statement runs, and the one before it whose rows are being handed out. It is part of the
// ledger, and guarded by its mutex.
type inFlight struct {
	claims  uint64        // number of the last claim that has begun
	asking  bool          // it is not known yet what that one brings
	handing bool          // rows of the one before, or of that one, are being handed out
	handed  uint64        // this claim and those before it are over
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

// asked notes whether the claim brought rows, which are handed out now.
func (l *ledger) asked(rows bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking, l.handing = false, l.handing || rows
	l.over(l.handed)
}

// handedOut notes that the rows of a claim are in their lanes or on their way back.
func (l *ledger) handedOut(claim uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handing = false
	l.over(claim)
}

// over notes that a claim and those before it are over, and wakes what waits for them. Call with the mutex held.
func (u *inFlight) over(claim uint64) {
	if u.handed = claim; !u.asking && !u.handing {
		u.handed = u.claims
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
	for n := l.claims; l.handed < n; {
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
