package queuetable

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// tableClaim is a claim of one table.
type tableClaim struct {
	*claim
	table  *queueTable
	began  time.Time
	want   int
	walked int // rows of the last look that no route matches
	picked []picked
	again  []*visit        // groups whose look has not reached the end
	capped []*visit        // groups that had their share and may have more
	served map[string]bool // groups, by id: one that has left the ring and is found again has rows that were picked
	mark   int             // of this claim
}

// picked is a row that is to be claimed.
type picked struct {
	row     *adapters.Row
	visit   *visit
	created int64
	tid     wire.TID // of the version that was looked at

	attempts int // failed ones, without claims
}

// visit is a group's turn.
type visit struct {
	group   *queueGroup
	share   int      // rows that it may get
	known   int64    // when the newest row was created that was known as it began
	got     int      // rows that were picked
	before  int      // and how many of them before the last look
	after   position // rows up to here have been looked at
	blocked int64    // when the first row was created that another process holds: nothing since then can be claimed
	limit   int      // of the last look
	least   int      // of the next one, when the last one brought nothing
	begun   int64    // when the first row was created that was looked at
	stays   bool     // it has unfinished rows that are not ours
	first   int64    // when the first of those was created
	idle    bool     // it got nothing only because others had everything

	capped bool   // it had its share, and may have more
	rest   bool   // it has rows that could be claimed
	waits  uint64 // its first row is not due: the version of that; see [unmatched.name]
}

// keep notes an unfinished row that is not ours.
func (v *visit) keep(created int64) {
	if !v.stays || created < v.first {
		v.stays, v.first = true, created
	}
}

func (s *tableClaim) room() bool { return len(s.picked) < s.want && !s.full }

// next returns the groups to look at: those whose look has not reached the end,
// then those at the front of the ring.
func (s *tableClaim) next(n int) []*visit {
	visits := s.again
	s.again = nil
	var waiting []*queueGroup
	eligible := 0
	for _, g := range s.table.ring {
		if s.served[g.id] || !s.eligible(g) || s.allowed(g) == 0 {
			continue
		}
		if eligible++; len(waiting) < n {
			waiting = append(waiting, g)
		}
	}
	if len(waiting) == 0 {
		return visits
	}
	rest, n := s.want-len(s.picked), len(waiting)
	share := (rest + n - 1) / n // of many groups only a few rows each: those before had less than their share
	if eligible > n {
		share = min(share, s.turn)
	}
	for _, g := range waiting {
		s.served[g.id] = true
		g.looked, g.due = time.Time{}, time.Time{}
		visits = append(visits, &visit{group: g, share: min(share, s.allowed(g)), known: s.table.latest.since(),
			blocked: math.MaxInt64, begun: math.MaxInt64})
	}
	return visits
}

// allowed is how many further rows of a group the request allows.
func (s *tableClaim) allowed(g *queueGroup) int {
	if s.req.PerGroup <= 0 || !g.ordered() {
		return math.MaxInt32
	}
	return max(s.req.PerGroup-s.perGroup[g.key], 0)
}

// second gives the groups that had their share another one, because no other
// group needs it.
func (s *tableClaim) second() []*visit {
	visits := s.capped
	s.capped = nil
	kept := visits[:0]
	for _, v := range visits {
		more := min(max(s.turn, (s.want-len(s.picked)+len(visits)-1)/len(visits)), s.allowed(v.group))
		if more > 0 {
			v.share += more
			kept = append(kept, v)
		}
	}
	return kept
}

// look reads what is unfinished in the groups and picks rows.
func (s *tableClaim) look(ctx context.Context, visits []*visit) error {
	began, picked := time.Now(), len(s.picked)
	s.walked = 0
	if err := s.lookAt(ctx, visits); err != nil {
		return err
	}
	if s.walked > 0 && len(s.picked) == picked {
		s.table.round.charge(time.Since(began))
	}
	return nil
}

func (s *tableClaim) lookAt(ctx context.Context, visits []*visit) error {
	seen := s.see(visits)
	args := append(s.lookArgs(visits), s.table.claims.args(s)...)
	rows, err := s.q.pool.Query(ctx, s.table.text.look, append(args, seen.budget)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		v := rows.RawValues()
		i, err := seen.row(v, s.table.whole)
		if err != nil {
			return err
		}
		if !seen.ends[i] {
			seen.ends[i] = s.consider(visits[i], v)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	s.full = s.full || len(s.rows)+len(s.picked) > 0 && s.req.Bytes > 0 && s.bytes >= s.req.Bytes
	for i, v := range visits {
		s.conclude(v, i, seen)
	}
	return nil
}

// see prepares for what a look returns: no more than fits, and never nothing.
func (s *tableClaim) see(visits []*visit) *seen {
	seen := &seen{counts: make([]int, len(visits)), ends: make([]bool, len(visits)), budget: s.budget()}
	for _, v := range visits {
		v.limit = max(v.share-v.got+s.q.heldIn(s.table, v.group)+1, v.least) // which reports whether there is more
		v.rest = false
		if v.least > 0 { // nothing of it is kept, most likely
			seen.budget = max(seen.budget, lookBytes)
		}
	}
	return seen
}

// lookArgs are the arrays of a look.
func (s *tableClaim) lookArgs(visits []*visit) []any {
	var names, nulls, since, after, limits wire.Array
	for _, v := range visits {
		g := v.group
		if g.named {
			names.Text(g.name)
		} else {
			names.Null()
		}
		nulls.Truth(g.nulls)
		if v.after.set {
			since.Text(timeText(v.after.created))
			after.Text(v.after.key)
		} else {
			since.Text(timeText(g.from()))
			after.Null()
		}
		limits.Number(int64(v.limit))
	}
	return []any{wire.RawResults, names.String(), nulls.String(), since.String(), after.String(), limits.String()}
}

// seen is what a look returned.
type seen struct {
	counts  []int  // rows by group: those that wait, and what is being processed among them
	ends    []bool // nothing further of the group can be picked
	last    int    // the group of the last row
	created int64  // when the last one was created that is in counts
	bytes   int64
	budget  int64 // the look stopped when bytes reached it
}

// row notes a row and returns its group. Rows that are being processed come before those that
// wait, or (whole) among them.
func (s *seen) row(v [][]byte, whole bool) (i int, err error) {
	i = int(wire.Int32FromBinary(v[lookGroup])) - 1
	created, held, size := wire.Int64FromBinary(v[lookCreated]), v[lookHeld][0] != 0, int64(wire.Int32FromBinary(v[lookSize]))
	again := i == s.last && s.counts[i] > 0
	if i < s.last || again && (held && !whole || created < s.created) {
		return 0, errLookOrder
	}
	s.last, s.bytes = i, s.bytes+size
	if whole || !held {
		s.created = created
		s.counts[i]++
	}
	return i, nil
}

// errLookOrder is for a server that runs the look in a way not seen so far.
var errLookOrder = errors.New("the server returned rows in another order than theirs, and nothing was claimed; " +
	"this is a fault of Outrider: report it with the server's version")

// budget is how many bytes of payload a look may return: what fits. It always
// returns one row.
func (s *tableClaim) budget() int64 {
	if s.req.Bytes <= 0 {
		return math.MaxInt64
	}
	return max(s.req.Bytes-s.bytes, 1)
}

// consider decides about one row. It ends the visit when nothing behind the row
// can be claimed now.
func (s *tableClaim) consider(v *visit, raw [][]byte) (end bool) {
	at := position{created: wire.Int64FromBinary(raw[lookCreated]), key: string(raw[lookID]), set: true}
	v.begun = min(v.begun, at.created)
	if raw[lookHeld][0] != 0 {
		if v.group.ordered() && s.table.claims.theirs(s, v.group, at.key, raw[lookClaimed]) {
			v.keep(at.created)
			v.blocked = min(v.blocked, at.created)
			v.group.again(blockedPause)
		}
		if s.table.whole {
			v.after = at
		}
		return false
	}
	if v.blocked < math.MaxInt64 && at.created >= v.blocked { // of rows that were created at once only the server knows the order
		v.keep(at.created)
		return true
	}
	if end = s.offer(v, raw, at); !end {
		v.after = at
	}
	return end
}

// offer picks a row that waits, or notes what keeps it from being picked.
func (s *tableClaim) offer(v *visit, raw [][]byte, at position) (end bool) {
	if s.Absent[queue.RowKey{Table: s.table.name, Key: at.key}] {
		v.keep(at.created)
		return false
	}
	if s.table.unmatched.has(raw[lookID], raw[lookTID]) {
		s.walked++
		return false
	}
	row := s.table.decode(&s.q.decoder, v.group, raw)
	if !s.Slots[row.Slot] || s.req.Match != nil && !s.req.Match(row) {
		later := !s.Slots[row.Slot] || s.req.Later == nil || s.req.Later(row)
		s.walked++
		s.table.skip(v.group, raw[lookID], raw[lookTID], at.created, later)
		return false
	}
	switch wait := float64FromBinary(raw[lookWait]); {
	case wait > 0:
		v.group.again(time.Duration(min(wait, 3600) * float64(time.Second)))
		if v.group.ordered() && !v.stays && s.q.recent.Load() == 0 { // otherwise it may wait for the hot path alone
			v.waits = s.table.unmatched.name(raw[lookID], wire.TIDFromBinary(raw[lookTID]))
		}
		v.keep(at.created)
		return v.group.ordered()
	case len(s.picked) == s.want:
		v.idle, v.rest = v.got == 0, true
	case v.got == v.share:
		v.capped, v.rest = true, true
	case s.req.Bytes > 0 && len(s.rows)+len(s.picked) > 0 && s.bytes+int64(len(row.Payload)) > s.req.Bytes:
		s.full, v.idle, v.rest = true, v.got == 0, true
	default:
		s.pick(picked{row, v, at.created, wire.TIDFromBinary(raw[lookTID]), s.table.claims.failed(s, raw)})
		return false
	}
	v.keep(at.created)
	return true
}

func (s *tableClaim) pick(p picked) {
	p.visit.got++
	s.perGroup[p.visit.group.key]++
	s.bytes += int64(len(p.row.Payload))
	s.picked = append(s.picked, p)
}

// conclude says whether a group is to be looked at further now, and whether it
// stays in the ring.
func (s *tableClaim) conclude(v *visit, i int, seen *seen) {
	cut := seen.bytes >= seen.budget && i >= seen.last
	switch {
	case seen.ends[i]: // and it stays, for the row that ended it
	case !cut && seen.counts[i] < v.limit: // all of the group was seen
	case v.got < v.share && !s.full:
		if v.least = 0; v.got == v.before {
			v.least = min(2*v.limit, lookRows)
		}
		v.before = v.got
		s.again = append(s.again, v)
		return
	default: // there may be more
		v.idle, v.capped, v.rest = v.got == 0, v.got == v.share, true
		v.keep(max(v.after.created, v.group.since))
	}
	if v.capped {
		v.capped = false
		s.capped = append(s.capped, v)
	}
	if v.idle {
		delete(s.served, v.group.id) // its turn is still to come
	}
	if s.end(v); !v.rest {
		v.group.looked = s.began
	}
}
