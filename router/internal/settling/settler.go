// Package settling writes the progress of all lanes in one transaction, at a bounded rate.
package settling

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/router/internal/logging"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// Settler writes the progress of all lanes of one state store in one transaction. Only the settler makes verdicts durable. It
// waits a little so that much is written at once, and the longer a write takes, the rarer it writes: about 5% of its time.
type Settler struct {
	store    adapters.StateStore
	log      *slog.Logger
	interval time.Duration
	bound    CallTimeout // of a write
	Batches  func() []Batch
	Fenced   func(Batch)  // another owner has the lane
	Target   string       // what is written to, for the log
	Settled  func(Settle) // is called after each write; nil: writes are not timed

	// Screen returns the batches that may be written. Others wait, or are gone, because their cursors mean nothing in the source any more.
	// nil: all may be.
	Screen func(context.Context, []Batch) (good, gone []Batch, waits WaitError)
	Write  func(context.Context, Extent) error // default: the lanes' progress, to the store

	dirty  atomic.Bool
	signal chan struct{} // something to write
	urgent chan struct{} // lanes run out of window

	mu      sync.Mutex
	waiting []flush
	extent  Extent // of the flush
	now     chan struct{}
	Outage  logging.Outage
}

// flush waits for a settle.
type flush struct {
	of   Batch // nil: all
	done chan error
}

// WaitError says which batches could not be written yet, and why, by a settle that has written the others.
type WaitError map[Batch]error

func (e WaitError) Error() string {
	for _, err := range e {
		return err.Error()
	}
	return "nothing waits"
}

// Batch is a period of owning a lane, whose progress a settler writes.
type Batch interface {
	// Settlements returns what is to be written now; nothing while the outcome of the settlements before is not known.
	Settlements(e Extent) []adapters.Settlement

	// Settled takes that outcome; ok: all of it is durable.
	Settled(ok bool)
}

// Extent says how much a settle writes in addition to what was concluded.
type Extent int

// From the least to the most.
const (
	Concluded  Extent = iota // nothing
	Passed                   // cursors that moved over rows which needed no delivery
	Everything               // cursors of which only the snapshot is newer, too
	Written                  // no settle has anything to write
)

// How often these are written: a cursor that lags only makes the first read after a restart longer.
const (
	passedInterval     = 2 * time.Second
	everythingInterval = 5 * time.Minute // of 500 idle routes these are 8,000 rows
)

// longestPause bounds the pause after a write that took long: after a minute without an answer of the database the pause would be nineteen
// minutes, while windows are full.
const longestPause = 2 * time.Second

// New returns a settler for a state store. It settles at most once per interval; a write may take about as long as patience.
func New(store adapters.StateStore, log *slog.Logger, interval, patience time.Duration) *Settler {
	s := &Settler{store: store, log: log, interval: interval, bound: CallTimeout{Usual: patience}, Target: "state store",
		signal: make(chan struct{}, 1), urgent: make(chan struct{}, 1), now: make(chan struct{}, 1)}
	s.Write = s.writeLanes
	return s
}

// Note signals that there is something to settle.
func (s *Settler) Note(urgent bool) {
	if !s.dirty.Load() && s.dirty.CompareAndSwap(false, true) {
		signal.Send(s.signal)
	}
	if urgent {
		signal.Send(s.urgent)
	}
}

// Flush settles what has been concluded so far and returns when that of a batch is durable, or with nil that of all.
func (s *Settler) Flush(ctx context.Context, e Extent, of Batch) error {
	done := make(chan error, 1)
	s.mu.Lock()
	s.waiting = append(s.waiting, flush{of, done})
	s.extent = max(s.extent, e)
	s.mu.Unlock()
	signal.Send(s.now)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finishPause is the pause between tries to write the last progress.
const finishPause = 100 * time.Millisecond

// Finish settles everything at the end. If that fails it tries again as long as drain lasts, so a short outage of the store causes no
// duplicates. One try is made in any case, and may take until limit.
func (s *Settler) Finish(drain context.Context, limit time.Duration) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		err := s.Flush(ctx, Everything, nil)
		cancel()
		if err == nil || drain.Err() != nil {
			return err
		}
		signal.Sleep(finishPause, drain.Done())
	}
}

// Run settles until ctx ends.
func (s *Settler) Run(ctx context.Context) {
	lazy := signal.Every(passedInterval)
	defer lazy.Stop()
	lazier := signal.Every(everythingInterval)
	defer lazier.Stop()
	pause := s.interval
	for {
		e := Concluded
		select {
		case <-ctx.Done():
			return
		case <-lazy.C:
			e = Passed
		case <-lazier.C:
			e = Everything
		case <-s.now:
		case <-s.signal:
			s.wait(ctx, pause)
		}
		began := time.Now()
		err := s.settle(ctx, e)
		pause = max(s.interval, min(19*time.Since(began), longestPause))
		if err != nil {
			s.wait(ctx, max(pause, 100*time.Millisecond))
			s.Note(false)
		}
	}
}

// wait lets work gather: for d, or until it is urgent and a part of d has gone.
func (s *Settler) wait(ctx context.Context, d time.Duration) {
	early := signal.After(min(d, s.interval) / 4)
	defer early.Stop()
	select {
	case <-early.C:
	case <-s.now:
		return
	case <-ctx.Done():
		return
	}
	full := signal.After(d - min(d, s.interval)/4)
	defer full.Stop()
	select {
	case <-full.C:
	case <-s.urgent:
	case <-s.now:
	case <-ctx.Done():
	}
}

// settle writes what was concluded and answers the flushes that waited for it.
func (s *Settler) settle(ctx context.Context, e Extent) error {
	s.mu.Lock()
	waiting := s.waiting
	e = max(e, s.extent)
	s.waiting, s.extent = nil, Concluded
	s.mu.Unlock()
	s.dirty.Store(false)
	err := s.bound.Call(ctx, func(ctx context.Context) error { return s.Write(ctx, e) })
	waits, others := errors.AsType[WaitError](err)
	for _, w := range waiting {
		if others && w.of != nil {
			w.done <- waits[w.of]
		} else {
			w.done <- err
		}
	}
	return err
}

// writeLanes writes what all lanes have concluded.
func (s *Settler) writeLanes(ctx context.Context, e Extent) error {
	var all []adapters.Settlement
	writers := map[adapters.LaneRef]Batch{}
	batches := s.Batches()
	var waits WaitError
	if s.Screen != nil {
		var gone []Batch
		batches, gone, waits = s.Screen(ctx, batches)
		for _, x := range gone {
			s.Fenced(x)
		}
	}
	for _, x := range batches {
		for _, st := range x.Settlements(e) {
			all = append(all, st)
			writers[st.LaneRef] = x
		}
	}
	var err error
	if len(all) > 0 {
		var fenced []adapters.LaneRef
		failpoint.Hit(failpoint.BeforeSettle)
		done := s.Begin(len(all), "lanes")
		fenced, err = s.store.Settle(ctx, all)
		done(err)
		failpoint.Hit(failpoint.AfterSettle)
		for _, ref := range fenced {
			s.Fenced(writers[ref])
		}
		s.Report(err)
	}
	for _, x := range writers {
		x.Settled(err == nil)
	}
	if err == nil && len(waits) > 0 {
		return waits
	}
	return err
}

// Settle is a write of progress that has ended.
type Settle struct {
	Target       string // the state store, or a queue's table
	Count        int    // what was written, in Unit
	Unit         string // lanes or rows
	Began, Ended time.Time
	Err          error
}

// Begin notes a write of progress; the returned function ends it.
func (s *Settler) Begin(count int, unit string) (end func(error)) {
	if s.Settled == nil {
		return ignored
	}
	began := time.Now()
	return func(err error) { s.Settled(Settle{s.Target, count, unit, began, time.Now(), err}) }
}

func ignored(error) {}

// Report logs an outage of what is written to.
func (s *Settler) Report(err error) {
	s.Outage.Report(s.log, slog.LevelError, err, "progress cannot be written to the "+s.Target+"; delivery continues until the windows are full",
		"progress is written to the "+s.Target+" again")
}

// CallTimeout limits the wait for a database's answer. A network that drops packets reports no error for a quarter of an hour, and a proxy
// may never do; then a new connection is worth a try. Each timeout doubles the limit, so that a slow call succeeds in the end.
type CallTimeout struct {
	Usual    time.Duration
	timeouts int // times in a row
}

// LongestCallTimeout is where doubling ends.
const LongestCallTimeout = 10 * time.Minute

// Call makes a call with a context that is limited.
func (c *CallTimeout) Call(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, max(min(c.Usual<<min(c.timeouts, 10), LongestCallTimeout), c.Usual))
	defer cancel()
	err := call(ctx)
	switch {
	case err == nil:
		c.timeouts = 0
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		c.timeouts++
	}
	return err
}
