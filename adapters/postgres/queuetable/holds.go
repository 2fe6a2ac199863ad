package queuetable

import (
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// lostClaim is a row that is not ours any more, and may be unfinished.
type lostClaim struct {
	table *queueTable
	hold  *hold
}

// hold is a claim that has not been settled.
type hold struct {
	token   string
	group   *queueGroup
	created int64     // as PostgreSQL counts: microseconds since 2000
	stamp   int64     // when the row was marked, as the row says; without claims, just a number
	former  int64     // what stamp was before an extension whose outcome is unknown
	at      time.Time // when stamp was now
	term    uint64    // of the lane, without claims; see [adapters.ClaimRequest]
	tried   bool      // a settle may have ended the claim: it failed, and its outcome is not known
}

// held returns the hold that a claim stands for; nil when it is lost. The
// caller has the lock.
func (q *Queue) held(c *adapters.Claim) *hold {
	t := q.table(c.Table)
	if t == nil {
		return nil
	}
	h := t.holds[c.Key]
	if h == nil || h.token != c.Token {
		return nil
	}
	return h
}

// hold remembers the claim of a row. The caller has the queue's lock.
func (t *queueTable) hold(key string, h *hold) {
	t.forget(key)
	t.holds[key] = h
	t.held[h.group.id]++
}

// forget ends a hold. The caller has the queue's lock.
func (t *queueTable) forget(key string) {
	h := t.holds[key]
	if h == nil {
		return
	}
	delete(t.holds, key)
	if t.held[h.group.id]--; t.held[h.group.id] == 0 {
		delete(t.held, h.group.id)
	}
}

// lose ends a hold whose row another process has taken or put back. The group is
// to be looked at from that row on, or it could be passed over. The caller has the
// lock.
func (q *Queue) lose(t *queueTable, key string, h *hold) {
	q.lost = append(q.lost, lostClaim{t, h})
	if t.holds[key] == h { // and not another claim since
		t.forget(key)
	}
}

// findLost puts the groups of lost rows into the ring. The caller has
// claiming.
func (q *Queue) findLost() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range q.lost {
		a.table.enterFrom(a.hold.group, a.hold.created)
	}
	q.lost = nil
}

// ours reports whether a row that is marked as being processed is so by us.
func (q *Queue) ours(t *queueTable, key string, stamp int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := t.holds[key]
	return h != nil && (h.stamp == stamp || h.former == stamp)
}

// heldIn counts the claimed rows of a group.
func (q *Queue) heldIn(t *queueTable, g *queueGroup) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.held[g.id]
}

// holdsRow reports whether we hold a row.
func (q *Queue) holdsRow(t *queueTable, key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.holds[key] != nil
}

// keysOf are the rows of a table that we hold, as an array.
func (q *Queue) keysOf(t *queueTable) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var keys wire.Array
	for key := range t.holds {
		keys.Text(key)
	}
	return keys.String()
}

// hold turns a picked row into a claimed one. The caller has the queue's lock.
func (s *tableClaim) hold(p picked, h *hold, attempts int) *adapters.Row {
	h.token, h.group, h.created, h.former = strconv.FormatInt(h.stamp, 36), p.visit.group, p.created, h.stamp
	p.row.Claim = &adapters.Claim{Table: s.table.name, Key: p.row.ID, Token: h.token, Attempts: attempts}
	s.table.hold(p.row.ID, h)
	s.q.hot.found(p.row.ID)
	return p.row
}
