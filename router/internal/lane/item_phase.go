package lane

import (
	"sync/atomic"
	"time"
)

// phase is where an item is between its chains, guarded by the session's mutex. The
// functions of this file are the only ones that change it.
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

// resume has the item attempted again; its pause is over, or its address is back.
func (it *Item) resume() { it.phase, it.wait = running, nil }

// hold keeps the item where it is until its address is back; health has it.
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

// wait is the pause before an item's next attempt. It lets go of the item when it is
// stopped: the runtime keeps a stopped timer, with what it refers to, for as long as it
// likes.
type wait struct {
	timer *time.Timer
	item  atomic.Pointer[Item]
}

func (w *wait) over() {
	if it := w.item.Load(); it != nil {
		it.Rerun()
	}
}
