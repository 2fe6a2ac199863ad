package lane

import (
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// defaultRetry is the backoff of routes without retry middleware.
var defaultRetry = middleware.Retry{}

// outcomes carries out the verdicts on a session's messages: it updates the address, the gate, the origin, the parking and the cursor.
// Effects on other sessions are returned. The session's mutex guards all of it.
type outcomes struct {
	route    *Route
	lane     *Lane
	origin   Origin
	gate     *handlers.Gate
	runner   *runner
	parking  *parking
	progress *progress
}

func newOutcomes(s *Session) outcomes {
	return outcomes{route: s.Route, lane: s.Lane, origin: s.origin, gate: s.gate,
		runner: &s.runner, parking: &s.parking, progress: &s.progress}
}

// judge carries out the verdict of an item whose chain has returned.
func (o *outcomes) judge(it *Item, err error) (follow followUp) {
	v := verdict(it, err)
	if err != nil {
		o.route.logPanic(err)
		if v.Outcome == outbox.OutcomeDelivered {
			o.route.Log().Warn("a middleware failed after the message was delivered: it counts as delivered",
				"lane", o.lane.Name, "id", it.id(), "error", err)
		}
	}
	if it.phase == running {
		follow = o.apply(it, v)
		if _, lost := errors.AsType[*LostError](err); lost && it.phase == backoff {
			o.origin.PutBack(it)
		}
		o.putAsideIfPaused(it)
	} else {
		o.route.Health.Concluded(it) // parked meanwhile; it may have been a probe
	}
	if follow.dead == nil {
		o.runner.endedAs(v.Outcome)
		o.runner.endLocked()
	}
	return follow
}

// verdict is outbox.VerdictOf, except for messages that were delivered or that a middleware has filtered.
func verdict(it *Item, err error) outbox.Verdict {
	if it.Delivered() {
		return outbox.Verdict{Outcome: outbox.OutcomeDelivered}
	}
	v := outbox.VerdictOf(err)
	if v.Outcome == outbox.OutcomeDelivered { // nothing failed and nothing was delivered: a middleware kept it
		return outbox.Verdict{Outcome: outbox.OutcomeSkipped, Reason: "filtered"}
	}
	return v
}

func (o *outcomes) apply(it *Item, v outbox.Verdict) (follow followUp) {
	h := o.route.Health
	defer h.Concluded(it)
	if it.unwanted && v.Outcome != outbox.OutcomeDelivered {
		v = outbox.Verdict{Outcome: outbox.OutcomeSkipped, Reason: skippedByOperator}
	}
	if it.seq != 0 || it.credits != 0 {
		o.parking.repay(it)
	}
	if it.redriven && v.Outcome == outbox.OutcomeDead && v.Exhausted {
		v.Outcome, v.Exhausted = outbox.OutcomeRetry, false
	}
	address, failed := it.Failed()
	switch {
	case failed && outbox.AnsweredBy(v.Err):
		follow.Effects = h.Delivered(address) // it refused the message, but it is there
	case !failed || v.Outcome != outbox.OutcomeRetry && !v.Exhausted:
	default:
		// It was the destination: perhaps the whole address is failing.
		counts := it.AmongDelivered()
		if !counts {
			counts, follow.GiveBack = h.Failed(address, it, o.gate.SentAt(&it.Ticket), v.RetryAfter, v.Err)
		}
		if !counts {
			it.hold()
			return follow
		}
	}
	switch v.Outcome {
	case outbox.OutcomeDelivered:
		follow.Effects = h.Delivered(address)
		o.route.stats.delivered(it)
		o.progress.rows.Published = true
		o.finish(it, outbox.OutcomeDelivered)
	case outbox.OutcomeSkipped:
		o.route.stats.skipItem(it, v.Reason)
		o.gate.Leave(&it.Ticket)
		o.finish(it, outbox.OutcomeSkipped)
	case outbox.OutcomeRetry:
		o.retry(it, v)
	case outbox.OutcomeUnavailable:
		if !failed { // it did not get to the gate, which says what is wrong with an address
			address, _ = o.gate.Address(it.newMessage())
		}
		var gone bool
		if follow.GiveBack, gone = h.Unavailable(address, it, o.gate.SentAt(&it.Ticket), v, !failed || v.Outage); gone {
			o.route.Lease.RememberGone(address, v.Err)
		}
		it.hold()
	case outbox.OutcomeDead:
		it.failed(v.Err)
		if o.route.poison != nil {
			it.deadLetter(&death{Death: outbox.DeathBy(v, it.Attempt.Number, o.route.Name), Hold: v.Hold, err: v.Err})
			it.reserved = o.gate.Reserve(&it.Ticket)
			follow.dead = it
		} else {
			o.deadLetter(it, v)
		}
	case outbox.OutcomeReleased:
		if !o.runner.stopping {
			it.after(max(ReleaseDelay, v.RetryAfter))
		}
	}
	return follow
}

// retry counts the attempt and plans the next: in memory if it is soon, otherwise in the parking, with the group behind it.
func (o *outcomes) retry(it *Item, v outbox.Verdict) {
	o.route.stats.retried.Add(1)
	now := time.Now()
	at := v.At
	if at.IsZero() {
		at = now.Add(max(defaultRetry.Delay(it.Attempt.Number), v.RetryAfter))
	}
	if it.redriven { // during this attempt: the next one is the first, and comes at once
		it.redriven, it.Attempt.Number, at = false, 0, now
	}
	if it.Attempt.Number == 1 {
		o.route.failures.Log(o.route.Log(), "lane", o.lane.Name, "id", it.id(), "group", it.key, "next_attempt_in", at.Sub(now).Round(time.Millisecond), "error", v.Err)
	}
	if o.origin.Retry(it, at, v.Err) {
		return
	}
	it.failed(v.Err)
	it.Attempt.Number++
	if at.Sub(now) <= ShortDelay && !o.route.Progress { // otherwise others see that it failed
		it.after(at.Sub(now))
		return
	}
	o.parking.park(it, adapters.ParkedRetrying, at, v.Err)
}

// finish settles an item in memory. Its ticket has left the gate.
func (o *outcomes) finish(it *Item, outcome outbox.Outcome) {
	o.progress.leave(it, finished)
	if o.origin.Settled(it, outcome, nil) {
		return
	}
	if it.seq != 0 {
		o.parking.settled(it, true)
	}
	o.progress.notify()
}

// takeBack takes an item out of the lane that its origin takes back.
func (o *outcomes) takeBack(it *Item) {
	o.route.Health.Left(it)
	o.progress.leave(it, finished)
}

// skip ends a message that an operator has removed: now, or when a delivery in flight has its outcome, unless that delivers it.
func (o *outcomes) skip(it *Item) {
	it.unwanted = true
	if it.phase == running || it.phase == deadLettering {
		o.gate.Leave(&it.Ticket)
		return
	}
	o.endSkipped(it)
}

func (o *outcomes) endSkipped(it *Item) {
	o.route.Health.Left(it)
	o.route.stats.skipItem(it, skippedByOperator)
	o.gate.Leave(&it.Ticket)
	o.finish(it, outbox.OutcomeSkipped)
}

// deadLetter takes a dead message out: its group continues, or is held with it. It leaves the gate when its death is durable: after a crash
// before that another owner tries it again, behind what has passed it.
func (o *outcomes) deadLetter(it *Item, v outbox.Verdict) {
	o.route.stats.dead.Add(1)
	v.Hold = v.Hold && o.origin.Parks() // a queue's table has no status for it
	text := "message is dead; its group continues"
	if v.Hold {
		text = "message is dead; its group is held for an operator"
	}
	o.route.Log().Error(text, "lane", o.lane.Name, "id", it.id(), "group", it.key,
		"attempts", it.Attempt.Number, "error", v.Err)
	if v.Hold {
		o.parking.park(it, adapters.ParkedHeld, time.Time{}, v.Err)
		return
	}
	o.gate.Stay(&it.Ticket)
	if o.origin.Parks() { // before it leaves: its row holds its memory
		o.parking.put(it, adapters.ParkedDead, time.Time{}, v.Err)
		if it.key == "" { // nothing waits behind it
			it.DeathWritten()
		} else {
			o.progress.rows.Dead = append(o.progress.rows.Dead, it)
		}
	}
	o.progress.leave(it, finished)
	if o.origin.Settled(it, outbox.OutcomeDead, v.Err) {
		return
	}
	o.parking.settled(it, false)
	o.progress.notify()
}

// sent carries out the result of sending a message to the poison destination. After an error the next try follows after the pause.
func (o *outcomes) sent(it *Item, pause time.Duration, err error) {
	if it.reserved {
		o.gate.Return(&it.Ticket)
	}
	d := it.death
	switch {
	case it.phase != deadLettering: // its row is no longer ours
	case it.unwanted:
		o.endSkipped(it)
	case err == nil:
		o.deadLetter(it, d.verdict(d.cause()))
	case refused(err) && o.origin.Parks():
		// Sending it again would change nothing, and without a copy it may not be dead: an operator has to decide.
		v := d.verdict(fmt.Errorf("%w; it is held because the %w", d.cause(), err))
		v.Hold = true
		o.deadLetter(it, v)
	case o.runner.stopping: // it is where it was: unsettled, or in the parking
	case pause <= ShortDelay || !o.origin.Parks(): // a queue's table cannot remember the death
		it.after(pause)
	default:
		cause := fmt.Errorf("%w; the message is dead because: %w", err, d.cause())
		o.parking.park(it, adapters.ParkedRetrying, time.Now().Add(pause), cause).AwaitPoison(true)
	}
}

// putAsideIfPaused takes a message out of the lane that would be tried again, if its group was paused while it was being sent.
func (o *outcomes) putAsideIfPaused(it *Item) {
	if (it.phase == backoff || it.phase == held) && o.parking.paused.Has(it.key) && !o.runner.stopping {
		o.putAside(it)
	}
}

// putAside takes a message of a paused group out of the lane, with what is behind it.
func (o *outcomes) putAside(it *Item) {
	if o.origin.Parks() {
		o.parking.park(it, adapters.ParkedWaiting, time.Time{}, nil)
		return
	}
	o.origin.PutBack(it)
}
