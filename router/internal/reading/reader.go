// Package reading feeds lanes from a source that is read by cursor: one query per poll for all lanes of all routes of a source.
package reading

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/internal/failpoint"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/cow"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/logging"
	"github.com/outriderhq/outrider/router/internal/memory"
	"github.com/outriderhq/outrider/router/internal/polling"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// Reader reads one source for all routes that use it, with one query per poll.
//
// Streams of a slot with the same cursor share a read, and its rows are fanned out to them. Near the end of the table all routes have the
// same cursors, so an idle source costs one query of 16 reads with one route or with five hundred. A lane without room drops out of the
// shared read and falls behind; it catches up by reads of its own that end at the other lanes' cursor, and then joins them again.
type Reader struct {
	Source  adapters.Source
	log     *slog.Logger
	budget  *memory.Budget
	poll    polling.Config // of this poll
	Backoff *polling.Backoff
	routes  cow.List[paced]

	wake    chan struct{}
	starved atomic.Bool // a lane had no room: wake when it has
	hot     hotSlots

	fetches  uint64               // number of the current fetch
	arrivals []lane.Arrival       // empty: memory for those of a global read
	rowCost  float64              // running estimate of a row's memory
	bound    settling.CallTimeout // of a fetch
	Outage   logging.Outage
}

// Config of a reader.
type Config struct {
	Poll     polling.Config
	Patience time.Duration // for the answer of the source
	Budget   *memory.Budget
	Log      *slog.Logger
}

// New returns the reader of a source; [Reader.Add] gives it routes.
func New(src adapters.Source, cfg Config) *Reader {
	return &Reader{Source: src, log: cfg.Log, budget: cfg.Budget, poll: cfg.Poll, Backoff: polling.NewBackoff(cfg.Poll, src), wake: make(chan struct{}, 1), hot: hotSlots{committed: make(chan struct{}, 1)},
		rowCost: 4 * lane.WaitingOverhead, bound: settling.CallTimeout{Usual: cfg.Patience}}
}

var _ lane.Feeder = (*Reader)(nil)

// Origin implements [lane.Feeder].
func (r *Reader) Origin(*lane.Session) lane.Origin { return lane.ByCursor{} }

// RoomFreed implements [lane.Feeder].
func (r *Reader) RoomFreed() {
	if r.starved.Load() {
		signal.Send(r.wake)
	}
}

// Wake implements [lane.Feeder].
func (r *Reader) Wake() { signal.Send(r.wake) }

// AddressBack implements [lane.Feeder]: what waits for an address is in the lanes.
func (r *Reader) AddressBack() {}

// GiveUp implements [lane.Feeder]: what was read and not settled is read again by others.
func (r *Reader) GiveUp(context.Context, []adapters.LaneRef) error { return nil }

// A read that found little is followed by a linger, in which more rows gather. Otherwise reads, and with them the batches for a destination,
// become as small as the processors allow, and take all of them: see docs/design.md.
const (
	smallRead = 256
	Linger    = time.Millisecond / 4
)

// Run polls until ctx ends.
func (r *Reader) Run(ctx context.Context) {
	r.Backoff.Begin()
	for ctx.Err() == nil {
		r.poll, _ = r.Backoff.Poll()
		r.hot.set.Store(0) // this poll sees what was committed by now
		plan := r.plan(allSlots)
		var pause time.Duration
		committed := r.hot.committed
		switch n, err := r.fetch(ctx, plan); {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = r.Backoff.Failed()
		case len(plan.reads) == 0 && !plan.due.IsZero() && !r.starved.Load():
			pause = time.Until(plan.due)
		case len(plan.reads) == 0:
			pause = lane.EvictionPause // all lanes are full, or memory is
		case n > 0 || plan.again:
			r.Backoff.Found()
			if n >= smallRead || plan.again {
				continue
			}
			pause, committed = min(r.poll.Min, Linger), nil
		case plan.unread: // a wake-up is not used up yet
			continue
		default:
			if pause = r.Backoff.Pause(ctx); pause == 0 {
				continue
			}
			if r.starved.Load() { // full lanes have to be checked, however rare the polls
				pause = min(pause, lane.ShortDelay)
			}
			if !plan.due.IsZero() {
				pause = min(pause, time.Until(plan.due))
			}
		}
		r.wait(ctx, pause, committed)
	}
}

// wait waits for the next poll. Meanwhile it reads rows that were committed here, unless committed is nil.
func (r *Reader) wait(ctx context.Context, pause time.Duration, committed <-chan struct{}) {
	wakes := r.Backoff.Wakes()
	timer := signal.After(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-committed:
			if r.readHot(ctx) {
				continue
			}
		case <-r.wake:
		case <-wakes:
			if r.Backoff.Woken() { // any commit would have routes with a pace of their own read all the time
				r.resetPaces()
			}
		case <-r.Backoff.Signal:
			r.Backoff.Found()
			r.resetPaces()
		case <-ctx.Done():
		}
		return
	}
}

// fetch carries out a plan and returns the number of rows that it yielded.
func (r *Reader) fetch(ctx context.Context, plan *plan) (int, error) {
	if len(plan.reads) == 0 {
		return 0, nil
	}
	r.fetches++
	reads := make([]adapters.Read, len(plan.reads))
	for i, rd := range plan.reads {
		reads[i] = adapters.Read{Slot: rd.slot, From: rd.from, Until: rd.until, Limit: rd.limit, AlignedTo: rd.alignedTo}
		if rd.until == nil {
			rd.order = r.fetches
		}
	}
	f := fan{reader: r, plan: plan}
	var results []adapters.ReadResult
	err := r.bound.Call(ctx, func(ctx context.Context) (err error) {
		results, err = r.Source.Fetch(ctx, reads, f.take)
		return err
	})
	f.flush()
	if f.rows > 0 {
		failpoint.Hit(failpoint.Fetched)
	}
	if err != nil {
		if errors.Is(err, adapters.ErrWentBack) {
			r.restart(err)
		}
		if ctx.Err() == nil { // otherwise the route stops, which says nothing of the server
			r.sessions(func(_ *lane.Route, s *lane.Session) { lane.Doubt(s) })
			r.Outage.Fail(r.log, slog.LevelError, "cannot read the source, trying again", err)
		}
		return f.rows, err
	}
	r.Outage.End(r.log, "the source can be read again")
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
	plan.report(time.Now())
	return f.rows, nil
}

// fan distributes the rows of one fetch.
type fan struct {
	reader *Reader
	plan   *plan
	rows   int
	last   *read
}

func (f *fan) take(i int, row *adapters.Row) bool {
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
		if !m.session.Route.Match(row) {
			m.skip(row)
			continue
		}
		if m.room <= 0 {
			m.detached = true
			continue
		}
		if !m.session.Route.Memory.Take(cost) {
			f.reader.starved.Store(true)
			f.reader.rowCost = max(f.reader.rowCost, float64(cost)) // not at once again
			m.detached = true
			continue
		}
		m.give(row, cost)
	}
	return true
}

func (f *fan) flush() {
	if f.last == nil {
		return
	}
	for _, m := range f.last.members {
		m.flush()
	}
}

// done moves the streams that took all rows of a read to its end.
func (f *fan) done(rd *read, res adapters.ReadResult) {
	if rd.global != nil {
		rd.global.results[rd.slot] = res
		return
	}
	density := rd.densityAfter(res)
	rd.ended = res.Drained && rd.alignedTo == 0
	for _, m := range rd.members {
		m.stream.Density = density
		if !m.detached {
			m.stream.MoveTo(res.Next, rd.order, res.Drained, rd.until == nil && rd.ended)
			m.stream.Closing = rd.until != nil && res.Drained
		}
	}
	if !res.Drained {
		f.plan.again = true
	}
}

// member is a stream that takes part in a read.
type member struct {
	session  *lane.Session
	stream   *lane.Stream
	read     *read
	room     int
	detached bool // had no room for a row: its cursor stays before that
	buffer   []lane.Arrival
}

// arrivalBatch is how many rows are given to a lane under one lock.
const arrivalBatch = 128

func (m *member) give(row *adapters.Row, cost int64) {
	m.room--
	m.buffer = append(m.buffer, lane.Arrival{Stream: m.stream, Row: row, Matched: true, Cost: cost})
	if len(m.buffer) >= arrivalBatch {
		m.flush()
	}
}

// skip moves the cursor over a row that the route does not match.
func (m *member) skip(row *adapters.Row) {
	a := lane.Arrival{Stream: m.stream, Row: row}
	if n := len(m.buffer); n > 0 && !m.buffer[n-1].Matched {
		m.buffer[n-1] = a
		return
	}
	m.buffer = append(m.buffer, a)
}

func (m *member) flush() {
	if len(m.buffer) == 0 {
		return
	}
	m.session.Accept(m.buffer)
	m.stream.Order = m.read.order
	clear(m.buffer)
	m.buffer = m.buffer[:0]
}
