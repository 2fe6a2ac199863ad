package console

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// gauges counts what only databases know, for /metrics: what is parked, what waits in queue tables, what is dead in them, and what waits in
// destinations that are queues themselves. Each instance counts for itself, and all find the same.
type gauges struct {
	failures publisherFailures

	op   *operate.Operator // that deep is of
	deep map[string]adapters.Destination

	mu    sync.Mutex
	found []prometheus.Metric
}

const (
	countPause    = 10 * time.Second // between two counts; they rest for watchShare times as long as they took
	countAgain    = time.Second      // after one that could not be
	countPatience = 20 * time.Second // of a count
	depthMost     = 100_000          // where counting in a destination stops
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
func (g *gauges) run(ctx context.Context, c *Console) {
	defer g.close()
	for {
		begun, pause := time.Now(), countPause
		if err := g.count(ctx, c); err != nil { // there is no operator yet, or none any more
			pause = countAgain
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

// count counts once. What cannot be asked is left out: an alarm on its absence is one on the database.
func (g *gauges) count(ctx context.Context, c *Console) error {
	ctx, cancel := context.WithTimeout(ctx, countPatience)
	defer cancel()
	var found []prometheus.Metric
	err := c.Use(ctx, func(op *operate.Operator) error {
		if g.op != op {
			g.close()
			g.op, g.deep = op, map[string]adapters.Destination{}
		}
		found = append(g.queues(ctx, op), g.depths(ctx, op)...)
		found = append(found, parkedGauges(ctx, op)...)
		found = append(found, g.publishers(ctx, op)...)
		return nil
	})
	if err == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.found = found
	}
	return err
}

// queues are the gauges of routes that read queues.
func (g *gauges) queues(ctx context.Context, op *operate.Operator) (found []prometheus.Metric) {
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

// parkedGauges are the gauges of the state stores: counters begin at 0 with a process, dead messages outlive it.
func parkedGauges(ctx context.Context, op *operate.Operator) (found []prometheus.Metric) {
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

// depths are the gauges of destinations.
func (g *gauges) depths(ctx context.Context, op *operate.Operator) (found []prometheus.Metric) {
	for name := range op.Builder().Config.Destinations {
		k := op.Builder().Destination(name)
		if !k.Deep {
			continue
		}
		d := g.deep[name]
		if d == nil {
			var err error
			if d, err = k.Open(); err != nil {
				continue
			}
			g.deep[name] = d
		}
		if n, err := d.(adapters.DepthCounter).Depth(ctx, depthMost); err == nil { //nolint:forcetypeassert // Deep says so
			found = append(found, prometheus.MustNewConstMetric(destinationDepth, prometheus.GaugeValue, float64(n), name))
		}
	}
	return found
}

// close closes the destinations.
func (g *gauges) close() {
	for _, d := range g.deep {
		_ = d.Close() // nothing was delivered
	}
	g.op, g.deep = nil, nil
}

// collect shows what was found last.
func (g *gauges) collect(out chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.found {
		out <- m
	}
}
