package lane

import (
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// opKey names a parked row of a lane.
type opKey struct {
	slot int
	seq  int64
}

// ops is what has to be written beside the cursors, in the same transaction.
type ops struct {
	park   map[opKey]adapters.Parked
	unpark map[opKey]struct{}
	acks   []any // what the origin is told when it is durable

	changes uint64 // how often a row was put or removed, ever
}

func (o *ops) empty() bool { return len(o.park)+len(o.unpark)+len(o.acks) == 0 }

// put inserts or replaces a parked row.
func (o *ops) put(p adapters.Parked) {
	if o.park == nil {
		o.park = map[opKey]adapters.Parked{}
	}
	o.changes++
	k := opKey{p.Slot, p.Seq}
	if former, replaced := o.park[k]; replaced { // which is not in the table yet
		p.Was = min(p.Was, former.Was)
	}
	delete(o.unpark, k)
	o.park[k] = p
}

// remove deletes a parked row.
func (o *ops) remove(slot int, seq int64) {
	if o.unpark == nil {
		o.unpark = map[opKey]struct{}{}
	}
	o.changes++
	k := opKey{slot, seq}
	delete(o.park, k)
	o.unpark[k] = struct{}{}
}

// restore puts back what could not be written, under what came since.
func (o *ops) restore(failed *ops) {
	for k, p := range failed.park {
		_, removed := o.unpark[k]
		if now, replaced := o.park[k]; replaced {
			now.Was = min(now.Was, p.Was)
			o.park[k] = now
		} else if !removed {
			o.put(p)
		}
	}
	for k := range failed.unpark {
		if _, replaced := o.park[k]; !replaced {
			o.remove(k.slot, k.seq)
		}
	}
	o.acks = append(failed.acks, o.acks...)
}

// Settlements implements Batch: it returns what is to be written about the lane, or nothing.
func (s *Session) Settlements(e settling.Extent) []adapters.Settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost || s.flight != nil {
		return nil
	}
	var out []adapters.Settlement
	for i, str := range s.streams {
		hasOps := i == 0 && !s.ops.empty() || s.ops.touches(str.Slot)
		if !hasOps && e < str.unwritten {
			continue
		}
		str.revision++
		str.flying = str.revision
		st := adapters.Settlement{
			LaneRef: adapters.LaneRef{Route: s.route.Name, Slot: str.Slot},
			Epoch:   str.Epoch, Revision: str.revision, Confirmed: str.confirmed,
			Cursor: str.settled, Beyond: str.settledBeyond(), NextSeq: str.nextSeq, Stored: str.stored, Table: s.table,
		}
		for k, p := range s.ops.park {
			if k.slot == str.Slot {
				st.Park = append(st.Park, p)
			}
		}
		for k := range s.ops.unpark {
			if k.slot == str.Slot {
				st.Unpark = append(st.Unpark, k.seq)
			}
		}
		out = append(out, st)
		str.writing, str.storing, str.unwritten = str.head, str.nextSeq, settling.Written
	}
	if len(out) > 0 {
		s.flight = &ops{park: s.ops.park, unpark: s.ops.unpark, acks: s.ops.acks}
		s.ops = ops{changes: s.ops.changes}
	}
	return out
}

func (o *ops) touches(slot int) bool {
	for k := range o.park {
		if k.slot == slot {
			return true
		}
	}
	for k := range o.unpark {
		if k.slot == slot {
			return true
		}
	}
	return false
}

// Settled implements Batch.
func (s *Session) Settled(ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	flight := s.flight
	s.flight = nil
	if flight == nil {
		return
	}
	if !ok {
		s.ops.restore(flight)
		for _, str := range s.streams {
			str.unwritten = settling.Concluded
		}
		return
	}
	for _, str := range s.streams {
		str.confirmed = max(str.confirmed, str.flying)
		str.durable, str.stored = max(str.durable, str.writing), max(str.stored, str.storing)
	}
	s.origin.Durable(flight.acks, s.lost)
	s.route.Feeder.RoomFreed()
}

// Confirmed returns, for each stream, the last settle that is known to be durable.
func (s *Session) Confirmed() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]int64, len(s.streams))
	for i, str := range s.streams {
		out[i] = str.confirmed
	}
	return out
}
