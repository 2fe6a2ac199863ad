package lane

import (
	"errors"
	"sync"

	"github.com/outriderhq/outrider/adapters"
)

// mostPlaces bounds the places of panics that a route remembers. There are as many
// as there are lines that panic.
const mostPlaces = 1000

// panics are the places where supplied code has panicked, whose stacks are logged.
type panics struct {
	mu     sync.Mutex
	places map[string]struct{}
}

// first reports whether no panic at the place was seen before.
func (p *panics) first(place string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.places[place]; known || len(p.places) >= mostPlaces {
		return false
	}
	if p.places == nil {
		p.places = map[string]struct{}{}
	}
	p.places[place] = struct{}{}
	return true
}

// notePanic logs the stack of a panic, the first time that it happens at its place:
// the message's error has the place, and every attempt may end the same way.
func (r *Route) notePanic(err error) {
	if p, ok := errors.AsType[*adapters.PanicError](err); ok && r.panics.first(p.Place) {
		r.Log().Error("a panic counts as a failed attempt; its stack is logged this once", "error", p, "stack", p.Stack)
	}
}
