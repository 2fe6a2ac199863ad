package outboxframework

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// MetricsExporter is the framework's, for an application that has one. New programs take /metrics of the relay.
type MetricsExporter interface {
	IncrementHotEnqueued()             // a committed event came into the hot queue
	IncrementHotDropped()              // the hot queue had no room for one, and the poller finds it
	IncrementColdEnqueued()            // a row was read from the table
	IncrementDispatchSuccess()         // an event is DONE
	IncrementDispatchFailure()         // an attempt failed, the event is tried again
	IncrementDispatchDead()            // an event is DEAD
	RecordQueueDepths(hot, cold int)   // hot is how many events wait in the hot queue, cold how many are with workers or wait for one
	RecordOldestLag(lag time.Duration) // since the oldest event in memory was written
}

// Noop is a MetricsExporter that does nothing, to embed in one that needs some of the methods.
type Noop struct{}

var _ MetricsExporter = Noop{}

// IncrementHotEnqueued does nothing.
func (Noop) IncrementHotEnqueued() {}

// IncrementHotDropped does nothing.
func (Noop) IncrementHotDropped() {}

// IncrementColdEnqueued does nothing.
func (Noop) IncrementColdEnqueued() {}

// IncrementDispatchSuccess does nothing.
func (Noop) IncrementDispatchSuccess() {}

// IncrementDispatchFailure does nothing.
func (Noop) IncrementDispatchFailure() {}

// IncrementDispatchDead does nothing.
func (Noop) IncrementDispatchDead() {}

// RecordQueueDepths does nothing.
func (Noop) RecordQueueDepths(int, int) {}

// RecordOldestLag does nothing.
func (Noop) RecordOldestLag(time.Duration) {}

// Export tells an exporter what a relay has done, each time that so much time has passed, and once more when ctx ends, which is when it
// returns. Run it next to the relay:
//
//	go outboxframework.Export(ctx, relay.Stats, exporter, time.Second)
//
// The counters are those of all routes of the relay. A reload resets them; they continue from there.
func Export(ctx context.Context, stats func() []adapters.RouteStats, to MetricsExporter, every time.Duration) {
	var before totals
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			before.export(sum(stats()), to)
			return
		}
		before = before.export(sum(stats()), to)
	}
}

// totals are the counters of all routes.
type totals struct {
	success, failure, dead, skipped int64
	inMemory                        int64
	hot, dropped                    int64
	waiting                         int // in the hot queue
	oldest                          time.Duration
}

func sum(stats []adapters.RouteStats) (t totals) {
	for _, s := range stats {
		t.success += s.Delivered
		t.failure += s.Retried
		t.dead += s.Dead
		for _, n := range s.Skipped {
			t.skipped += n
		}
		t.inMemory += int64(s.InFlight)
		t.oldest = max(t.oldest, s.Oldest)
		if q := s.Queue; q != nil { // routes of one queue share it
			t.hot, t.dropped, t.waiting = max(t.hot, q.HotTaken), max(t.dropped, q.HotDropped), max(t.waiting, q.HotWaiting)
		}
	}
	return t
}

// read is how many rows were read from the table.
func (t totals) read() int64 {
	return max(t.success+t.failure+t.dead+t.skipped+t.inMemory+int64(t.waiting)-t.hot, 0)
}

// export tells what has happened since t, and returns now.
func (t totals) export(now totals, to MetricsExporter) totals {
	times := func(n int64, f func()) {
		for range n { // none for a negative n, as after a reload
			f()
		}
	}
	times(now.hot-t.hot, to.IncrementHotEnqueued)
	times(now.dropped-t.dropped, to.IncrementHotDropped)
	times(now.read()-t.read(), to.IncrementColdEnqueued)
	times(now.success-t.success, to.IncrementDispatchSuccess)
	times(now.failure-t.failure, to.IncrementDispatchFailure)
	times(now.dead-t.dead, to.IncrementDispatchDead)
	to.RecordQueueDepths(now.waiting, int(now.inMemory))
	to.RecordOldestLag(now.oldest)
	return now
}
