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
//
// Limiters of several routes may share their [Places]: then a batch takes one of its
// limiter and one of those.
type Limiter struct {
	shared bool
	places *Places

	// Guarded by the mutex of places.
	free  int
	taken map[string]int // by address
}

// Places bound the outstanding batches of several limiters together: to as many as the one
// with the most has.
type Places struct {
	mu   sync.Mutex
	free int
	line []*pipe
}

// NewLimiter returns a limiter with n places; n <= 0:
// [adapters.DefaultMaxRequests]. A limiter is shared when there is more than one
// address.
func NewLimiter(n int, shared bool) *Limiter { return new(Places).Limiter(n, shared) }

// Limiter returns a limiter with n places, as [NewLimiter] does, that shares these. Call it
// before any limiter of theirs is used.
func (p *Places) Limiter(n int, shared bool) *Limiter {
	if n <= 0 {
		n = adapters.DefaultMaxRequests
	}
	p.free = max(p.free, n)
	return &Limiter{shared: shared, places: p, free: n, taken: map[string]int{}}
}

// acquire takes a place for a batch of the pipe, or has it stand in line.
func (l *Limiter) acquire(p *pipe) bool {
	s := l.places
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case p.inLine != nil:
		return false
	case s.free > 0 && l.allows(l.taken[p.address], l.free):
		l.take(p.address)
		return true
	}
	p.inLine = l
	s.line = append(s.line, p)
	return false
}

// allows reports whether an address that has taken so many places may have one
// of the free ones.
func (l *Limiter) allows(taken, free int) bool {
	return free > 0 && (taken == 0 || !l.shared || taken < free)
}

func (l *Limiter) take(address string) {
	l.places.free--
	l.free--
	l.taken[address]++
}

// contended reports whether another caller in line could use the place that the
// pipe has: then its worker hands it over after each batch.
func (l *Limiter) contended(p *pipe) bool {
	l.places.mu.Lock()
	defer l.places.mu.Unlock()
	for _, w := range l.places.line {
		of := w.inLine
		taken, free := of.taken[w.address], of.free
		if of == l {
			free++
			if w.address == p.address {
				taken--
			}
		}
		if w != p && of.allows(taken, free) {
			return true
		}
	}
	return false
}

// release returns the place of a batch. It goes to the first pipe in line, which
// may have no use for it any more: a lane that was stopped, or whose messages
// were withdrawn. It must not be called with a gate's mutex held.
func (l *Limiter) release(address string) {
	for unused := []place{{l, address}}; len(unused) > 0; {
		l.places.mu.Lock()
		for _, u := range unused {
			u.limiter.give(u.address)
		}
		granted := l.places.grant()
		l.places.mu.Unlock()
		unused = unused[:0]
		for _, p := range granted {
			if !p.gate.serve(p) {
				unused = append(unused, place{p.gate.cfg.Limiter, p.address})
			}
		}
	}
}

// place is a place that was taken for an address.
type place struct {
	limiter *Limiter
	address string
}

// give gives a place back. Call with the mutex held.
func (l *Limiter) give(address string) {
	l.places.free++
	l.free++
	if l.taken[address]--; l.taken[address] == 0 {
		delete(l.taken, address)
	}
}

// grant takes places for those in line that may have one now, and takes them out
// of it. Once is enough: each place that is taken leaves less to the others. Call
// with the mutex held.
func (p *Places) grant() (granted []*pipe) {
	for i := 0; i < len(p.line) && p.free > 0; {
		next := p.line[i]
		l := next.inLine
		if !l.allows(l.taken[next.address], l.free) {
			i++
			continue
		}
		l.take(next.address)
		next.inLine = nil
		p.line = slices.Delete(p.line, i, i+1)
		granted = append(granted, next)
	}
	return granted
}

// leave takes a pipe that has nothing left to send out of the line.
func (l *Limiter) leave(p *pipe) {
	s := l.places
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.inLine != nil {
		p.inLine = nil
		s.line = slices.DeleteFunc(s.line, func(w *pipe) bool { return w == p })
	}
}
