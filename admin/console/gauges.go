package console

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
)

// gauges counts what only databases know, for /metrics: the state of each route as `outrider status` shows it, and what waits in destinations that
// are queues themselves. Each instance counts for itself, and all find the same, also after a restart.
type gauges struct {
	failures publisherFailures

	op   *operate.Operator // that deep is of
	deep map[string]adapters.Destination

	mu     sync.Mutex
	found  []prometheus.Metric
	oldest map[string]oldestRow // by route
}

// oldestRow is the oldest row that a route has not settled.
type oldestRow struct {
	created time.Time // zero: there is no such row
	queue   bool      // it is in a queue
}

const (
	countPause    = 10 * time.Second // between two counts; they rest for watchShare times as long as they took,
	countRest     = 30 * time.Second // and for so long at most: alarms wait for them
	countAgain    = time.Second      // after one that could not be
	countPatience = 20 * time.Second // of a count
	depthMost     = 100_000          // where counting in a destination stops
)

// statusMetrics are gauges of each route, queueStatusMetrics those of routes that read a queue. Where the value is not known there is none.
var (
	statusMetrics = []statusMetric{
		{routeDesc("dead_messages", "Dead messages of the route, parked ones and dead rows of its queue; counting rows stops at 10,000. They wait for an operator."),
			func(r *status.RouteStatus) (int, bool) { return r.Dead, r.DeadError == "" }},
		{routeDesc("paused_groups", "Groups of the route that an operator paused."), func(r *status.RouteStatus) (int, bool) { return len(r.Groups), true }},
		{routeDesc("backlog_rows", "Rows of the table that the route has not settled, whether it matches them or not; counting stops at 10,000."), behind},
	}
	queueStatusMetrics = []statusMetric{
		{routeDesc("queue_unfinished", "Rows of the route's queue that wait or are being processed, over all routes of the queue; counting stops at 10,000."), behind},
		{routeDesc("queue_dead", "Dead rows in the table of the route's queue that match the route; counting stops at 10,000."),
			func(r *status.RouteStatus) (int, bool) { return r.DeadRows, r.DeadError == "" }},
		{routeDesc("queue_processing", "Rows of the route's queue that are marked as being processed, by whomever, over all routes of the queue."),
			func(r *status.RouteStatus) (int, bool) {
				if r.Processing == nil {
					return 0, false
				}
				return r.Processing.Rows, true
			}},
	}
	backlogOldest = routeDesc("backlog_oldest_seconds", "Age of the oldest row that the route has not settled, whether it matches it and any instance has read it or not; "+
		"0 when there is none. It grows while the database cannot be asked. Of a queue with more than 10,000 rows it may not be known, and is missing.")
	queueOldest    = routeDesc("queue_oldest_seconds", "The same of the route's queue.")
	parkedMessages = routeDesc("parked_messages", "Parked messages of the route in the state store, over all instances; dead and held ones wait for an operator. "+
		"Each retrying or held one is the first of its group, which waits behind it.", "status")
	lanesWithoutOwner = routeDesc("lanes_without_owner", "Lanes of the route that no live instance owns. 0 while the route is paused, or an instance waits for the lead.")
	destinationDepth  = prometheus.NewDesc("outrider_destination_depth",
		"Jobs that wait in the destination, from any producer; counting stops at 100,000.", []string{"destination"}, nil)
)

// statusMetric is a gauge of each route, from its status.
type statusMetric struct {
	desc  *prometheus.Desc
	value func(*status.RouteStatus) (n int, known bool)
}

func behind(r *status.RouteStatus) (int, bool) {
	if r.Behind == nil {
		return 0, false
	}
	return *r.Behind, true
}

// run counts until ctx ends: often at first, because lanes come only some time after the start.
func (g *gauges) run(ctx context.Context, c *Console) {
	defer g.close()
	for pause := countAgain; ; {
		begun := time.Now()
		err := g.count(ctx, c)
		switch {
		case err != nil: // there is no operator yet, or none any more
			pause = countAgain
		case pause < countPause:
			pause = min(2*pause, countPause)
		default:
			pause = max(countPause, min(watchShare*time.Since(begun), countRest))
		}
		timer := time.NewTimer(pause)
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
	c.snapshotMu.Lock()
	s := c.take(ctx)
	c.snapshotMu.Unlock()
	var found []prometheus.Metric
	queues := map[string]bool{} // routes that read one
	err := c.Use(ctx, func(op *operate.Operator) error {
		if g.op != op {
			g.close()
			g.op, g.deep = op, map[string]adapters.Destination{}
		}
		for _, r := range op.Builder().Config.Routes {
			queues[r.Name] = op.Builder().Source(r.From).Queue
		}
		found = append(g.depths(ctx, op), g.publishers(ctx, op)...)
		return nil
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	former, lanes := g.oldest, ownerless(s)
	g.found, g.oldest = found, map[string]oldestRow{}
	for i := range s.Routes {
		r := &s.Routes[i]
		queue, ours := queues[r.Route]
		if !ours {
			continue
		}
		if s.Problem == nil {
			g.found = append(g.found, statusGauges(r, queue, lanes[r.Route])...)
		}
		last, known := former[r.Route]
		switch {
		case r.Oldest != nil:
			g.oldest[r.Route] = oldestRow{*r.Oldest, queue}
		case r.Behind != nil && *r.Behind == 0:
			g.oldest[r.Route] = oldestRow{queue: queue}
		case r.Behind == nil && known: // the database cannot be asked: no row that waited there can have been settled
			g.oldest[r.Route] = last
		}
	}
	return cmp.Or(s.Problem, err)
}

// statusGauges are the gauges of a route, of which so many lanes have no owner.
func statusGauges(r *status.RouteStatus, queue bool, lanes int) (found []prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		found = append(found, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), append([]string{r.Route}, labels...)...))
	}
	metrics := statusMetrics
	if queue {
		metrics = slices.Concat(statusMetrics, queueStatusMetrics)
	}
	for _, m := range metrics {
		if n, known := m.value(r); known {
			gauge(m.desc, n)
		}
	}
	gauge(parkedMessages, r.Retrying, string(adapters.ParkedRetrying))
	gauge(parkedMessages, r.Waiting, string(adapters.ParkedWaiting))
	gauge(parkedMessages, r.Held, string(adapters.ParkedHeld))
	gauge(parkedMessages, r.Dead-r.DeadRows, string(adapters.ParkedDead))
	gauge(lanesWithoutOwner, lanes)
	return found
}

// ownerless counts, by route, the lanes that have no live owner and should have one.
func ownerless(s *Snapshot) map[string]int {
	out := map[string]int{}
	for i := range s.Lanes {
		if l := &s.Lanes[i]; l.Owner == "" || !l.Alive {
			out[l.Route]++
		}
	}
	for _, m := range s.Instances {
		for _, w := range m.Waits {
			if m.Alive { // another process may have the lead, which the state store does not know
				delete(out, w.Route)
			}
		}
	}
	for i := range s.Routes {
		if s.Routes[i].Paused != nil {
			delete(out, s.Routes[i].Route)
		}
	}
	return out
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
	for route, oldest := range g.oldest {
		age := 0.0
		if !oldest.created.IsZero() {
			age = max(time.Since(oldest.created).Seconds(), 0)
		}
		out <- prometheus.MustNewConstMetric(backlogOldest, prometheus.GaugeValue, age, route)
		if oldest.queue {
			out <- prometheus.MustNewConstMetric(queueOldest, prometheus.GaugeValue, age, route)
		}
	}
}
