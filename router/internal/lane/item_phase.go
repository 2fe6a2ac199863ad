package lane

import (
	"sync/atomic"
	"time"
)

// phase is the state of an item, guarded by the session's mutex. Only the functions of this file change it.
type phase uint8

const (
	running       phase = iota // queued for its chain, in it, or at the gate
	backoff                    // its next attempt has a timer
	held                       // its address is down
	finished                   // settled in memory
	parked                     // taken out of the lane
	deadLettering              // being sent to the poison destination
)

// gone reports whether the item has left the lane.
func (it *Item) gone() bool { return it.phase == finished || it.phase == parked }

// resume has the item attempted again.
func (it *Item) resume() { it.phase, it.wait = running, nil }

// hold keeps the item in the lane until its address is back.
func (it *Item) hold() { it.phase = held }

// after runs the chain again after a delay. The group waits behind the item.
func (it *Item) after(d time.Duration) {
	it.phase = backoff
	w := &wait{}
	w.item.Store(it)
	w.timer = time.AfterFunc(d, w.over)
	it.wait = w
}

// leave ends the item's presence in the lane: settled, or parked.
func (it *Item) leave(as phase) {
	if w := it.wait; w != nil {
		w.timer.Stop()
		w.item.Store(nil)
		it.wait = nil
	}
	it.phase = as
	if it.charge != nil {
		it.uncharge()
	}
}

// deadLetter begins the way to the poison destination.
func (it *Item) deadLetter(d *death) {
	if it.death == nil {
		it.death = d
	}
	it.phase = deadLettering
}

// wait is the pause before an item's next attempt. When it is stopped it does not refer to the item any more: the runtime may keep a
// stopped timer, with what it refers to.
type wait struct {
	timer *time.Timer
	item  atomic.Pointer[Item]
}

func (w *wait) over() {
	if it := w.item.Load(); it != nil {
		it.Rerun()
	}
}
