package router

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// routeStats are the counters of a route. They are for people and alarms; no
// guarantee rests on them.
type routeStats struct {
	deliveredN atomic.Int64
	retried    atomic.Int64
	dead       atomic.Int64
	parked     atomic.Int64
	lastAge    atomic.Int64 // nanoseconds from commit (about) to delivery, of the latest message

	mu      sync.Mutex
	skipped map[string]int64
}

func (s *routeStats) delivered(born time.Time) {
	// The age of every 64th is enough, and time.Now is not free.
	if n := s.deliveredN.Add(1); n%64 == 1 && !born.IsZero() {
		s.lastAge.Store(int64(time.Since(born)))
	}
}

func (s *routeStats) skip(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skipped == nil {
		s.skipped = map[string]int64{}
	}
	s.skipped[reason]++
}

// Stats returns the counters of all routes.
func (r *Router) Stats() []outbox.RouteStats {
	out := make([]outbox.RouteStats, 0, len(r.routes))
	for _, rt := range r.routes {
		out = append(out, rt.snapshot())
	}
	return out
}

func (r *route) snapshot() outbox.RouteStats {
	s := outbox.RouteStats{
		Route: r.Name, Delivered: r.stats.deliveredN.Load(), Retried: r.stats.retried.Load(),
		Dead: r.stats.dead.Load(), Parked: r.stats.parked.Load(),
		Age: time.Duration(r.stats.lastAge.Load()), Skipped: map[string]int64{}, Down: r.health.status(),
	}
	r.stats.mu.Lock()
	maps.Copy(s.Skipped, r.stats.skipped)
	r.stats.mu.Unlock()
	for _, x := range r.sessions() {
		x.mu.Lock()
		s.Lanes++
		s.InFlight += x.pending()
		s.ParkedNow += len(x.parking.groups)
		x.mu.Unlock()
	}
	return s
}
