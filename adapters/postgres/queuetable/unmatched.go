package queuetable

import (
	"hash/maphash"
	"maps"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// passedMost bounds the rows that are remembered, at about 20 bytes each. The others
// are looked at again by each reading of everything.
const passedMost = 1 << 18

// unmatched remembers the rows of a table that were looked at and that no claim
// wants: those of no route, and those of lanes that are closed now. They are looked at
// once, payloads included, and not by every claim. A row that is changed is another
// one, because it gets another place in the table.
type unmatched struct {
	seed  maphash.Seed
	wants uint64 // of the claims; see [adapters.ClaimRequest]
	round uint32 // number of the latest reading of everything
	rows  map[uint64]unmatchedRow
	never int // rows that are not wanted later either

	// shut are the groups with rows that are wanted later. They come into the ring
	// again when they may be.
	shut map[string]*queueGroup
	more bool // there are others, of which nothing is remembered
}

// unmatchedRow is a row that no route matches.
type unmatchedRow struct {
	round uint32 // in which it was seen
	later bool   // it is wanted when its lane opens
}

func newUnmatched() unmatched {
	return unmatched{seed: maphash.MakeSeed(), rows: map[uint64]unmatchedRow{}, shut: map[string]*queueGroup{}}
}

// name is short for a version of a row. That two have one name is so unlikely
// (1 in 10^13 for a new row beside a million) that nothing is done about it.
func (p *unmatched) name(key []byte, at wire.TID) uint64 {
	const odd = 0x9e3779b97f4a7c15 // spreads the place over all bits
	return maphash.Bytes(p.seed, key) ^ (uint64(at.Block)<<16|uint64(at.Offset))*odd
}

// has reports whether a version of a row is passed over.
func (p *unmatched) has(key, at []byte) bool {
	if len(p.rows) == 0 {
		return false
	}
	name := p.name(key, wire.TIDFromBinary(at))
	row, ok := p.rows[name]
	if ok && row.round != p.round {
		row.round = p.round
		p.rows[name] = row
	}
	return ok
}

// add passes over a row that was looked at.
func (p *unmatched) add(key, at []byte, later bool) {
	if p.wants == 0 || len(p.rows) >= passedMost {
		return
	}
	p.rows[p.name(key, wire.TIDFromBinary(at))] = unmatchedRow{p.round, later}
	if !later {
		p.never++
	}
}

// clean forgets the rows that the reading of everything which has just ended did
// not see: they were deleted, changed or finished elsewhere.
func (p *unmatched) clean() {
	maps.DeleteFunc(p.rows, func(_ uint64, row unmatchedRow) bool { return p.gone(row, row.round != p.round) })
}

// gone returns gone, and counts a row that is.
func (p *unmatched) gone(row unmatchedRow, gone bool) bool {
	if gone && !row.later {
		p.never--
	}
	return gone
}

// want takes note of what claims want from now on, and of the lanes that are ours. When
// that is more than before, the groups with rows that waited for it are in the ring again.
func (t *queueTable) want(wants uint64, open [adapters.Slots]bool, terms [adapters.Slots]uint64) {
	if wants == 0 { // there is no signal when a lane opens
		for slot := range open {
			open[slot] = true
		}
	}
	t.own(open, terms)
	p := &t.unmatched
	if wants == p.wants && wants != 0 {
		return
	}
	p.wants = wants
	for _, g := range p.shut {
		t.enter(g)
	}
	clear(p.shut)
	if p.more {
		t.round.restart()
	}
	p.more = false
	maps.DeleteFunc(p.rows, func(_ uint64, row unmatchedRow) bool { return p.gone(row, row.later || wants == 0) })
}

// own takes note of the lanes that are ours from now on. Rows that another instance left
// behind in a lane that opens may be older than all that are known here: everything is
// read again, and until then groups of the lane are read from their beginning. Otherwise a
// claim could go on behind a row that the former owner still holds, or has put back.
func (t *queueTable) own(open [adapters.Slots]bool, terms [adapters.Slots]uint64) {
	if open == t.open && terms == t.terms {
		return
	}
	wider, anew := false, [adapters.Slots]bool{}
	for slot := range open {
		if anew[slot] = open[slot] && (!t.open[slot] || terms[slot] != t.terms[slot]); anew[slot] {
			t.unread[slot], wider = true, true
		}
	}
	if t.open, t.terms = open, terms; wider {
		clear(t.left)
		t.round.restart()
	}
	for _, g := range t.ring {
		if g.ordered() && (!open[g.slot] || anew[g.slot]) { // which is found again by the reading of everything
			g.ringing = false
			delete(t.known, g.id)
		}
	}
	maps.DeleteFunc(t.asleep.groups, func(_ string, s *sleeper) bool { return !open[s.slot] || anew[s.slot] })
	t.rotate(nil)
}

// skip notes that no route matches a row of the group, now or ever.
func (t *queueTable) skip(g *queueGroup, key, at []byte, created int64, later bool) {
	p := &t.unmatched
	p.add(key, at, later)
	if !later || p.wants == 0 {
		return
	}
	if shut := p.shut[g.id]; shut != nil {
		shut.since = min(shut.since, created)
		return
	}
	if p.more = p.more || len(p.shut) >= leftMost; p.more {
		return
	}
	shut := *g
	shut.since = created
	p.shut[g.id] = &shut
}
