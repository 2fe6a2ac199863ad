package handlers

import (
	"slices"
	"sync"

	"github.com/outriderhq/outrider/adapters"
)

// Limiter bounds the outstanding batches of a route over all of its lanes. A pipe, which is one address of a lane, that gets no
// permit waits in line; permits are granted in the order of the line.
//
// On a route with several addresses no address gets more permits than it leaves free: the first at most half of them, the next half
// of the rest. So addresses that hang never take all permits, and others are always reached.
//
// Each permit that becomes free is granted, in the same critical section, to the first in line that may have it. So no
// pipe in line has to be woken later.
//
// Limiters of several routes may share their [Permits]: then a batch takes one of its limiter and one of those.
type Limiter struct {
	shared  bool
	permits *Permits

	// Guarded by the mutex of permits.
	free  int
	taken map[string]int // by address
}

// Permits bound the outstanding batches of several limiters together: to as many as the one with the most has.
type Permits struct {
	mu   sync.Mutex
	free int
	line []*pipe
}

// NewLimiter returns a limiter with n permits; n <= 0: [adapters.DefaultMaxRequests]. A limiter is shared if there is more
// than one address.
func NewLimiter(n int, shared bool) *Limiter { return new(Permits).Limiter(n, shared) }

// Limiter returns a limiter with n permits, as [NewLimiter] does, that shares these. Call it before any of them is used.
func (p *Permits) Limiter(n int, shared bool) *Limiter {
	if n <= 0 {
		n = adapters.DefaultMaxRequests
	}
	p.free = max(p.free, n)
	return &Limiter{shared: shared, permits: p, free: n, taken: map[string]int{}}
}

// acquire takes a permit for a batch of the pipe, or puts the pipe in line.
func (l *Limiter) acquire(p *pipe) bool {
	s := l.permits
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

// allows reports whether an address with that many permits may have another.
func (l *Limiter) allows(taken, free int) bool {
	return free > 0 && (taken == 0 || !l.shared || taken < free)
}

func (l *Limiter) take(address string) {
	l.permits.free--
	l.free--
	l.taken[address]++
}

// contended reports whether another pipe in line could use a permit of this one: then its worker gives it back after each batch.
func (l *Limiter) contended(p *pipe) bool {
	l.permits.mu.Lock()
	defer l.permits.mu.Unlock()
	for _, w := range l.permits.line {
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

// release returns the permit of a batch. It goes to the first pipe in line that still needs one: lanes may have
// stopped, or their messages withdrawn. It must not be called with a gate's mutex held.
func (l *Limiter) release(address string) {
	for unused := []permit{{l, address}}; len(unused) > 0; {
		l.permits.mu.Lock()
		for _, u := range unused {
			u.limiter.give(u.address)
		}
		granted := l.permits.grant()
		l.permits.mu.Unlock()
		unused = unused[:0]
		for _, p := range granted {
			if !p.gate.serve(p) {
				unused = append(unused, permit{p.gate.cfg.Limiter, p.address})
			}
		}
	}
}

// permit is a permit of an address.
type permit struct {
	limiter *Limiter
	address string
}

// give returns a permit. Call with the mutex held.
func (l *Limiter) give(address string) {
	l.permits.free++
	l.free++
	if l.taken[address]--; l.taken[address] == 0 {
		delete(l.taken, address)
	}
}

// grant takes permits for those in line that may have one now, and takes them out of the line. One pass is enough: each
// permit that is taken leaves fewer. Call with the mutex held.
func (p *Permits) grant() (granted []*pipe) {
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

// cancel takes a pipe that has nothing left to send out of the line.
func (l *Limiter) cancel(p *pipe) {
	s := l.permits
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.inLine != nil {
		p.inLine = nil
		s.line = slices.DeleteFunc(s.line, func(w *pipe) bool { return w == p })
	}
}
