package lane

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
)

// timelineMost is how many settles of a stream are remembered. If there are more, every other one is forgotten, and from then on steps are
// twice as large.
const timelineMost = 32

// timeline has the times at which the cursor of a stream came to positions, for operators' questions.
type timeline struct {
	points []point
	every  int // so many settles are one point
	since  int // settles since the latest point
}

// point is when the cursor of a stream was written with a position.
type point struct {
	position int64
	at       int64 // nanoseconds since 1970
}

// add adds a durable settle. The last point is always the latest settle.
func (t *timeline) add(position int64, at time.Time) {
	n := len(t.points)
	if n > 0 && position < t.points[n-1].position { // a seek
		*t = timeline{}
		n = 0
	}
	m := point{position, at.UnixNano()}
	if n > 0 && position == t.points[n-1].position {
		return
	}
	if t.since++; n > 1 && t.since < t.every {
		t.points[n-1] = m
		return
	}
	t.since = 0
	if n == timelineMost {
		kept := t.points[:0]
		for i := 1; i < n; i += 2 {
			kept = append(kept, t.points[i])
		}
		t.points, t.every = kept, max(t.every, 1)*2
	}
	t.points = append(t.points, m)
}

// passed returns between which times the cursor came to a position; by is zero if that was before the first point.
func (t *timeline) passed(position int64) (after, by time.Time) {
	for i, m := range t.points {
		if m.position < position {
			continue
		}
		if i == 0 {
			return after, by
		}
		return time.Unix(0, t.points[i-1].at), time.Unix(0, m.at)
	}
	return after, by
}

// skipsMost is how many skipped messages of a route are remembered.
const skipsMost = 256

// skips remembers the latest messages of a route that were skipped.
type skips struct {
	seed maphash.Seed
	ring []skipped
	next int
}

// skipped is one of them. It has the hash of the id, which refers to nothing of the message.
type skipped struct {
	id       uint64
	at       int64
	slot     int
	position int64 // of the row, in a log table
	reason   string
}

func (s *skips) add(id string, slot int, position int64, reason string) {
	if s.ring == nil {
		s.seed, s.ring = maphash.MakeSeed(), make([]skipped, 0, skipsMost)
	}
	e := skipped{maphash.String(s.seed, id), time.Now().UnixNano(), slot, position, reason}
	if len(s.ring) < skipsMost {
		s.ring = append(s.ring, e)
		return
	}
	s.ring[s.next] = e
	s.next = (s.next + 1) % skipsMost
}

// find returns the skips of an id, one for each row.
func (s *skips) find(id string) (found []skipped) {
	if s.ring == nil {
		return nil
	}
	hash := maphash.String(s.seed, id)
	for _, e := range s.ring {
		if e.id != hash {
			continue
		}
		i := slices.IndexFunc(found, func(f skipped) bool { return f.slot == e.slot && f.position == e.position })
		if i < 0 {
			found = append(found, e)
		} else if e.at >= found[i].at {
			found[i] = e
		}
	}
	return found
}

// Trace returns what the route knows of an event, by its id and by rows in tables.
func (r *Route) Trace(id string, at []adapters.RowPlace) (out []adapters.Trace) {
	for _, s := range r.Sessions() {
		out = append(out, traceIn(s, id, at)...)
	}
	r.stats.mu.Lock()
	defer r.stats.mu.Unlock()
	for _, e := range r.stats.skips.find(id) { // a row that is in flight again is not skipped
		skip := adapters.Trace{LaneRef: adapters.LaneRef{Route: r.Name, Slot: e.slot}, Position: e.position, ID: id,
			Stage: adapters.TraceSkipped, By: time.Unix(0, e.at), Reason: e.reason}
		i := slices.IndexFunc(out, func(t adapters.Trace) bool { return t.Slot == e.slot && t.Position == e.position })
		if i < 0 {
			out = append(out, skip)
		} else if out[i].Stage == adapters.TraceSettled {
			out[i] = skip
		}
	}
	return out
}

func traceIn(s *Session, id string, at []adapters.RowPlace) (out []adapters.Trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[*Item]adapters.TraceStage{}
	s.gate.Each(func(t *handlers.Ticket, sending bool) {
		if it := owner(t); it.id() == id {
			stage := adapters.TraceWaiting
			if sending {
				stage = adapters.TraceSending
			}
			found[it] = stage
		}
	})
	for _, it := range s.runner.queue {
		if _, known := found[it]; !known && it.id() == id {
			found[it] = adapters.TraceWaiting
		}
	}
	known := map[int64]bool{}
	for it, stage := range found {
		if it.phase == finished || it.phase == parked && stage != adapters.TraceSending {
			continue
		}
		t := it.traced(stage)
		known[t.Position] = true
		out = append(out, t)
	}
	for _, p := range at {
		if p.Route == s.Route.Name && p.Table == "" && !known[p.Position] {
			out = append(out, traceRow(s, p)...)
		}
	}
	return out
}

// position returns the position of the item's row in a log table; 0: it has none.
func (it *Item) position() int64 {
	switch {
	case it.row != nil:
		return it.row.Position
	case it.content != nil:
		return it.content.position
	}
	return 0
}

func (it *Item) traced(stage adapters.TraceStage) adapters.Trace {
	t := adapters.Trace{LaneRef: adapters.LaneRef{Route: it.Session.Route.Name, Slot: it.rowSlot()}, ID: it.id(), Group: it.key,
		Position: it.position(), Stage: stage, Attempt: it.Attempt.Number, Error: it.lastError()}
	if it.row != nil && it.row.Page != nil {
		t.Since = it.row.Page.At
	}
	return t
}

// traceRow traces a row that came by cursor and is in no item that was found.
func traceRow(s *Session, p adapters.RowPlace) []adapters.Trace {
	for _, str := range s.progress.streams {
		if str.Slot != p.Slot {
			continue
		}
		t := adapters.Trace{LaneRef: p.LaneRef, Position: p.Position}
		for i := str.durable; i < str.tail; i++ {
			e := str.at(i)
			if e.position != p.Position {
				continue
			}
			t.Stage = adapters.TraceWaiting
			if e.finished {
				t.Stage = adapters.TraceEnded
			}
			if e.page != nil {
				t.Since = e.page.At
			}
			return []adapters.Trace{t}
		}
		if after, by := str.timeline.passed(p.Position); !by.IsZero() {
			t.Stage, t.After, t.By = adapters.TraceSettled, after, by
			return []adapters.Trace{t}
		}
	}
	return nil
}
