package reading

import (
	"cmp"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// plan has the reads of one poll.
type plan struct {
	reads     []*read
	globals   []*globalRead
	globalsAt map[[adapters.Slots]adapters.Cursor]*globalRead // by the cursors of their slots
	again     bool                                            // something was left behind: poll again at once
	unread    bool                                            // what a slot has now was left to the next poll, which comes at once

	wanted []*read   // of lanes that have room, also those that are left out
	paced  []paced   // that are read now and have a pace of their own
	due    time.Time // when the first route is due that is not read now; zero: all are read
}

// report takes what the routes with a pace of their own have found. One that was not read up to now stays due.
func (p *plan) report(now time.Time) {
	if len(p.paced) == 0 {
		return
	}
	found, unread := map[*lane.Route]bool{}, map[*lane.Route]bool{}
	for _, g := range p.globals {
		for _, m := range g.members {
			found[m.session.Route], unread[m.session.Route] = g.kept > 0, g.until != nil
		}
	}
	for _, rd := range p.wanted {
		for _, m := range rd.members {
			rt := m.session.Route
			found[rt], unread[rt] = found[rt] || rd.rows > 0, unread[rt] || !rd.sawNothing()
		}
	}
	for _, rt := range p.paced {
		if some, read := found[rt.Route]; some || read && !unread[rt.Route] {
			rt.pace.Polled(some, now)
		}
	}
}

// sleeps reports whether a route is not read now.
func (p *plan) sleeps(rt paced, now time.Time) bool {
	if rt.pace == nil {
		return false
	}
	if due := rt.pace.Due(now); !due.IsZero() {
		if p.due.IsZero() || due.Before(p.due) {
			p.due = due
		}
		return true
	}
	p.paced = append(p.paced, rt)
	return false
}

// read is the read of the streams of a slot that have one cursor.
type read struct {
	slot      int
	from      adapters.Cursor
	until     *adapters.Cursor
	tail      *read // whose begin is until
	limit     int
	alignedTo int64 // aligned read limit; 0: none
	rows      int   // that came
	ended     bool  // it came to its end
	global    *globalRead

	members  []*member
	order    uint64  // number of the latest fetch whose snapshot a member has; then of that which this one reads up to
	drained  bool    // the last read of all members left nothing behind
	closing  bool    // see [lane.Stream], of a member
	room     int     // of the roomiest member
	density  float64 // see [lane.Stream]
	overhead int64   // of a row, for the costliest of its routes
}

// sawNothing reports whether there is no row behind the read's begin. One that ends at the tail does not know that by itself.
func (rd *read) sawNothing() bool {
	return rd.ended && rd.rows == 0 && (rd.tail == nil || rd.tail.sawNothing())
}

// standing is a cursor that streams of one slot share.
type standing struct {
	slot   int
	cursor adapters.Cursor
}

// catchUps bounds the reads of streams that are behind in one poll.
const catchUps = 64

// drainedLimit is the limit of a read that found little the last time.
const drainedLimit = 256

// allSlots has a bit for each slot.
const allSlots = 1<<adapters.Slots - 1

// plan decides what to read of some slots, a bit for each: the streams that are furthest, and those behind them, up to the cursor of the
// furthest. Routes that have order global or a pace of their own are read only with all slots; of some slots, again also says that a poll is
// needed to read all that is there.
func (r *Reader) plan(of uint32) *plan {
	p := &plan{}
	starved := r.starved.Swap(true) && of != allSlots // first: room that appears meanwhile wakes
	slots, places := make([][]*read, r.lanes()), map[standing]*read{}
	now := time.Now()
	for _, rt := range r.routes.All() {
		if p.leavesOut(rt, of, now) {
			continue
		}
		low := !rt.Memory.Plenty()
		rt.Memory.Low.Store(low)
		least := leastRoom(rt.Route)
		for _, l := range rt.Lanes {
			s := l.Session()
			if s == nil || of != allSlots && of>>l.Slots[0]&1 == 0 {
				continue
			}
			room, full := roomToRead(s, least, low, now)
			starved = starved || full
			if rt.Order == adapters.OrderGlobal {
				if room > 0 {
					p.addGlobal(s, r.Source, room)
				}
				continue
			}
			m := &member{session: s, stream: s.Streams()[0], room: room}
			k := standing{m.stream.Slot, m.stream.Fetched}
			if places[k] == nil {
				places[k] = &read{slot: k.slot, from: k.cursor, drained: true, density: m.stream.Density}
				slots[k.slot] = append(slots[k.slot], places[k])
			}
			places[k].join(m)
		}
	}
	behind := 0
	for _, reads := range slots {
		behind += p.addSlot(reads, catchUps-behind)
		p.again = p.again || of != allSlots && len(reads) > 1
	}
	p.addGlobals(int(r.fetches))
	r.starved.Store(starved)
	r.limit(p)
	return p
}

// leavesOut reports whether a route is left to a later poll.
func (p *plan) leavesOut(rt paced, of uint32, now time.Time) bool {
	switch {
	case of == allSlots:
		return p.sleeps(rt, now)
	case rt.Order == adapters.OrderGlobal:
		p.again = true
		return true
	}
	return rt.pace != nil
}

// lanes is the number of slots that the source has at most.
func (r *Reader) lanes() int {
	most := adapters.Slots
	for _, rt := range r.routes.All() {
		most = max(most, len(rt.Lanes))
	}
	return most
}

func (rd *read) join(m *member) {
	m.read = rd
	rd.members = append(rd.members, m)
	rd.order = max(rd.order, m.stream.Order)
	rd.closing = rd.closing || m.stream.Closing
	rd.drained = rd.drained && m.stream.Drained
	rd.room = max(rd.room, m.room)
	rd.overhead = max(rd.overhead, m.session.Route.Overhead())
	m.detached = m.room == 0
}

// addSlot plans the reads of one slot and returns how many are catch-ups.
func (p *plan) addSlot(reads []*read, most int) int {
	if len(reads) == 0 {
		return 0
	}
	tail := slices.MaxFunc(reads, func(a, b *read) int {
		return cmp.Or(cmp.Compare(a.from.Position, b.from.Position), cmp.Compare(a.order, b.order))
	})
	behind, bounded, joining := 0, false, false
	for _, rd := range reads {
		if rd.room > 0 {
			p.wanted = append(p.wanted, rd)
		}
		if rd == tail || rd.room == 0 || behind == most {
			continue
		}
		// A bound is for streams that have seen no more than the tail (which is known after their first read), and that are not in a
		// window, which bounds itself.
		if rd.from.Window == "" && tail.from.Window == "" && rd.order > 0 && rd.order <= tail.order {
			rd.until, rd.tail, rd.order, bounded = &tail.from, tail, tail.order, true
			joining = joining || rd.closing
		}
		p.add(rd)
		behind++
	}
	// The tail waits for one poll so that streams that have nearly caught up can join it.
	if tail.room > 0 && !joining {
		p.add(tail)
	} else {
		p.unread = p.unread || bounded
	}
	return behind
}

func (p *plan) add(rd *read) {
	rd.limit = rd.room
	if rd.drained {
		rd.limit = min(rd.limit, drainedLimit)
	}
	p.reads = append(p.reads, rd)
}

// few reduces the plan to n reads of one row, other ones each time. A route with order global reads all of its slots or none, so that counts
// as one read, and at most one of them is kept: a row of each slot may be more than there is memory for.
func (p *plan) few(n, turn int) {
	reads, globals := p.reads, p.globals
	p.reads, p.globals, p.unread = nil, nil, false
	ordinary := len(reads)
	if i := slices.IndexFunc(reads, func(rd *read) bool { return rd.global != nil }); i >= 0 {
		ordinary = i
	}
	for i := range min(n, ordinary+len(globals)) {
		switch at := (turn + i) % (ordinary + len(globals)); {
		case at < ordinary:
			p.reads = append(p.reads, reads[at])
		case len(p.globals) == 0:
			p.globals = globals[at-ordinary : at-ordinary+1]
		}
	}
	p.addGlobalReads()
	for _, rd := range p.reads {
		rd.limit = 1
	}
}

// free is the memory that the route with the least could take.
func (r *Reader) free() int64 {
	least := r.budget.Free()
	for _, rt := range r.routes.All() {
		if free, _ := rt.Memory.Room(); !rt.Memory.Low.Load() {
			least = min(least, free)
		}
	}
	return least
}

// limit divides the batch and the free memory among the reads.
func (r *Reader) limit(p *plan) {
	if len(p.reads) == 0 {
		return
	}
	busy := 0
	for _, rd := range p.reads {
		if rd.limit > drainedLimit {
			busy++
		}
	}
	share := max(r.poll.Batch/max(busy, 1), 1)
	total := 0
	for _, rd := range p.reads {
		rd.limit = max(min(rd.limit, share), 1)
		total += rd.limit
	}
	affordable := int(float64(r.free()) / r.rowCost)
	switch {
	case affordable >= total:
	case affordable < len(p.reads) && r.budget.Used.Load() > 0:
		r.starved.Store(true)
		p.few(affordable, int(r.fetches))
	default:
		for _, rd := range p.reads {
			rd.limit = max(rd.limit*affordable/total, 1)
		}
	}
	p.align()
}

// leastRoom is the room with which a lane is read: half of its window or, if another lane has that, a quarter, so that lanes stay close
// together: see align.go.
func leastRoom(r *lane.Route) int {
	if len(r.Lanes) == 1 { // no other lane
		return r.Window / 2
	}
	for _, s := range r.Sessions() {
		if s.Room() >= r.Window/2 {
			return r.Window / 4
		}
	}
	return r.Window / 2
}

// roomToRead is the room with which a lane is read; 0: it is not read. A lane that is more than half full has its blocked groups evicted.
func roomToRead(s *lane.Session, least int, low bool, now time.Time) (room int, full bool) {
	room = s.Room()
	if full = room < s.Route.Window/2 || room == 0 || low; full {
		s.EvictBlocked(now, low)
	}
	if room < least || low {
		return 0, full
	}
	return room, full
}
