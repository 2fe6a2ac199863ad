package console

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// History has the counts of this process's routes in the last hour, in memory: a point
// for each [HistoryStep].
type History struct {
	stats func() []adapters.RouteStats

	mu     sync.Mutex
	routes map[string]*pastRoute
	at     time.Time // of the latest points
	next   int       // where the rings are written next
	taken  int       // points since the process began, at most HistoryPoints
}

const (
	// HistoryStep is the time between two points of a history.
	HistoryStep = 10 * time.Second

	// HistoryPoints is how many points a history has at most: those of an hour.
	HistoryPoints = 360
)

// Point has the counts of a route in a step.
type Point struct {
	Delivered, Retried, Dead, Parked, Skipped uint32 // messages

	// Ages from creation to delivery in seconds, of a sample: half, 95% and 99% are
	// below; 0 when nothing was delivered.
	P50, P95, P99 float32

	Oldest   float32 // seconds since the oldest message not delivered was created
	InFlight uint32
	Down     uint32 // addresses that are not used
	Known    bool   // false: the process did not run, or not the route
}

// pastRoute is the ring of a route and the counters at its latest point. Of hundreds of routes most do nothing for hours: they have no ring.
type pastRoute struct {
	ring *[HistoryPoints]Point // nil: nothing happened in any point
	idle int                   // how many those are, at most HistoryPoints
	last adapters.RouteStats
	seen bool
}

// put writes the point of this step.
func (r *pastRoute) put(next int, p Point) {
	if r.ring == nil {
		if p == (Point{Known: true}) {
			r.idle = min(r.idle+1, HistoryPoints)
			return
		}
		r.ring = new([HistoryPoints]Point)
		for i := range r.idle {
			r.ring[(next+HistoryPoints-1-i)%HistoryPoints].Known = true
		}
	}
	r.ring[next] = p
}

// point returns the i-th point, from 0, the oldest one.
func (r *pastRoute) point(next, i int) Point {
	if r.ring == nil {
		return Point{Known: i >= HistoryPoints-r.idle}
	}
	return r.ring[(next+i)%HistoryPoints]
}

// newHistory makes a history of counters that have not been read yet.
func newHistory(stats func() []adapters.RouteStats) *History {
	return &History{stats: stats, routes: map[string]*pastRoute{}}
}

// run takes a point at each step until ctx ends.
func (h *History) run(ctx context.Context) {
	tick := time.NewTicker(HistoryStep)
	defer tick.Stop()
	for {
		h.take(time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// take takes a point of each route.
func (h *History) take(now time.Time) {
	stats := h.stats()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.routes {
		r.seen = false
	}
	for _, s := range stats {
		r := h.routes[s.Route]
		if r == nil {
			r = &pastRoute{}
			h.routes[s.Route] = r
		}
		r.put(h.next, pointOf(&r.last, &s))
		r.last, r.seen = s, true
	}
	for name, r := range h.routes {
		if r.seen {
			continue
		}
		if r.put(h.next, Point{}); !r.known() {
			delete(h.routes, name)
		}
	}
	h.next, h.taken = (h.next+1)%HistoryPoints, min(h.taken+1, HistoryPoints)
	h.at = now
}

// known reports whether anything of the last hour is known of the route.
func (r *pastRoute) known() bool {
	for i := range HistoryPoints {
		if r.point(0, i).Known {
			return true
		}
	}
	return false
}

// Route returns the points of a route, the oldest first, and the time of the latest:
// of a process that began lately, as many as there are.
func (h *History) Route(name string) (points []Point, latest time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.routes[name]
	if r == nil {
		return nil, h.at
	}
	points = make([]Point, 0, HistoryPoints)
	for i := range HistoryPoints {
		p := r.point(h.next, i)
		if len(points) > 0 || p.Known {
			points = append(points, p)
		}
	}
	return points, h.at
}

// Len is how many points there are since the process began, at most those of an hour.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.taken
}

// Rate is how many messages a second a route delivered in the latest step; false: it is not known of the last two.
func (h *History) Rate(name string) (float64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.routes[name]
	if r == nil {
		return 0, false
	}
	last, before := r.point(h.next, HistoryPoints-1), r.point(h.next, HistoryPoints-2)
	return float64(last.Delivered) / HistoryStep.Seconds(), last.Known && before.Known
}

// Sum returns what all routes delivered, the oldest point first, as far back as one is known.
func (h *History) Sum() []Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum, first := make([]Point, HistoryPoints), HistoryPoints
	for _, r := range h.routes {
		for i := range sum {
			if p := r.point(h.next, i); p.Known {
				sum[i].Delivered, sum[i].Known = sum[i].Delivered+p.Delivered, true
				first = min(first, i)
			}
		}
	}
	return sum[first:]
}

// pointOf is the difference of two readings of the counters. They begin at 0 again
// after a reload.
func pointOf(last, now *adapters.RouteStats) Point {
	if last.Route == "" || now.Delivered < last.Delivered || now.Retried < last.Retried || now.Parked < last.Parked {
		last = &adapters.RouteStats{}
	}
	p := Point{
		Delivered: since(last.Delivered, now.Delivered), Retried: since(last.Retried, now.Retried), Dead: since(last.Dead, now.Dead),
		Parked: since(last.Parked, now.Parked), Oldest: float32(now.Oldest.Seconds()), InFlight: uint32(max(now.InFlight, 0)),
		Down: uint32(len(now.Down)), Known: true,
	}
	for reason, n := range now.Skipped {
		p.Skipped += since(last.Skipped[reason], n)
	}
	var ages adapters.AgeCounts
	for i := range ages {
		ages[i] = int64(since(last.Ages[i], now.Ages[i]))
	}
	p.P50, p.P95, p.P99 = percentile(&ages, .5), percentile(&ages, .95), percentile(&ages, .99)
	return p
}

// since is how much a counter has grown.
func since(last, now int64) uint32 { return uint32(min(max(now-last, 0), 1<<32-1)) }

// percentile is the age in seconds below which a share of the counted ones is; within a
// bucket they are taken to be spread evenly. 0: there are none.
func percentile(counts *adapters.AgeCounts, share float64) float32 {
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank, below := share*float64(total), int64(0)
	for i, n := range counts {
		if n == 0 || float64(below+n) < rank {
			below += n
			continue
		}
		low, high := time.Duration(0), adapters.AgeBounds[len(adapters.AgeBounds)-1]
		if i > 0 {
			low = adapters.AgeBounds[i-1]
		}
		if i < len(adapters.AgeBounds) {
			high = adapters.AgeBounds[i]
		}
		within := (rank - float64(below)) / float64(n)
		return float32(low.Seconds() + within*(high-low).Seconds())
	}
	return float32(adapters.AgeBounds[len(adapters.AgeBounds)-1].Seconds())
}

// History returns the counts of this process's routes in the last hour, as far as
// [Console.Run] has run.
func (c *Console) History() *History { return c.history }

// Run keeps the history, counts for the metrics and watches routes until ctx ends.
func (c *Console) Run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	if limit := c.relay.Config().Watchdog.Std(); limit > 0 {
		c.watch.Store(newWatchdog(limit, cmp.Or(c.relay.Options.Logger, slog.Default())))
		watching.Go(func() { c.watch.Load().run(ctx, c) })
	}
	watching.Go(func() { c.gauges.run(ctx, c) })
	c.history.run(ctx)
}
