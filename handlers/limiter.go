package handlers

import (
	"slices"
	"sync"

	"github.com/outriderhq/outrider/outbox"
)

// Limiter bounds the outstanding batches of a route over all of its lanes.
// Lanes that find it exhausted are served in the order in which they asked.
type Limiter struct {
	mu      sync.Mutex
	free    int // 0 while anybody waits
	waiting []*Gate
}

// NewLimiter returns a limiter with n places; n <= 0:
// [outbox.DefaultMaxRequests].
func NewLimiter(n int) *Limiter {
	if n <= 0 {
		n = outbox.DefaultMaxRequests
	}
	return &Limiter{free: n}
}

// acquire takes a place, or notes that g wants one.
func (l *Limiter) acquire(g *Gate) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free > 0 {
		l.free--
		return true
	}
	if !slices.Contains(l.waiting, g) {
		l.waiting = append(l.waiting, g)
	}
	return false
}

// contended tells whether another lane than g waits for a place.
func (l *Limiter) contended(g *Gate) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 1 || len(l.waiting) == 1 && l.waiting[0] != g
}

// release hands a place over to the first waiting lane that has use for it: a
// lane that was stopped, or whose messages were withdrawn, has none. It must
// not be called with a gate's mutex held.
func (l *Limiter) release() {
	for {
		next := l.next()
		if next == nil || next.serve() {
			return
		}
	}
}

// next takes the first lane out of line; if there is none, the place is free.
func (l *Limiter) next() *Gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.free++
		return nil
	}
	next := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	return next
}
