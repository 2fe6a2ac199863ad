package router

import (
	"sync"
	"sync/atomic"
	"time"
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

// RouteStats is a snapshot of a route's counters, since the process began.
type RouteStats struct {
	Route     string
	Delivered int64
	Retried   int64
	Dead      int64
	Parked    int64            // messages that were taken out of the stream
	Skipped   map[string]int64 // by reason

	Age       time.Duration // from creation to delivery, of a recent message
	InFlight  int           // messages that are not durably settled
	ParkedNow int           // groups in the parking, as the lanes here know
	Lanes     int           // lanes that this instance owns
	Down      []AddressStatus
}

// Stats returns the counters of all routes.
func (r *Router) Stats() []RouteStats {
	out := make([]RouteStats, 0, len(r.routes))
	for _, rt := range r.routes {
		out = append(out, rt.snapshot())
	}
	return out
}

func (r *route) snapshot() RouteStats {
	s := RouteStats{
		Route: r.Name, Delivered: r.stats.deliveredN.Load(), Retried: r.stats.retried.Load(),
		Dead: r.stats.dead.Load(), Parked: r.stats.parked.Load(),
		Age: time.Duration(r.stats.lastAge.Load()), Skipped: map[string]int64{}, Down: r.health.status(),
	}
	r.stats.mu.Lock()
	for reason, n := range r.stats.skipped {
		s.Skipped[reason] = n
	}
	r.stats.mu.Unlock()
	for _, l := range r.lanes {
		if x := l.session.Load(); x != nil {
			x.mu.Lock()
			s.Lanes++
			s.InFlight += x.pending()
			s.ParkedNow += len(x.parking.groups)
			x.mu.Unlock()
		}
	}
	return s
}
