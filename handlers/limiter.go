package handlers

import (
	"slices"
	"sync"

	"github.com/outriderhq/outrider/adapters"
)

// Limiter bounds the outstanding batches of a route over all of its lanes.
// A caller that finds no place waits in line for one: an address of a lane, served
// in the order in which they asked.
//
// On a route with several addresses no address gets more places than it leaves
// free: the first at most half of them, the next half of the rest. So addresses
// that hang never take all places, and others are always reached.
//
// No pipe in line could have a place: each place that becomes free is given,
// in the same critical section, to the first in line that may have it. So there is
// no caller to wake later, and none that could be forgotten.
type Limiter struct {
	shared bool

	mu    sync.Mutex
	free  int
	taken map[string]int // by address
	line  []*pipe
}

// NewLimiter returns a limiter with n places; n <= 0:
// [adapters.DefaultMaxRequests]. A limiter is shared when there is more than one
// address.
func NewLimiter(n int, shared bool) *Limiter {
	if n <= 0 {
		n = adapters.DefaultMaxRequests
	}
	return &Limiter{shared: shared, free: n, taken: map[string]int{}}
}

// acquire takes a place for a batch of the pipe, or has it stand in line.
func (l *Limiter) acquire(p *pipe) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.inLine:
		return false
	case l.allows(l.taken[p.address], l.free):
		l.take(p.address)
		return true
	}
	p.inLine = true
	l.line = append(l.line, p)
	return false
}

// allows reports whether an address that has taken so many places may have one
// of the free ones.
func (l *Limiter) allows(taken, free int) bool {
	return free > 0 && (taken == 0 || !l.shared || taken < free)
}

func (l *Limiter) take(address string) {
	l.free--
	l.taken[address]++
}

// contended reports whether another caller in line could use the place that the
// pipe has: then its worker hands it over after each batch.
func (l *Limiter) contended(p *pipe) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.line {
		taken := l.taken[w.address]
		if w.address == p.address {
			taken--
		}
		if w != p && l.allows(taken, l.free+1) {
			return true
		}
	}
	return false
}

// release returns the place of a batch. It goes to who is in line for it, who
// may have no use for it any more: a lane that was stopped, or whose messages
// were withdrawn. It must not be called with a gate's mutex held.
func (l *Limiter) release(address string) {
	for unused := []string{address}; len(unused) > 0; {
		l.mu.Lock()
		for _, a := range unused {
			l.free++
			if l.taken[a]--; l.taken[a] == 0 {
				delete(l.taken, a)
			}
		}
		granted := l.grant()
		l.mu.Unlock()
		unused = unused[:0]
		for _, p := range granted {
			if !p.gate.serve(p) {
				unused = append(unused, p.address)
			}
		}
	}
}

// grant takes places for those in line who may have one now, and takes them out
// of it. Once is enough: each place that is taken leaves less to the others. Call
// with the mutex held.
func (l *Limiter) grant() (granted []*pipe) {
	for i := 0; i < len(l.line) && l.free > 0; {
		p := l.line[i]
		if !l.allows(l.taken[p.address], l.free) {
			i++
			continue
		}
		l.take(p.address)
		p.inLine = false
		l.line = slices.Delete(l.line, i, i+1)
		granted = append(granted, p)
	}
	return granted
}

// leave takes a pipe that has nothing left to send out of the line.
func (l *Limiter) leave(p *pipe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.inLine {
		p.inLine = false
		l.line = slices.DeleteFunc(l.line, func(w *pipe) bool { return w == p })
	}
}
