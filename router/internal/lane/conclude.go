package lane

import (
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// ShortDelay is how long a message may wait for its next attempt in memory;
// longer waits are parked.
const ShortDelay = time.Second

// conclude decides what becomes of a message whose chain has returned, and sends
// it to the poison destination if that is its way.
func (s *Session) conclude(it *Item, err error) {
	s.mu.Lock()
	follow := s.judge(it, err)
	s.mu.Unlock()
	follow.run()
	if follow.dying != nil {
		s.sendToPoison(follow.dying)
	}
}

// judge is conclude without what is left to do outside of the session's mutex.
// Call with the mutex held.
func (s *Session) judge(it *Item, err error) (follow followUp) {
	v := verdict(it, err)
	if err != nil {
		s.route.notePanic(err)
		if v.Outcome == outbox.OutcomeDelivered {
			s.route.Log().Warn("a middleware failed after the message was delivered: it counts as delivered",
				"lane", s.lane.Name, "id", it.id(), "error", err)
		}
	}
	if it.phase == running {
		follow = s.apply(it, v)
	} else {
		s.route.health.concluded(it) // parked meanwhile; it may have been a probe
	}
	if follow.dying == nil {
		s.noteUnknown(v.Outcome)
		s.runner.end()
	}
	return follow
}

// verdict is outbox.VerdictOf with what the lane knows beside the error.
func verdict(it *Item, err error) outbox.Verdict {
	v := outbox.VerdictOf(err)
	switch {
	case it.Delivered():
		return outbox.Verdict{Outcome: outbox.OutcomeDelivered}
	case v.Outcome == outbox.OutcomeDelivered:
		// Nothing failed and nothing was delivered: a middleware kept it.
		return outbox.Verdict{Outcome: outbox.OutcomeSkipped, Reason: "filtered"}
	}
	return v
}

// followUp is what is left to do outside of the session's mutex, because it
// concerns other sessions.
type followUp struct {
	rerun    []*Item   // their address is back
	giveBack []*charge // attempts that were their address's fault
	back     *Route    // an address of it is back
	dying    *Item     // the item itself, when it is to be sent to the poison destination
}

// empty reports whether there is nothing to do.
func (f followUp) empty() bool {
	return len(f.rerun) == 0 && len(f.giveBack) == 0 && f.back == nil && f.dying == nil
}

// run does all but the sending to the poison destination, which takes its time.
func (f followUp) run() {
	for _, c := range f.giveBack {
		c.session.giveBack(c)
	}
	for _, it := range f.rerun {
		it.Session.rerun(it)
	}
	if f.back != nil {
		f.back.kick()
		f.back.readmit()
	}
}

// revive notes that an address works.
func (f *followUp) revive(rt *Route, address string) {
	again, back := rt.health.delivered(address)
	f.rerun = again
	if back {
		f.back = rt
	}
}

// apply carries out a verdict. Call with the mutex held.
func (s *Session) apply(it *Item, v outbox.Verdict) (follow followUp) {
	h := s.route.health
	defer func() { h.concluded(it) }()
	if it.unwanted && v.Outcome != outbox.OutcomeDelivered {
		v = outbox.Verdict{Outcome: outbox.OutcomeSkipped, Reason: skippedByOperator}
	}
	if it.death == nil {
		it.giveBack(it.owed + s.parking.takeCredit(it))
	}
	it.owed = 0
	if it.redriven && v.Outcome == outbox.OutcomeDead && v.Exhausted {
		v.Outcome, v.Exhausted = outbox.OutcomeRetry, false
	}
	address, failed := it.Failed()
	switch {
	case !failed || v.Outcome != outbox.OutcomeRetry && !v.Exhausted:
	case outbox.AnsweredBy(v.Err):
		follow.revive(s.route, address) // it refused the message, but it is there
	default:
		// It was the destination: perhaps the whole address is failing.
		charged, blamed := h.failed(address, it, v.RetryAfter, v.Err)
		follow.giveBack = blamed
		if !charged {
			s.hold(it)
			return follow
		}
	}
	switch v.Outcome {
	case outbox.OutcomeDelivered:
		follow.revive(s.route, address)
		s.route.stats.delivered(it)
		s.finish(it, outbox.OutcomeDelivered)
	case outbox.OutcomeSkipped:
		s.route.stats.skip(v.Reason)
		s.gate.Leave(&it.Ticket)
		s.finish(it, outbox.OutcomeSkipped)
	case outbox.OutcomeRetry:
		s.retry(it, v)
	case outbox.OutcomeUnavailable:
		if !failed {
			address = s.addressOf(it)
		}
		follow.giveBack = h.unavailable(address, it, v, !failed || v.Outage)
		s.hold(it)
	case outbox.OutcomeDead:
		if s.sendDead(it, v) {
			follow.dying = it
		} else {
			s.deadLetter(it, v)
		}
	case outbox.OutcomeReleased:
		if !s.stopping {
			s.after(it, max(ReleaseDelay, v.RetryAfter))
		}
	}
	return follow
}

// ReleaseDelay keeps a chain that releases its message at once, again and
// again, from spinning.
const ReleaseDelay = 100 * time.Millisecond

// addressOf renders the address of a message that did not get to the gate. One
// without, or whose destination panics, is told when it gets there.
func (s *Session) addressOf(it *Item) string {
	address, _ := s.gate.Address(it.newMessage())
	return address
}

// hold keeps the item where it is until its address is back; health has it.
func (s *Session) hold(it *Item) { it.phase = held }

// retry counts the attempt and plans the next: in memory when it is soon,
// otherwise in the parking, with the group behind it.
func (s *Session) retry(it *Item, v outbox.Verdict) {
	s.route.stats.retried.Add(1)
	now := time.Now()
	at := v.At
	if at.IsZero() {
		at = now.Add(max(defaultRetry.Delay(it.Attempt.Number), v.RetryAfter))
	}
	if it.redriven { // while this attempt was under way: the next one is the first, and comes at once
		it.redriven, it.Attempt.Number, at = false, 0, now
	}
	if it.Attempt.Number == 1 {
		s.route.failures.Log(s.route.Log(), "lane", s.lane.Name, "id", it.id(), "group", it.key, "next_attempt_in", at.Sub(now).Round(time.Millisecond), "error", v.Err)
	}
	if s.origin.Retry(it, at, v.Err) {
		return
	}
	it.Attempt.Number++
	it.lastError = v.Err.Error()
	if at.Sub(now) <= ShortDelay {
		s.after(it, at.Sub(now))
		return
	}
	s.park(it, adapters.ParkedRetrying, at, v.Err)
}

// defaultRetry is the backoff of routes without retry middleware.
var defaultRetry = middleware.Retry{}

// after runs the chain again after a delay. The group waits behind the item.
func (s *Session) after(it *Item, d time.Duration) {
	it.phase = backoff
	w := &wait{}
	w.item.Store(it)
	w.timer = time.AfterFunc(d, w.over)
	it.wait = w
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
		it.Session.rerun(it)
	}
}

// stopWaiting ends the pause before the item's next attempt, if it is in one. Call with
// the session's mutex held.
func (it *Item) stopWaiting() {
	if w := it.wait; w != nil {
		w.timer.Stop()
		w.item.Store(nil)
		it.wait = nil
	}
}

// finish marks an item as settled, in memory. Its ticket has left the gate.
func (s *Session) finish(it *Item, outcome outbox.Outcome) {
	it.phase = finished
	s.releaseItem(it)
	if s.origin.Settled(it, outcome) {
		return
	}
	s.leaveParking(it, true)
	s.noteProgress()
}

// releaseItem frees what the item holds and settles its place in the stream.
func (s *Session) releaseItem(it *Item) {
	freed := min(it.cost, s.live) // nothing is left when letGo was first
	s.route.Share.Give(freed)
	s.live -= freed
	it.cost = 0
	it.uncharge()
	if it.stream != nil {
		it.stream.finish(it.index)
	} else if !it.uncounted {
		s.extra--
	}
}

// noteProgress asks for a settle, urgently when half the window waits for it.
func (s *Session) noteProgress() {
	unsettled := 0
	for _, str := range s.streams {
		unsettled += int(str.head-str.durable) + str.beyond
	}
	s.settler.Note(unsettled >= s.route.Window/2)
}

// deadLetter takes a dead message out: its group goes on, or is held with it.
func (s *Session) deadLetter(it *Item, v outbox.Verdict) {
	s.route.stats.dead.Add(1)
	v.Hold = v.Hold && s.origin.Parks() // a queue's table has no status for it
	text := "message is dead; its group goes on"
	if v.Hold {
		text = "message is dead; its group is held for an operator"
	}
	s.route.Log().Error(text, "lane", s.lane.Name, "id", it.id(), "group", it.key,
		"attempts", it.Attempt.Number, "error", v.Err)
	if v.Hold {
		s.park(it, adapters.ParkedHeld, time.Time{}, v.Err)
		return
	}
	s.gate.Leave(&it.Ticket)
	it.phase = finished
	s.releaseItem(it)
	if s.origin.Dead(it, v.Err) {
		return
	}
	s.ops.put(s.parkedRow(it, adapters.ParkedDead, time.Time{}, v.Err))
	s.ackLater(it)
	s.leaveParking(it, false)
	s.noteProgress()
}

// letGo gives back what the session leaves unfinished: memory, messages to the
// subscriber that they came from, and rows to their queue.
func (s *Session) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.route.Share.Give(s.live)
	s.live = 0
	s.origin.Release()
}
