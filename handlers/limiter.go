package handlers

import (
	"slices"
	"sync"

	"github.com/outriderhq/outrider/outbox"
)

// Limiter bounds the outstanding batches of a route over all of its lanes.
// Lanes that find no place are served in the order in which they asked.
//
// On a route with several addresses no address gets more places than it leaves
// free: the first at most half of them, the next half of the rest. So addresses
// that hang never take all places, and others are always reached.
type Limiter struct {
	shared bool

	mu      sync.Mutex
	free    int
	taken   map[string]int // by address
	waiting []*Gate
}

// NewLimiter returns a limiter with n places; n <= 0:
// [outbox.DefaultMaxRequests]. A limiter is shared when there is more than one
// address.
func NewLimiter(n int, shared bool) *Limiter {
	if n <= 0 {
		n = outbox.DefaultMaxRequests
	}
	return &Limiter{shared: shared, free: n, taken: map[string]int{}}
}

// acquire takes a place for a batch to the address, or notes that g wants one.
func (l *Limiter) acquire(g *Gate, address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.taken[address]
	if l.free > 0 && (n == 0 || !l.shared || n < l.free) {
		l.free--
		l.taken[address] = n + 1
		return true
	}
	if !slices.Contains(l.waiting, g) {
		l.waiting = append(l.waiting, g)
	}
	return false
}

// contended tells whether another lane than g waits and there is no place.
func (l *Limiter) contended(g *Gate) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.free == 0 && (len(l.waiting) > 1 || len(l.waiting) == 1 && l.waiting[0] != g)
}

// release gives a place back and lets the lanes that wait try again, in their
// order; who finds none gets in line again. It must not be called with a gate's
// mutex held.
func (l *Limiter) release(address string) {
	l.mu.Lock()
	l.free++
	if l.taken[address]--; l.taken[address] == 0 {
		delete(l.taken, address)
	}
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	for _, g := range waiting {
		g.retry()
	}
}
