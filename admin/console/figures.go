package console

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// figures counts what only databases know, for /metrics: what is parked, what waits in queue tables, what is dead in them, and what waits in
// destinations that are queues themselves. Each instance counts for itself, and all find the same.
type figures struct {
	failures publisherFailures

	op   *operate.Operator // that deep is of
	deep map[string]adapters.Destination

	mu    sync.Mutex
	found []prometheus.Metric
}

const (
	figuresPause    = 10 * time.Second // between two counts; they rest for watchShare times as long as they took
	figuresAgain    = time.Second      // after one that could not be
	figuresPatience = 20 * time.Second // of a count
	depthMost       = 100_000          // where counting in a destination stops
)

var (
	queueUnfinished = prometheus.NewDesc("outrider_queue_unfinished",
		"Rows of the route's queue that wait or are being processed, over all routes of the queue; counting stops at 10,000.", []string{"route"}, nil)
	queueOldest = prometheus.NewDesc("outrider_queue_oldest_seconds",
		"Age of the oldest of these rows; 0 when there is none. Of more than 10,000 it may not be known, and is missing.", []string{"route"}, nil)
	queueDead = prometheus.NewDesc("outrider_queue_dead",
		"Dead rows in the table of the route's queue that match the route; counting stops at 10,000.", []string{"route"}, nil)
	parkedMessages = prometheus.NewDesc("outrider_parked_messages",
		"Parked messages of the route in the state store, over all instances; dead and held ones wait for an operator.", []string{"route", "status"}, nil)
	destinationDepth = prometheus.NewDesc("outrider_destination_depth",
		"Jobs that wait in the destination, from any producer; counting stops at 100,000.", []string{"destination"}, nil)
)

// run counts until ctx ends.
func (f *figures) run(ctx context.Context, c *Console) {
	defer f.close()
	for {
		begun, pause := time.Now(), figuresPause
		if err := f.look(ctx, c); err != nil { // there is no operator yet, or none any more
			pause = figuresAgain
		}
		timer := time.NewTimer(max(pause, watchShare*time.Since(begun)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// look counts once. What cannot be asked is left out: an alarm on its absence is one on the database.
func (f *figures) look(ctx context.Context, c *Console) error {
	ctx, cancel := context.WithTimeout(ctx, figuresPatience)
	defer cancel()
	var found []prometheus.Metric
	err := c.Use(ctx, func(op *operate.Operator) error {
		if f.op != op {
			f.close()
			f.op, f.deep = op, map[string]adapters.Destination{}
		}
		found = append(f.queues(ctx, op), f.depths(ctx, op)...)
		found = append(found, parkedFigures(ctx, op)...)
		found = append(found, f.publishers(ctx, op)...)
		return nil
	})
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.found = found
	}
	return err
}

// queues are the figures of routes that read queues.
func (f *figures) queues(ctx context.Context, op *operate.Operator) (found []prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, route string) {
		found = append(found, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, route))
	}
	behind := map[string]*adapters.Backlog{} // by source; nil: not known
	for _, r := range op.Builder().Config.Routes {
		if !op.Builder().Source(r.From).Queue {
			continue
		}
		b, known := behind[r.From]
		if !known {
			if counted, err := op.LagBehind(ctx, r.Name, nil); err == nil {
				b = &counted
			}
			behind[r.From] = b
		}
		if b == nil {
			continue
		}
		gauge(queueUnfinished, float64(b.Rows), r.Name)
		switch {
		case b.Rows == 0:
			gauge(queueOldest, 0, r.Name)
		case !b.Oldest.IsZero():
			gauge(queueOldest, max(time.Since(b.Oldest).Seconds(), 0), r.Name)
		}
	}
	if len(behind) == 0 {
		return nil
	}
	dead := op.DeadRows(ctx)
	for _, r := range op.Builder().Config.Routes {
		if _, queue := behind[r.From]; queue && dead.Errors[r.From] == "" {
			gauge(queueDead, float64(dead.Counts[r.Name]), r.Name)
		}
	}
	return found
}

// parkedFigures are the figures of the state stores: counters begin at 0 with a process, dead messages outlive it.
func parkedFigures(ctx context.Context, op *operate.Operator) (found []prometheus.Metric) {
	counts, err := op.CountLanes(ctx)
	if err != nil {
		return nil
	}
	sums := map[string]adapters.LaneCounts{}
	for lane, n := range counts {
		sum := sums[lane.Route]
		sum.Retrying, sum.Waiting, sum.Held, sum.Dead = sum.Retrying+n.Retrying, sum.Waiting+n.Waiting, sum.Held+n.Held, sum.Dead+n.Dead
		sums[lane.Route] = sum
	}
	for _, r := range op.Builder().Config.Routes {
		sum := sums[r.Name]
		for status, n := range map[adapters.ParkedStatus]int{adapters.ParkedRetrying: sum.Retrying, adapters.ParkedWaiting: sum.Waiting,
			adapters.ParkedHeld: sum.Held, adapters.ParkedDead: sum.Dead} {
			found = append(found, prometheus.MustNewConstMetric(parkedMessages, prometheus.GaugeValue, float64(n), r.Name, string(status)))
		}
	}
	return found
}

// depths are the figures of destinations.
func (f *figures) depths(ctx context.Context, op *operate.Operator) (found []prometheus.Metric) {
	for name := range op.Builder().Config.Destinations {
		k := op.Builder().Destination(name)
		if !k.Deep {
			continue
		}
		d := f.deep[name]
		if d == nil {
			var err error
			if d, err = k.Open(); err != nil {
				continue
			}
			f.deep[name] = d
		}
		if n, err := d.(adapters.DepthCounter).Depth(ctx, depthMost); err == nil { //nolint:forcetypeassert // Deep says so
			found = append(found, prometheus.MustNewConstMetric(destinationDepth, prometheus.GaugeValue, float64(n), name))
		}
	}
	return found
}

// close closes the destinations.
func (f *figures) close() {
	for _, d := range f.deep {
		_ = d.Close() // nothing was delivered
	}
	f.op, f.deep = nil, nil
}

// collect shows what was found last.
func (f *figures) collect(out chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.found {
		out <- m
	}
}
