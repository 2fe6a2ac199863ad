package parkedgroup

import (
	"github.com/outriderhq/outrider/adapters"
)

// Writes are the rows of the parking that are written in the same transaction as the cursors.
type Writes struct {
	Park      map[Row]adapters.Parked // written; changed by Put, Remove and Restore only
	Unpark    map[Row]struct{}        // removed; likewise
	Published bool                    // messages were delivered
	Acks      []any                   // of the origin, for when all of it is durable
	Dead      []any                   // messages whose groups go on when all of it is durable
	Memory    int64                   // of messages that have left the lane, whose rows are not written
	changes   uint64
}

// Empty reports whether nothing is to be written.
func (w *Writes) Empty() bool { return len(w.Park)+len(w.Unpark)+len(w.Acks) == 0 }

// Changes is how often a row was put or removed, ever.
func (w *Writes) Changes() uint64 { return w.changes }

// Put has a row written.
func (w *Writes) Put(p adapters.Parked) {
	if w.Park == nil {
		w.Park = map[Row]adapters.Parked{}
	}
	w.changes++
	k := Row{p.Slot, p.Seq}
	if former, replaced := w.Park[k]; replaced { // which is not in the table yet
		p.Was = min(p.Was, former.Was)
	}
	delete(w.Unpark, k)
	w.Park[k] = p
}

// Remove has a row removed.
func (w *Writes) Remove(k Row) {
	if w.Unpark == nil {
		w.Unpark = map[Row]struct{}{}
	}
	w.changes++
	delete(w.Park, k)
	w.Unpark[k] = struct{}{}
}

// Take returns and removes all that is to be written.
func (w *Writes) Take() *Writes {
	taken := *w
	*w = Writes{changes: w.changes}
	return &taken
}

// Restore puts back what could not be written, under what came since.
func (w *Writes) Restore(failed *Writes) {
	for k, p := range failed.Park {
		_, removed := w.Unpark[k]
		if now, replaced := w.Park[k]; replaced {
			now.Was = min(now.Was, p.Was)
			w.Park[k] = now
		} else if !removed {
			w.Put(p)
		}
	}
	for k := range failed.Unpark {
		if _, replaced := w.Park[k]; !replaced {
			w.Remove(k)
		}
	}
	w.Published = w.Published || failed.Published
	w.Memory += failed.Memory
	w.Acks = append(failed.Acks, w.Acks...)
	w.Dead = append(failed.Dead, w.Dead...)
}

// Of returns the rows of a slot that are written, and the numbers of those that are removed.
func (w *Writes) Of(slot int) (park []adapters.Parked, unpark []int64) {
	for k, row := range w.Park {
		if k.Slot == slot {
			park = append(park, row)
		}
	}
	for k := range w.Unpark {
		if k.Slot == slot {
			unpark = append(unpark, k.Seq)
		}
	}
	return park, unpark
}
