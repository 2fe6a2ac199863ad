package handlers

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// pipe has the groups whose front waits for one address. Under UnitWave it has one worker, under UnitGroup as many as the limiter permits.
type pipe struct {
	gate     *Gate
	address  string
	inLine   *Limiter // for a permit of it; guarded by the mutex of its permits
	ready    []*group
	workers  int
	starting bool      // a worker was started and has not taken its batch yet
	refused  bool      // nothing may be sent before Kick, or before more is ready
	down     bool      // what is ready was not allowed, the last time it was asked for
	moved    time.Time // when something was taken or completed, or got in line first
}

// batch is one delivery in flight.
type batch struct {
	tickets []*Ticket
	msgs    []*message.Message
	bytes   int
	groups  int
	limit   time.Duration
}

// ready puts a group whose front waits in line for its address.
func (g *Gate) ready(q *group, address string) {
	if g.stopped {
		return
	}
	p := g.pipes[address]
	if p == nil {
		p = &pipe{gate: g, address: address}
		g.pipes[address] = p
	}
	if len(p.ready) == 0 && p.workers == 0 {
		p.moved = time.Now()
	}
	q.line = p
	p.ready = append(p.ready, q)
	p.refused = false
	g.start(p)
}

// unready takes a group out of line.
func (g *Gate) unready(q *group) {
	p := q.line
	if p == nil {
		return
	}
	q.line = nil
	i := slices.Index(p.ready, q)
	p.ready = slices.Delete(p.ready, i, i+1)
	g.forget(p)
}

// forget drops a pipe that has nothing left to do.
func (g *Gate) forget(p *pipe) {
	if p.workers == 0 && len(p.ready) == 0 {
		delete(g.pipes, p.address)
		if g.ordering.Unit == adapters.UnitGroup {
			g.cfg.Limiter.cancel(p)
		}
	}
}

// start begins a worker if there is work and room for one. The worker itself takes the batch, with all that is ready when it runs.
func (g *Gate) start(p *pipe) {
	if !g.startable(p) {
		return
	}
	if g.ordering.Unit == adapters.UnitWave || g.cfg.Limiter.acquire(p) {
		g.begin(p)
	}
}

// serve uses a permit that the limiter has granted; false: the pipe does not need it any more.
func (g *Gate) serve(p *pipe) (used bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if used = g.startable(p); used {
		g.begin(p)
	}
	return used
}

// startable reports whether the pipe can use one more worker.
func (g *Gate) startable(p *pipe) bool {
	if len(p.ready) == 0 || p.starting || p.refused || g.stopped {
		return false
	}
	return p.workers == 0 || g.ordering.Unit == adapters.UnitGroup
}

// begin starts a worker, which has its permit.
func (g *Gate) begin(p *pipe) {
	p.starting = true
	p.workers++
	g.workers++
	b := new(batch)
	if n := len(g.spare) - 1; n >= 0 {
		b, g.spare = g.spare[n], g.spare[:n]
	}
	go g.work(p, b)
}

// work delivers batches until nothing is ready for the address.
func (g *Gate) work(p *pipe, b *batch) {
	for g.gather(); g.take(p, b); g.gather() {
		g.conclude(p, b, g.deliver(p, b))
	}
	if g.ordering.Unit == adapters.UnitGroup {
		g.cfg.Limiter.release(p.address)
	}
	g.mu.Lock()
	g.workers--
	if g.workers == 0 {
		g.idle.Broadcast()
	}
	g.mu.Unlock()
}

func (g *Gate) conclude(p *pipe, b *batch, errs []error) {
	if ended := g.complete(p, b, errs); len(ended) > 0 {
		g.cfg.Ended(ended)
	}
}

// gather lets chains that are ready to run come to the gate before a batch is made, as long as that brings more: a worker is
// scheduled right after the first message that needs one, and would leave with that alone. It does not wait, so a message that comes
// alone goes at once.
func (g *Gate) gather() {
	most := int64(g.ordering.MaxMessages)
	if most == 1 {
		return
	}
	first := g.arrived.Load()
	for before := int64(-1); before != g.arrived.Load() && before-first < most; runtime.Gosched() {
		before = g.arrived.Load()
	}
}

// take fills b with the next batch, or ends the worker.
func (g *Gate) take(p *pipe, b *batch) bool {
	contended := g.ordering.Unit == adapters.UnitGroup && len(b.tickets) > 0 && g.cfg.Limiter.contended(p)
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(b.tickets)
	clear(b.msgs)
	*b = batch{tickets: b.tickets[:0], msgs: b.msgs[:0]}
	p.starting = false
	if !contended && !g.stopped && g.cfg.Permit() {
		g.fill(p, b)
	}
	if len(b.tickets) > 0 {
		g.batches[b] = struct{}{}
		// UnitGroup: others may be served while this batch is in flight.
		g.start(p)
		return true
	}
	delete(g.batches, b)
	g.spare = append(g.spare, b)
	p.workers--
	if contended {
		// The permit goes to the pipe that waits for it; this one gets in line.
		g.start(p)
	} else {
		p.refused = true
	}
	g.forget(p)
	return false
}

// fill moves the leading messages of ready groups into the batch.
func (g *Gate) fill(p *pipe, b *batch) {
	kept := p.ready[:0]
	p.down = false
	probe := false
	for i, q := range p.ready {
		full := len(b.tickets) >= g.ordering.MaxMessages ||
			g.ordering.MaxGroups > 0 && b.groups >= g.ordering.MaxGroups
		if probe || full {
			kept = append(kept, p.ready[i:]...)
			break
		}
		allow := g.cfg.Allow(p.address, q.front())
		if allow == AllowNone {
			p.down = true
			kept = append(kept, q)
			continue
		}
		if n := g.add(b, q, allow == AllowOne); n == 0 {
			kept = append(kept, p.ready[i:]...) // no room for its bytes
			break
		}
		q.line = nil
		probe = allow == AllowOne
	}
	clear(p.ready[len(kept):])
	p.ready = kept
}

// add puts the group's leading messages into the batch and returns how many.
func (g *Gate) add(b *batch, q *group, one bool) int {
	before := len(b.tickets)
	now := g.clock()
	b.tickets = q.run(b.tickets, func(t *Ticket) bool {
		n := len(t.msg.Payload)
		switch {
		case len(b.msgs) == 0:
		case one, len(b.msgs) >= g.ordering.MaxMessages:
			return false
		case g.ordering.PerGroup > 0 && before+g.ordering.PerGroup <= len(b.msgs):
			return false
		case g.ordering.MaxBytes > 0 && b.bytes+n > g.ordering.MaxBytes:
			return false
		}
		b.bytes += n
		b.msgs = append(b.msgs, t.msg)
		b.limit = max(b.limit, t.limit)
		t.state, t.since = sending, now
		return true
	})
	n := len(b.tickets) - before
	if n > 0 {
		b.groups++
	}
	return n
}

var errGoexit = errors.New("the destination ended its goroutine, as runtime.Goexit and FailNow of a test do, instead of returning")

// deliver calls the destination. A panic is an error of every message, and so is the end of the goroutine, whose work another one takes over.
func (g *Gate) deliver(p *pipe, b *batch) (errs []error) {
	limit := b.limit
	if limit <= 0 {
		limit = g.cfg.SendTimeout
	}
	ctx, cancel := context.WithTimeout(g.ctx, limit)
	defer cancel()
	returned := false
	defer func() {
		if r := recover(); r != nil {
			errs = sameError(len(b.msgs), adapters.Recovered("the destination", r))
		} else if !returned {
			go func() {
				g.conclude(p, b, sameError(len(b.msgs), errGoexit))
				g.work(p, b)
			}()
		}
	}()
	errs = g.cfg.Destination.Deliver(ctx, p.address, b.msgs)
	returned = true
	if errs != nil && len(errs) != len(b.msgs) {
		err := fmt.Errorf("the destination returned %d results for %d messages: outcome unknown", len(errs), len(b.msgs))
		errs = sameError(len(b.msgs), err)
	}
	return errs
}

func sameError(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// complete gives every message its outcome and lets the groups continue. Delivered messages leave at once: the next batch does not
// wait for their chains to return. Released messages stay where they are, unless they are lost or recalled or no message was
// attempted. It returns the outcomes of messages that were offered.
func (g *Gate) complete(p *pipe, b *batch, errs []error) (ended []Ended) {
	collateral, delivered := attempted(errs), errs == nil || slices.Contains(errs, nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	p.moved = time.Now()
	verdicts := errs
	if g.cfg.Judge != nil && len(b.tickets) > 0 {
		verdicts = g.cfg.Judge(p.address, b.tickets, g.epoch.Add(time.Duration(b.tickets[0].since)), errs)
	}
	for i, t := range b.tickets {
		var err error
		if errs != nil {
			err = errs[i]
		}
		released := err != nil && outbox.KindOf(err) == outbox.KindReleased
		switch {
		case err == nil:
			t.delivered.Store(true)
			t.group.remove(t)
		case t.unwanted:
			t.group.remove(t)
		case released && collateral && !g.stopped && !t.recalled && !errors.Is(err, adapters.ErrLost):
			t.state = here
			continue
		default:
			t.state, t.failed, t.among = away, !released, delivered
		}
		if verdicts != nil {
			err = verdicts[i]
		}
		g.wake(t, err)
	}
	for _, t := range b.tickets {
		g.advance(t.group)
	}
	ended, g.ended = g.ended, nil
	return ended
}

// attempted reports whether any message of the batch was attempted.
func attempted(errs []error) bool {
	for _, err := range errs {
		if err == nil || outbox.KindOf(err) != outbox.KindReleased {
			return true
		}
	}
	return errs == nil
}
