package router

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/outbox"
)

// reader reads one source for all routes that use it, with one query per poll.
//
// Streams of the same slot that stand at the same place share a read, and its
// rows are fanned out to them. Near the end of the table all routes stand at
// the same place, so an idle source costs one query of 16 reads with one route
// or with five hundred. A lane without room drops out of the shared read and
// falls behind; it catches up by reads of its own, bounded by where the others
// stand, and joins them again when it has come there.
type reader struct {
	source outbox.Source
	log    *slog.Logger
	budget *budget
	poll   Polling
	rest   rest
	routes []*route

	wake    chan struct{}
	starved atomic.Bool // a lane had no room: wake when it has

	fetches uint64  // number of the current fetch
	rowCost float64 // running estimate of a row's memory
	bound   bound   // of a fetch
	outage  outage
}

// ReaderConfig is what a reader needs beside its source.
type ReaderConfig struct {
	Poll     Polling
	Patience time.Duration // for the answer of the source
	Budget   *budget
	Log      *slog.Logger
}

func newReader(src outbox.Source, cfg ReaderConfig) *reader {
	return &reader{source: src, log: cfg.Log, budget: cfg.Budget, poll: cfg.Poll, rest: newRest(cfg.Poll, src), wake: make(chan struct{}, 1),
		rowCost: 4 * waitingOverhead, bound: bound{usual: cfg.Patience}}
}

// add has the reader read for a route.
func (r *reader) add(rt *route) { r.routes = append(r.routes, rt) }

var _ Feeder = (*reader)(nil)

// Origin implements [Feeder].
func (r *reader) Origin(*session) Origin { return cursorOrigin{} }

// RoomFreed implements [Feeder].
func (r *reader) RoomFreed() {
	if r.starved.Load() {
		poke(r.wake)
	}
}

// Wake implements [Feeder].
func (r *reader) Wake() { poke(r.wake) }

// AddressBack implements [Feeder]: what waits for an address is in the lanes.
func (r *reader) AddressBack() {}

// GiveUp implements [Feeder]: what was read and not settled is read again by others.
func (r *reader) GiveUp(context.Context) error { return nil }

// A read that found little is followed by a breather, in which more gathers.
// Otherwise reads, and with them the batches for a destination, become as small as
// the processors allow, and take all of them: see docs/design.md.
const (
	smallRead = 256
	breather  = time.Millisecond / 4
)

// run polls until ctx ends.
func (r *reader) run(ctx context.Context) {
	wakes := r.rest.begin()
	for ctx.Err() == nil {
		plan := r.plan()
		var pause time.Duration
		switch n, err := r.fetch(ctx, plan); {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = r.rest.failed()
		case len(plan.reads) == 0:
			pause = reliefPause // all lanes are full, or memory is
		case n > 0 || plan.again:
			r.rest.found()
			if n >= smallRead || plan.again {
				continue
			}
			pause = min(r.poll.Min, breather)
		default:
			if pause = r.rest.pause(ctx); pause == 0 {
				continue
			}
			if r.starved.Load() { // what is in the way has to be looked after, however rare the polls
				pause = min(pause, shortDelay)
			}
		}
		timer := after(pause)
		select {
		case <-timer.C:
		case <-r.wake:
		case <-wakes:
			r.rest.woken()
		case <-r.rest.told:
			r.rest.found()
		case <-ctx.Done():
		}
		timer.stop()
	}
}

// fetch carries out a plan and returns the number of rows that it yielded.
func (r *reader) fetch(ctx context.Context, plan *plan) (int, error) {
	if len(plan.reads) == 0 {
		return 0, nil
	}
	r.fetches++
	reads := make([]outbox.Read, len(plan.reads))
	for i, rd := range plan.reads {
		reads[i] = outbox.Read{Slot: rd.slot, From: rd.from, Until: rd.until, Limit: rd.limit, Reach: rd.reach}
		if rd.until == nil {
			rd.order = r.fetches
		}
	}
	f := fan{reader: r, plan: plan}
	limited, cancel := r.bound.begin(ctx)
	results, err := r.source.Fetch(limited, reads, f.take)
	r.bound.end(limited, err)
	cancel()
	f.flush()
	if f.rows > 0 {
		failpoint.Hit(failpoint.Fetched)
	}
	if err != nil {
		if errors.Is(err, outbox.ErrWentBack) {
			r.restart(err)
		}
		if ctx.Err() == nil {
			r.outage.fail(r.log, slog.LevelError, "cannot read the source, trying again", err)
		}
		return f.rows, err
	}
	r.outage.end(r.log, "the source can be read again")
	if len(results) == 0 { // memory ran out on the way
		plan.again = true
		return f.rows, nil
	}
	for i := range results {
		f.done(plan.reads[i], results[i])
	}
	for _, g := range plan.globals {
		plan.again = g.finish(r) || plan.again
	}
	return f.rows, nil
}

// restart ends all sessions that read the source: where they stand means nothing in
// it any more. They begin anew with the durable cursors, which were perhaps put back
// with it; where those mean nothing either the route stops and says so.
func (r *reader) restart(err error) {
	r.log.Warn("the source was put back to an earlier state; its routes begin anew with their durable cursors", "error", err)
	for _, rt := range r.routes {
		for _, l := range rt.lanes {
			if s := l.Session(); s != nil {
				rt.lease.Lost(s)
			}
		}
	}
}

// fan distributes the rows of one fetch.
type fan struct {
	reader *reader
	plan   *plan
	rows   int
	last   *read
}

// take implements the callback of outbox.Source.Fetch.
func (f *fan) take(i int, row *outbox.Row) bool {
	f.rows++
	rd := f.plan.reads[i]
	rd.rows++
	if f.last != rd {
		f.flush()
		f.last = rd
	}
	cost := int64(row.Size()) + rd.overhead
	f.reader.rowCost += (float64(cost) - f.reader.rowCost) / 64
	if rd.global != nil {
		return rd.global.keep(f.reader, rd, row, cost)
	}
	for _, m := range rd.members {
		if m.detached {
			continue
		}
		if !m.session.Route().Match(row) {
			m.pass(row)
			continue
		}
		if m.room <= 0 {
			m.detached = true
			continue
		}
		if !m.session.Route().share.take(cost) {
			f.reader.starved.Store(true)
			f.reader.rowCost = max(f.reader.rowCost, float64(cost)) // not at once again
			m.detached = true
			continue
		}
		m.give(row, cost)
	}
	return true
}

// flush gives gathered rows to the lanes.
func (f *fan) flush() {
	if f.last == nil {
		return
	}
	for _, m := range f.last.members {
		m.flush()
	}
}

// done moves the streams that took everything of a read to its end.
func (f *fan) done(rd *read, res outbox.ReadResult) {
	if rd.global != nil {
		rd.global.results[rd.slot] = res
		return
	}
	pace := rd.paceAfter(res)
	for _, m := range rd.members {
		m.stream.pace = pace
		if !m.detached {
			m.session.moveTo(m.stream, res.Next, rd.order, res.Drained)
			m.stream.closing = rd.until != nil && res.Drained
		}
	}
	if !res.Drained {
		f.plan.again = true
	}
}

// member is a stream that takes part in a read.
type member struct {
	session  *session
	stream   *stream
	read     *read
	room     int
	detached bool // had no room for a row: it stands before that
	buffer   []arrival
}

// arrivalBatch is how many rows are given to a lane under one lock.
const arrivalBatch = 128

func (m *member) give(row *outbox.Row, cost int64) {
	m.room--
	m.buffer = append(m.buffer, arrival{stream: m.stream, row: row, matched: true, cost: cost})
	if len(m.buffer) >= arrivalBatch {
		m.flush()
	}
}

// pass moves the cursor over a row that the route does not match.
func (m *member) pass(row *outbox.Row) {
	a := arrival{stream: m.stream, row: row}
	if n := len(m.buffer); n > 0 && !m.buffer[n-1].matched {
		m.buffer[n-1] = a
		return
	}
	m.buffer = append(m.buffer, a)
}

func (m *member) flush() {
	if len(m.buffer) == 0 {
		return
	}
	m.session.accept(m.buffer)
	m.stream.order = m.read.order
	clear(m.buffer)
	m.buffer = m.buffer[:0]
}
