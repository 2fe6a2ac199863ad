package model

import (
	"fmt"
	"hash/maphash"
)

// Explored is what [Explore] has found.
type Explored struct {
	States int
	Path   []Event // to the first state, of those that take the fewest steps, that a rule forbids
	Err    error   // the rule
}

// reached is a state, and how.
type reached struct {
	System
	how *path
}

// path is the events that led to a state.
type path struct {
	events []Event
	from   *path
}

func (p *path) all() []Event {
	if p == nil {
		return nil
	}
	return append(p.from.all(), p.events...)
}

// Explore makes all sequences of steps within the bounds, those with fewer steps first.
func Explore(p *Plan, b Bounds, f Fault) Explored {
	seed, seen := maphash.MakeSeed(), map[uint64]bool{}
	level := []reached{{System: System{Left: b}}}
	out := Explored{States: 1}
	for len(level) > 0 && out.Err == nil {
		var after []reached
		for i := range level {
			at := &level[i]
			still := true // nothing that is bound to happen changes anything
			at.next(p, f, func(s step) {
				still = still && s.possible
				for _, e := range s.events {
					if err := s.to.World.Do(p, e); err != nil && out.Err == nil {
						out.Path, out.Err = append(at.how.all(), s.events...), fmt.Errorf("%+v: %w", e, err)
					}
				}
				if sum := maphash.Comparable(seed, s.to); !seen[sum] {
					seen[sum] = true
					out.States++
					after = append(after, reached{s.to, &path{s.events, at.how}})
				}
			})
			if err := at.World.Finish(); still && err != nil && out.Err == nil {
				out.Path, out.Err = at.how.all(), fmt.Errorf("nothing more happens: %w", err)
			}
		}
		level = after
	}
	return out
}
