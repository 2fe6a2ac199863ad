package claiming

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/shorten"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/parkedgroup"
)

// queueKey names a row of a queue.
type queueKey struct{ table, key string }

func queueKeyOf(c *adapters.Claim) queueKey { return queueKey{c.Table, c.Key} }

// exclusionKey names what can be excluded from claims: a group or, where no order is kept, a row.
type exclusionKey struct {
	group string
	row   queueKey // zero for a group
}

// claimedRow is a claimed row until its result is written.
type claimedRow struct {
	claim  *adapters.Claim
	key    exclusionKey // excluded from claims when the row goes back
	group  string       // of the row
	counts int          // failed attempts that count, without the current one
	serial uint64       // grows from claim to claim
	since  time.Time    // when it was claimed or extended
	item   *lane.Item   // nil for a row that never got into a lane
	dead   *lane.Item   // whose group goes on when its death is written
	holds  bool         // its group is excluded until then: the lane in which it waited is given up

	lane  adapters.LaneRef // that it is for; see adapters.ClaimResult
	epoch int64

	state     rowState
	result    adapters.ClaimResult
	aside     error     // why the result could not be written by itself at the last try
	asideAt   time.Time // of that try
	abandoned bool      // refused, and the lane was given up since
}

// rowState is the state of a claimed row; see ARCHITECTURE.md.
type rowState uint8

const (
	rowOpen    rowState = iota // nothing is known yet
	rowEnded                   // it has a result, which is to be written
	rowWriting                 // the result is being written
	rowGone                    // written, or lost
)

// exclusion says why nothing of a group is claimed. It stays until a claim begins after its end and every claim that did not know of it
// has been handed out, so that the rows of such a claim are recognised.
type exclusion struct {
	until        time.Time // of the backoff
	evictedUntil time.Time // for so long to make room, or until an address is back
	returning    int       // rows that go back and are still marked as claimed
	unknownTo    uint64    // number of the last claim that does not know of it
}

// end is when the group may be claimed again, as far as that is known.
func (l *exclusion) end() time.Time {
	if l.evictedUntil.After(l.until) {
		return l.evictedUntil
	}
	return l.until
}

// ledger has the rows that were claimed and whose result is not written, and the exclusions. Its mutex is taken last of all.
//
// A group of which a row goes back is excluded until that is durable: a claim does not stop at a row that we have claimed, so it would
// continue behind it.
type ledger struct {
	notify   func(urgent bool) // there is a result to write
	dueThere bool              // the table says when a row is due again

	mu       sync.Mutex
	rows     map[*adapters.Claim]*claimedRow
	groups   map[string]int // rows held of each group
	ready    []*claimedRow  // ended
	aside    []*claimedRow  // ended, and not written by themselves; see aside.go
	urgentAt int            // so many results are urgent
	excluded map[exclusionKey]*exclusion
	credits  parkedgroup.Credits[queueKey] // of rows that are in the table or being written
	serial   uint64
	inFlight
}

// maxCredits bounds what is remembered for rows that may never come back.
const maxCredits = 4096

func newLedger(urgentAt int, note func(bool)) *ledger {
	return &ledger{notify: note, urgentAt: urgentAt, rows: map[*adapters.Claim]*claimedRow{}, groups: map[string]int{},
		excluded: map[exclusionKey]*exclusion{}}
}

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows)
}

// expect adds rows that a claim has brought.
func (l *ledger) expect(rows []routed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range rows {
		h := l.add(rows[i].row, rows[i].key)
		h.lane, h.epoch = laneOf(rows[i].session, rows[i].row)
		rows[i].claimed = h
	}
}

// laneOf returns the cursor row of a session that a row is under, and its epoch.
func laneOf(s *lane.Session, row *adapters.Row) (ref adapters.LaneRef, epoch int64) {
	if s == nil {
		return ref, 0
	}
	streams := s.Streams()
	of := streams[0]
	for _, str := range streams[1:] { // a lane of all slots
		if str.Slot == adapters.SlotOf(row.Group, row.ID) {
			of = str
		}
	}
	return adapters.LaneRef{Route: s.Route.Name, Slot: of.Slot}, of.Epoch
}

// enter notes that a row enters a lane as an item, and returns the failed attempts that count for it; false if it may not: its group was
// excluded since the claim began, or its claim was lost.
func (l *ledger) enter(h *claimedRow, it *lane.Item) (failed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.state != rowOpen || l.excluded[h.key] != nil {
		return 0, false
	}
	h.item = it
	return h.counts, true
}

// refuse sends a row back, and excludes its group, or the row, for a while.
func (l *ledger) refuse(h *claimedRow, until time.Time) {
	l.mu.Lock()
	l.exclude(h.key, until)
	l.end(ending{h: h, outcome: outbox.OutcomeReleased})
	l.mu.Unlock()
	l.notify(false)
}

// add adds a claimed row. Call with the mutex held.
func (l *ledger) add(row *adapters.Row, key exclusionKey) *claimedRow {
	l.serial++
	h := &claimedRow{claim: row.Claim, key: key, group: row.Group, serial: l.serial, since: time.Now()}
	h.counts = max(row.Claim.Attempts-l.credits.Take(queueKeyOf(row.Claim)), 0)
	l.rows[row.Claim] = h
	if h.group != "" {
		l.groups[h.group]++
	}
	return h
}

// ending is the result of a claimed row.
type ending struct {
	h        *claimedRow
	outcome  outbox.Outcome
	attempts int // for Retry and Dead
	at       time.Time
	err      error
}

// conclude takes the ends of rows. Those that go back together are written together. It returns how many are dead, and keep their groups until
// that is written.
func (l *ledger) conclude(ends ...ending) (dead int) {
	l.mu.Lock()
	for _, e := range ends {
		l.end(e)
		if e.h.dead != nil {
			dead++
		}
	}
	urgent := dead > 0 || len(l.ready) >= l.urgentAt
	l.mu.Unlock()
	l.notify(urgent)
	return dead
}

// end takes the end of a row; the first one counts. Call with the mutex held.
func (l *ledger) end(e ending) {
	h := e.h
	if h.state != rowOpen {
		return
	}
	if e.outcome == outbox.OutcomeDead && h.key.group != "" {
		h.dead = h.item
	}
	h.state, h.item = rowEnded, nil
	h.result = adapters.ClaimResult{Claim: h.claim, Outcome: e.outcome, Attempts: h.counts, At: e.at, Lane: h.lane, Epoch: h.epoch}
	if e.outcome == outbox.OutcomeRetry || e.outcome == outbox.OutcomeDead {
		h.result.Attempts = e.attempts
	}
	if e.err != nil {
		h.result.Error, h.result.Cause = shorten.Characters(e.err.Error(), longestError), causeOf(e.err)
	}
	if h.returns() {
		if l.dueThere {
			e.at = time.Time{}
		}
		l.exclude(h.key, e.at).returning++
	} else if v := l.excluded[h.key]; v != nil {
		v.evictedUntil = time.Time{} // the group moves
	}
	l.ready = append(l.ready, h)
}

// causeOf returns the [adapters.ClaimResult.Cause] of an error.
func causeOf(err error) string {
	if e, ok := errors.AsType[*outbox.Error](err); ok && e.Code != "" {
		return e.Code
	}
	return outbox.KindOf(err).String()
}

// returns reports whether the row goes back to the table, to be claimed again.
func (h *claimedRow) returns() bool {
	return h.result.Outcome == outbox.OutcomeRetry || h.result.Outcome == outbox.OutcomeReleased
}

// exclude excludes a group or a row from claims, at least until a time. Call with the mutex held.
func (l *ledger) exclude(key exclusionKey, until time.Time) *exclusion {
	v := l.excluded[key]
	if v == nil {
		v = &exclusion{unknownTo: l.claims}
		l.excluded[key] = v
	}
	if until.After(v.until) {
		v.until = until
	}
	return v
}

func (l *ledger) take() ([]*claimedRow, []adapters.ClaimResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.ready
	l.ready = nil
	results := make([]adapters.ClaimResult, len(taken))
	for i, h := range taken {
		h.state = rowWriting
		results[i] = h.result
	}
	return taken, results
}

// failed has the results that take returned written again.
func (l *ledger) failed(taken []*claimedRow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range taken {
		h.state = rowEnded
		h.giveBack(l.credits.Take(queueKeyOf(h.claim)))
	}
	l.ready = append(taken, l.ready...)
}

// written notes that what take returned is durable, except what is set aside. It returns what was refused for the first time, and the dead
// messages whose groups go on: also those that the table refuses, which are not tried again by this process. Messages whose claim was
// lost before they could be written as dead are in alive: others may try them again.
func (l *ledger) written(taken []*claimedRow, lost []*adapters.Claim, aside map[*adapters.Claim]error) (fresh []*claimedRow, dead, alive []*lane.Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range taken {
		err := aside[h.claim]
		if h.dead != nil && (err == nil || errors.Is(err, adapters.ErrRefused)) {
			if slices.Contains(lost, h.claim) {
				alive = append(alive, h.dead)
			} else {
				dead = append(dead, h.dead)
			}
			l.letGo(h)
		}
		if err != nil {
			if l.setAside(h, err) {
				fresh = append(fresh, h)
			}
			continue
		}
		l.drop(h)
		if len(l.credits) > 0 && (!h.returns() || slices.Contains(lost, h.claim)) {
			l.credits.Take(queueKeyOf(h.claim))
		}
	}
	return fresh, dead, alive
}

// drop forgets a row. Call with the mutex held.
func (l *ledger) drop(h *claimedRow) {
	l.letGo(h)
	if h.state != rowOpen && h.returns() {
		l.excluded[h.key].returning--
	}
	h.state, h.item, h.dead, h.result.Error = rowGone, nil, nil, ""
	delete(l.rows, h.claim)
	if h.group == "" {
		return
	}
	if l.groups[h.group]--; l.groups[h.group] == 0 {
		delete(l.groups, h.group)
	}
}

// giveBack takes attempts off a result that is not written yet. A dead row stays dead.
func (h *claimedRow) giveBack(n int) {
	if h.result.Outcome != outbox.OutcomeDead {
		h.result.Attempts = max(h.result.Attempts-n, 0)
	}
}

// giveBack returns an attempt that was charged to a row although its address was at fault. If the row was claimed again meanwhile and is
// in a lane, its item is returned: the caller corrects its attempt.
func (l *ledger) giveBack(h *claimedRow) (again *lane.Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := queueKeyOf(h.claim)
	if h.state == rowGone && h.returns() {
		for _, x := range l.rows {
			if queueKeyOf(x.claim) == k {
				h = x
			}
		}
	}
	switch {
	case h.state == rowEnded:
		h.giveBack(1)
	case h.state == rowOpen:
		h.counts = max(h.counts-1, 0)
		return h.item
	case len(l.credits) < maxCredits && (h.state == rowWriting || h.returns()): // on its way to the table, or there
		l.credits.Give(k, 1)
	}
	return nil
}
