package handlers

import "sync"

// Limiter bounds the outstanding batches of a route over all of its lanes.
// Lanes that find it exhausted are served in the order in which they asked.
type Limiter struct {
	mu      sync.Mutex
	free    int
	waiting []*Gate
}

// NewLimiter returns a limiter with n places.
func NewLimiter(n int) *Limiter { return &Limiter{free: n} }

// acquire takes a place, or notes that g wants one.
func (l *Limiter) acquire(g *Gate) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free > 0 {
		l.free--
		return true
	}
	for _, w := range l.waiting {
		if w == g {
			return false
		}
	}
	l.waiting = append(l.waiting, g)
	return false
}

// contended tells whether another lane waits for a place.
func (l *Limiter) contended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 0
}

// release gives a place back and lets the next waiting lane try. It must not be
// called with a gate's mutex held.
func (l *Limiter) release() {
	l.mu.Lock()
	l.free++
	var next *Gate
	if len(l.waiting) > 0 {
		next = l.waiting[0]
		l.waiting = l.waiting[1:]
	}
	l.mu.Unlock()
	if next != nil {
		next.Kick()
	}
}
