package router

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/outbox"
)

// settler writes the progress of all lanes of one state store, all in one
// transaction. It is the only place from which verdicts become durable. It
// waits a little so that much is written at once, and the longer a write
// takes, the rarer it writes: about 5% of its time.
type settler struct {
	store    outbox.StateStore
	log      *slog.Logger
	interval time.Duration
	bound    bound // of a write
	batches  func() []Batch
	fenced   func(Batch)                         // another owner has what it was to write
	write    func(context.Context, extent) error // default: the lanes' progress, to the store
	target   string                              // what is written to, for the log

	dirty  atomic.Bool
	signal chan struct{} // something to write
	urgent chan struct{} // lanes run out of window

	mu      sync.Mutex
	waiting []chan error // flushes
	extent  extent       // of the flush
	now     chan struct{}
	outage  outage
}

// Batch is what a settler writes for: a period of owning a lane.
type Batch interface {
	// Settlements returns what is to be written now; nothing while the outcome of
	// what it returned before is not known.
	Settlements(e extent) []outbox.Settlement

	// Settled takes that outcome: ok, if all of it is durable.
	Settled(ok bool)
}

// extent is how much a settle writes beside what was concluded.
type extent int

const (
	concluded  extent = iota // nothing
	passed                   // cursors that moved over rows which needed no delivery
	everything               // cursors of which only the snapshot is newer, too
	written                  // no settle has anything to write
)

// How often that is: a cursor that lags costs a longer first read after a
// restart and nothing else.
const (
	passedInterval     = 2 * time.Second
	everythingInterval = time.Minute
)

// longestPause bounds what lanes wait for, with full windows perhaps, after a
// write that took long: a database that was away for a minute would otherwise
// not be written to for nineteen.
const longestPause = 2 * time.Second

func newSettler(store outbox.StateStore, log *slog.Logger, interval, patience time.Duration) *settler {
	s := &settler{store: store, log: log, interval: interval, bound: bound{usual: patience}, target: "state store",
		signal: make(chan struct{}, 1), urgent: make(chan struct{}, 1), now: make(chan struct{}, 1)}
	s.write = s.writeLanes
	return s
}

// note tells that there is something to settle.
func (s *settler) note(urgent bool) {
	if !s.dirty.Load() && s.dirty.CompareAndSwap(false, true) {
		poke(s.signal)
	}
	if urgent {
		poke(s.urgent)
	}
}

// flush settles what has been concluded so far and returns when it is durable.
func (s *settler) flush(ctx context.Context, e extent) error {
	done := make(chan error, 1)
	s.mu.Lock()
	s.waiting = append(s.waiting, done)
	s.extent = max(s.extent, e)
	s.mu.Unlock()
	poke(s.now)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finishPause is the pause between tries to write the last progress.
const finishPause = 100 * time.Millisecond

// finish settles everything at the end. If that fails it tries again for as long
// as drain lasts: a store that is away for a moment costs no duplicates. One try
// is made in any case, and may take until limit.
func (s *settler) finish(drain context.Context, limit time.Duration) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		err := s.flush(ctx, everything)
		cancel()
		if err == nil || drain.Err() != nil {
			return err
		}
		pause := after(finishPause)
		select {
		case <-pause.C:
		case <-drain.Done():
		}
		pause.stop()
	}
}

// run settles until ctx ends. What is left then is written by a last settle.
func (s *settler) run(ctx context.Context) {
	lazy := every(passedInterval)
	defer lazy.stop()
	lazier := every(everythingInterval)
	defer lazier.stop()
	pause := s.interval
	for {
		e := concluded
		select {
		case <-ctx.Done():
			return
		case <-lazy.C:
			e = passed
		case <-lazier.C:
			e = everything
		case <-s.now:
		case <-s.signal:
			s.wait(ctx, pause)
		}
		began := time.Now()
		err := s.settle(ctx, e)
		pause = max(s.interval, min(19*time.Since(began), longestPause))
		if err != nil {
			s.wait(ctx, max(pause, 100*time.Millisecond))
			s.note(false)
		}
	}
}

// wait lets work gather: for d, or until it is urgent and a part of d has gone.
func (s *settler) wait(ctx context.Context, d time.Duration) {
	early := after(min(d, s.interval) / 4)
	defer early.stop()
	select {
	case <-early.C:
	case <-s.now:
		return
	case <-ctx.Done():
		return
	}
	full := after(d - min(d, s.interval)/4)
	defer full.stop()
	select {
	case <-full.C:
	case <-s.urgent:
	case <-s.now:
	case <-ctx.Done():
	}
}

// settle writes what was concluded and answers the flushes that waited for it.
func (s *settler) settle(ctx context.Context, e extent) error {
	s.mu.Lock()
	waiting := s.waiting
	e = max(e, s.extent)
	s.waiting, s.extent = nil, concluded
	s.mu.Unlock()
	s.dirty.Store(false)
	limited, cancel := s.bound.begin(ctx)
	err := s.write(limited, e)
	s.bound.end(limited, err)
	cancel()
	for _, w := range waiting {
		w <- err
	}
	return err
}

// writeLanes writes what all lanes have concluded.
func (s *settler) writeLanes(ctx context.Context, e extent) error {
	var all []outbox.Settlement
	writers := map[outbox.LaneRef]Batch{}
	for _, x := range s.batches() {
		for _, st := range x.Settlements(e) {
			all = append(all, st)
			writers[st.LaneRef] = x
		}
	}
	var err error
	if len(all) > 0 {
		var fenced []outbox.LaneRef
		failpoint.Hit(failpoint.BeforeSettle)
		fenced, err = s.store.Settle(ctx, all)
		failpoint.Hit(failpoint.AfterSettle)
		for _, ref := range fenced {
			s.fenced(writers[ref])
		}
		s.report(err)
	}
	for _, x := range writers {
		x.Settled(err == nil)
	}
	return err
}

// report logs an outage of what is written to.
func (s *settler) report(err error) {
	if err != nil {
		s.outage.fail(s.log, slog.LevelError, "progress cannot be written to the "+s.target+"; delivery goes on until the windows are full", err)
		return
	}
	s.outage.end(s.log, "progress is written to the "+s.target+" again")
}
