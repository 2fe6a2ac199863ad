package lane

import (
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// streamRow is a row of a stream that is not durably settled.
type streamRow struct {
	page     *adapters.Page
	position int64
	anchor   adapters.Anchor
	created  time.Time
	late     bool
	finished bool
}

// after is [adapters.Row.After] for a row that is no longer in memory.
func (e *streamRow) after() adapters.Cursor {
	return adapters.After(e.page, e.position, e.late, e.anchor)
}

// Stream is how far one slot of a route was fetched and settled. The session's mutex guards all fields up to timeline.
//
// Rows get consecutive indexes in the order in which they were fetched:
//
//	durable <= head <= tail: written down; finished without gaps; fetched
type Stream struct {
	session *Session
	Slot    int
	Epoch   int64
	nextSeq int64 // for parked messages
	stored  int64 // nextSeq as it was last written
	storing int64 // as the settle in flight writes it

	Commands int64 // counter of operators' commands; only the manager uses it

	// Of settles: the last one's number, that of the one in flight, and the last one's that is known to be durable.
	revision, flying, confirmed int64

	ring    []streamRow // by index modulo its length; it grows with what is pending, from nothing
	durable uint64
	head    uint64
	tail    uint64
	beyond  int // finished between head and tail

	settled   adapters.Cursor    // behind head
	skip      map[int64]struct{} // positions settled beyond the cursor and not read yet: by a former owner, or by the hot path
	gone      []int64            // those of skip that the last read has passed without them
	hot       map[int64]*Item    // see [Stream.Expect]
	unwritten settling.Extent    // the least settle that has to write the cursor
	moving    int64              // position of the settle in flight
	written   int64              // position of the last settle that is durable
	timeline  timeline
	writing   uint64 // head as the settle in flight writes it

	// fetched is where the next read begins; caught up with settled when all
	// rows are finished. Written by the reader under the session's mutex.
	Fetched adapters.Cursor
	Order   uint64  // number of the fetch that took fetched's snapshot
	Drained bool    // the last read left nothing behind
	whole   bool    // all that was visible as of Fetched has been given to the session, or to former owners
	Closing bool    // the last read reached the other lanes' cursor
	Density float64 // rows per position in the last read, if that left something behind; 0: not known
}

// pending is the number of rows that are not durably settled.
func (s *Stream) pending() int { return int(s.tail - s.durable) }

func (s *Stream) append(row *adapters.Row) uint64 {
	if s.pending() == len(s.ring) {
		s.grow()
	}
	i := s.tail
	e := streamRow{page: row.Page, position: row.Position, anchor: row.Anchor(), created: row.CreatedAt, late: row.Late}
	s.ring[i%uint64(len(s.ring))] = e
	s.tail++
	s.Fetched, s.whole = e.after(), false
	return i
}

// ringLeast is the least size of a ring. Most lanes never fill their window, many never get a row, and the garbage collector counts memory
// that was never written to.
const ringLeast = 16

func (s *Stream) grow() {
	ring := make([]streamRow, max(2*len(s.ring), ringLeast))
	for i := s.durable; i < s.tail; i++ {
		ring[i%uint64(len(ring))] = *s.at(i)
	}
	s.ring = ring
}

func (s *Stream) at(i uint64) *streamRow { return &s.ring[i%uint64(len(s.ring))] }

func (s *Stream) finish(i uint64) {
	s.at(i).finished = true
	s.unwritten = settling.Concluded
	if i != s.head {
		s.beyond++
		return
	}
	s.head++
	for s.head < s.tail && s.at(s.head).finished {
		s.head++
		s.beyond--
	}
	s.settled = s.at(s.head - 1).after()
	s.catchUp()
}

// catchUp moves the settled cursor over everything that was fetched and needed no delivery, if nothing is in flight.
func (s *Stream) catchUp() {
	if s.head == s.tail && s.settled != s.Fetched {
		e := settling.Everything
		if s.settled.Position != s.Fetched.Position {
			e = settling.Passed
		}
		s.settled, s.unwritten = s.Fetched, min(s.unwritten, e)
	}
}

// settledBeyond lists the positions beyond the cursor that are finished.
func (s *Stream) settledBeyond() []int64 {
	if s.beyond == 0 && len(s.skip) == 0 {
		return nil
	}
	out := make([]int64, 0, s.beyond+len(s.skip))
	for i := s.head; i < s.tail && len(out) < s.beyond; i++ {
		if e := s.at(i); e.finished {
			out = append(out, e.position)
		}
	}
	for p := range s.skip {
		out = append(out, p)
	}
	return out
}

// settles reports whether an item is settled in the stream's row.
func (s *Stream) settles(it *Item) bool {
	return it.stream == s || it.stream == nil && it.slot == s.Slot
}

// deliver adds delivered items to a settlement of the stream.
func (s *Stream) deliver(st *adapters.Settlement, items []*Item) {
	for _, it := range items {
		switch {
		case !s.settles(it):
			continue
		case it.stream != nil:
			st.Beyond = append(st.Beyond, s.at(it.index).position)
			continue
		}
		if i := slices.IndexFunc(st.Park, func(p adapters.Parked) bool { return p.Seq == it.seq }); i >= 0 { // not stored yet
			st.Park = slices.Delete(st.Park, i, i+1)
		} else {
			st.Delivered = append(st.Delivered, it.seq)
		}
		st.Unpark = append(st.Unpark, it.seq)
	}
}

// forgetGone forgets positions that were settled before their rows were read, and whose rows are gone: a read that began when they were known
// has passed them without a row. The read that has just ended may have begun before that, so the next one counts.
func (s *Stream) forgetGone() {
	if !s.whole || len(s.skip)+len(s.gone) == 0 { // it is asked after each poll of each lane
		return
	}
	for _, position := range s.gone {
		if _, left := s.skip[position]; left {
			delete(s.skip, position)
			s.unwritten = settling.Concluded
		}
	}
	s.gone = s.gone[:0]
	for position := range s.skip {
		if position <= s.Fetched.Position {
			s.gone = append(s.gone, position)
		}
	}
}
