package lane

import (
	"github.com/outriderhq/outrider/adapters"
)

// opKey names a parked row of a lane.
type opKey struct {
	slot int
	seq  int64
}

// ops is what has to be written beside the cursors, in the same transaction.
type ops struct {
	park      map[opKey]adapters.Parked
	unpark    map[opKey]struct{}
	published bool  // messages were delivered
	acks      []any // what the origin is told when it is durable
	memory    int64 // of messages that have left the lane, whose rows are not written

	changes uint64 // how often a row was put or removed, ever
}

func (o *ops) empty() bool { return len(o.park)+len(o.unpark)+len(o.acks) == 0 }

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
	o.published = o.published || failed.published
	o.memory += failed.memory
	o.acks = append(failed.acks, o.acks...)
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
