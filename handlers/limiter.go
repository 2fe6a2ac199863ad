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
	if l.free > 0 && l.allows(address, l.free) {
		l.free--
		l.taken[address]++
		l.waiting = slices.DeleteFunc(l.waiting, func(w *Gate) bool { return w == g })
		return true
	}
	if !slices.Contains(l.waiting, g) {
		l.waiting = append(l.waiting, g)
	}
	return false
}

// allows tells whether the address may have one of the free places.
func (l *Limiter) allows(address string, free int) bool {
	n := l.taken[address]
	return n == 0 || !l.shared || n < free
}

// contended tells whether another lane than g waits and there is no place.
func (l *Limiter) contended(g *Gate) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.free == 0 && (len(l.waiting) > 1 || len(l.waiting) == 1 && l.waiting[0] != g)
}

// release hands a place over to the first waiting lane that has use for it: a
// lane that was stopped, or whose messages were withdrawn, has none. It must
// not be called with a gate's mutex held.
func (l *Limiter) release(address string) {
	l.mu.Lock()
	if l.taken[address]--; l.taken[address] == 0 {
		delete(l.taken, address)
	}
	waiting := len(l.waiting) // each is asked once: some get in line again
	l.mu.Unlock()
	for range waiting {
		next := l.next()
		if next == nil {
			break
		}
		if next.serve() {
			return
		}
	}
	l.mu.Lock()
	l.free++
	late := slices.Clone(l.waiting) // they may have come while the place was in our hand
	l.mu.Unlock()
	for _, g := range late {
		g.retry()
	}
}

// next takes the first lane out of line.
func (l *Limiter) next() *Gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return nil
	}
	next := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	return next
}

// confirm uses the place that is being handed over for the address.
func (l *Limiter) confirm(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.allows(address, l.free+1) {
		return false
	}
	l.taken[address]++
	return true
}
