package lane

import (
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/parkedgroup"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// progress has what a session has in flight, what is settled in memory, and what of that is written. It has one stream for each slot of
// the lane, and the changes of parked rows, which are written in one transaction with the cursors. The session's mutex guards all of it.
type progress struct {
	route   *Route
	table   adapters.Table      // that the cursors belong to
	streams []*Stream           // aligned with lane.slots
	extra   int                 // items in flight that did not come by cursor
	live    int64               // memory of unfinished items, and of those whose rows are not written
	rows    parkedgroup.Writes  // of the parking, not yet settled
	flight  *parkedgroup.Writes // being settled
	turn    bool                // in a transaction that delivers
	ledger  *ledger             // of deliveries with notes; nil: there are none
}

func newProgress(r *Route, table adapters.Table, states []adapters.LaneState, session *Session) progress {
	p := progress{route: r, table: table}
	for _, st := range states {
		str := &Stream{session: session, Slot: st.Slot, Epoch: st.Epoch, Commands: st.Commands, nextSeq: max(st.NextSeq, 1), stored: st.NextSeq,
			settled: st.Cursor, Fetched: st.Cursor, written: st.Cursor.Position, revision: st.Revision, confirmed: st.Revision}
		str.skip = make(map[int64]struct{}, len(st.Beyond))
		for _, position := range st.Beyond {
			str.skip[position] = struct{}{}
		}
		str.unwritten = settling.Written
		if st.New { // notes of a former route of the name are void
			str.revision = max(str.revision, adapters.FirstRevision(time.Now()))
		}
		if st.New || st.Placed { // where it starts is written at once: later it would start elsewhere
			str.unwritten = settling.Concluded
		}
		p.streams = append(p.streams, str)
	}
	return p
}

// pending counts what is not durably settled.
func (p *progress) pending() int {
	n := p.extra
	for _, str := range p.streams {
		n += str.pending()
	}
	return n
}

// arrive moves a stream over a row and gives the row its index. Wanted reports whether it is to be delivered: a former owner or the hot
// path may have settled it, or have it in flight.
func (p *progress) arrive(a Arrival) (index uint64, wanted bool) {
	str, row := a.Stream, a.Row
	if !a.Matched {
		str.Fetched, str.whole = row.After(), false
		str.catchUp()
		return 0, false
	}
	index = str.append(row)
	if p.meet(str, row.Position, index) {
		p.route.Memory.Give(a.Cost)
		return index, false
	}
	if _, done := str.skip[row.Position]; !done {
		return index, true
	}
	delete(str.skip, row.Position)
	p.route.Memory.Give(a.Cost)
	str.finish(index)
	p.notify()
	return index, false
}

// begin counts an item that enters the lane. Its memory is taken.
func (p *progress) begin(it *Item) {
	p.live += it.cost
	if it.stream == nil {
		p.extra++
	}
}

// leave takes the item out of the lane: it frees the item's memory, which its row keeps until it is written, and settles its index in the
// stream.
func (p *progress) leave(it *Item, as phase) {
	it.leave(as)
	if p.ledger != nil && as == finished {
		p.ledger.leave(it)
	}
	if w := p.writes(it); w != nil {
		w.Memory += it.cost
	} else {
		p.free(it.cost)
	}
	it.cost = 0
	if it.stream != nil {
		it.stream.finish(it.index)
	} else if !it.uncounted {
		p.extra--
	}
	p.settleAhead(it)
}

// detach lets the cursor move over an item that has a row in the parking. The item takes no more room: one that hangs would fill the lane.
func (p *progress) detach(it *Item) {
	if it.stream != nil {
		it.stream.finish(it.index)
		it.stream = nil
	} else if !it.uncounted {
		p.extra--
	}
	p.settleAhead(it)
	it.uncounted = true
}

// writes returns the writes that have the item's row; nil: it is written, or there is none.
func (p *progress) writes(it *Item) *parkedgroup.Writes {
	if it.seq == 0 {
		return nil
	}
	if _, ok := p.rows.Park[it.parkedRow()]; ok {
		return &p.rows
	}
	if p.flight != nil {
		if _, ok := p.flight.Park[it.parkedRow()]; ok {
			return p.flight
		}
	}
	return nil
}

// hold takes memory for a row that is to be written; false: there is not enough.
func (p *progress) hold(n int64) bool {
	if !p.route.Memory.Take(n) {
		return false
	}
	p.live += n
	p.rows.Memory += n
	return true
}

// free gives memory back; nothing is left when giveUp was first.
func (p *progress) free(n int64) {
	n = min(n, p.live)
	p.route.Memory.Give(n)
	p.live -= n
}

// giveUp gives back the memory of what stays unfinished.
func (p *progress) giveUp() {
	p.route.Memory.Give(p.live)
	p.live = 0
}

// number gives the item its sequence number in the parking.
func (p *progress) number(it *Item) {
	if it.seq == 0 {
		it.seq = p.streams[0].nextSeq
		p.streams[0].nextSeq++
	}
}

// finishedBeyond counts the finished rows behind those that are not: they take room until the cursor moves over them.
func (p *progress) finishedBeyond() (n int) {
	for _, str := range p.streams {
		n += str.beyond
	}
	return n
}

// notify asks for a settle, urgently if a group waits for it, half the window, or half the memory is spent and some of it waits.
func (p *progress) notify() {
	unsettled := 0
	for _, str := range p.streams {
		unsettled += int(str.head-str.durable) + str.beyond
	}
	p.route.settler.Note(len(p.rows.Dead) > 0 || unsettled >= p.route.Window/2 || p.rows.Memory > 0 && !p.route.Memory.Plenty())
}

// written reports whether everything that was concluded of parked rows is written.
func (p *progress) written() bool { return p.rows.Empty() && p.flight == nil }

// unsettled is how many messages are in flight or about to be written.
func (p *progress) unsettled() int {
	n := p.extra + len(p.rows.Park)
	if p.flight != nil {
		n += len(p.flight.Park)
	}
	for _, str := range p.streams {
		n += int(str.tail-str.head) - str.beyond
	}
	return n
}

func (p *progress) oldest() (oldest time.Time) {
	for _, str := range p.streams {
		if str.head < str.tail {
			oldest = earlier(oldest, str.at(str.head).created)
		}
	}
	return oldest
}

// earlier returns the first of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// settlements implements [Session.Settlements] of a lane that is still the session's. Messages that are delivered in the transaction that
// writes them are settled with it.
func (p *progress) settlements(e settling.Extent, delivered []*Item) (out []adapters.Settlement) {
	if p.flight != nil {
		return nil
	}
	if p.route.Progress && e < settling.Passed && p.concluded() && delivered == nil {
		e = settling.Passed // the row shows the lowest cursor, which may be above rows of other lanes
	}
	for i, str := range p.streams {
		mine := slices.ContainsFunc(delivered, str.settles)
		park, unpark := p.rows.Of(str.Slot)
		if rows := i == 0 && !p.rows.Empty() || len(park)+len(unpark) > 0; rows || mine || e >= str.unwritten {
			st := p.settlement(str)
			st.Park, st.Unpark = park, unpark
			out = append(out, st)
		}
		if mine {
			str.deliver(&out[len(out)-1], delivered)
		}
	}
	if len(out) > 0 {
		out[0].Published = p.rows.Published || delivered != nil
		p.flight = p.rows.Take()
	}
	return out
}

// concluded reports whether any stream has a cursor that is to be written soon.
func (p *progress) concluded() bool {
	for _, str := range p.streams {
		if str.unwritten == settling.Concluded {
			return true
		}
	}
	return false
}

// settlement returns what is to be written of one stream, except rows of the parking.
func (p *progress) settlement(str *Stream) adapters.Settlement {
	str.revision++
	str.flying = str.revision
	st := adapters.Settlement{
		LaneRef: adapters.LaneRef{Route: p.route.Name, Slot: str.Slot},
		Epoch:   str.Epoch, Revision: str.revision, Confirmed: str.confirmed,
		Cursor: str.settled, Beyond: str.settledBeyond(), NextSeq: str.nextSeq, Stored: str.stored, Table: p.table,
	}
	str.moving = str.settled.Position
	str.writing, str.storing, str.unwritten = str.head, str.nextSeq, settling.Written
	return st
}

// settled takes the outcome of what settlements returned. Durable reports whether something is written now.
func (p *progress) settled(ok bool) (written *parkedgroup.Writes, durable bool) {
	flight := p.flight
	p.flight = nil
	switch {
	case flight == nil:
		return nil, false
	case !ok:
		p.rows.Restore(flight)
		for _, str := range p.streams {
			str.unwritten = settling.Concluded
		}
		return nil, false
	}
	p.free(flight.Memory)
	now := time.Now()
	for _, str := range p.streams {
		if str.flying > str.confirmed {
			str.timeline.add(str.moving, now)
			str.written = str.moving
		}
		str.confirmed = max(str.confirmed, str.flying)
		str.durable, str.stored = max(str.durable, str.writing), max(str.stored, str.storing)
	}
	return flight, true
}

// meet gives an item that came from memory its index in the stream, now that its row was read; false: there is no such item.
func (p *progress) meet(str *Stream, position int64, index uint64) bool {
	it, expected := str.hot[position]
	if expected {
		delete(str.hot, position)
	}
	if it == nil {
		return false
	}
	it.stream, it.index, it.ahead = str, index, false
	p.extra--
	return true
}

// streamOf returns the stream in whose row an item is settled.
func (p *progress) streamOf(it *Item) *Stream {
	for _, str := range p.streams {
		if str.settles(it) {
			return str
		}
	}
	return p.streams[0]
}

// settleAhead settles an item that has ended before its row was read.
func (p *progress) settleAhead(it *Item) {
	if !it.ahead {
		return
	}
	it.ahead = false
	str := p.streams[0]
	delete(str.hot, it.row.Position)
	str.skip[it.row.Position] = struct{}{}
	str.unwritten = settling.Concluded
}

// commit notes that the delivery of an item is durable. Its chain has not returned yet.
func (p *progress) commit(it *Item) {
	it.committed = true
	if it.stream == nil {
		p.rows.Remove(it.parkedRow()) // it was stored meanwhile, perhaps
	}
	p.detach(it)
}
