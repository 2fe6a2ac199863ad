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

// step is a state that follows, and what leads there. A step that is only possible is not taken for granted: crashes, failures, commands.
type step[S any] struct {
	to       S
	events   []Event
	possible bool
}

// rules are what a state's events are given to.
type rules interface {
	Do(p *Plan, e Event) error
	Finish() error
}

// system is how relays work: its states, and what follows each.
type system[S any] interface {
	*S
	next(p *Plan, f Fault, yield func(step[S]))
	rules() rules
}

// publishers have inserted the rows before Next, of which the transactions of Open are open.
type publishers struct {
	Next int
	Open Set
}

func (s publishers) next(left Bounds, yield func(to publishers, left Bounds, events []Event, possible bool)) {
	if s.Next < left.Rows {
		yield(publishers{s.Next + 1, s.Open | Of(s.Next)}, left, []Event{{Kind: Insert, Row: s.Next}}, false)
	}
	for row := range s.Open.All {
		to := publishers{s.Next, s.Open &^ Of(row)}
		yield(to, left, []Event{{Kind: Commit, Row: row}, {Kind: Committed, Row: row}}, false)
		if left.Aborts > 0 {
			fewer := left
			fewer.Aborts--
			yield(to, fewer, nil, true)
		}
	}
}

// reached is a state, and how.
type reached[S any] struct {
	state S
	how   *path
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

// Explore makes all sequences of steps of relays that read a log, within the bounds, those with fewer steps first.
func Explore(p *Plan, b Bounds, f Fault) Explored { return explore(p, System{Left: b}, f) }

// ExploreQueue is [Explore] for relays that claim rows.
func ExploreQueue(p *Plan, b Bounds, f Fault) Explored { return explore(p, QueueSystem{Left: b}, f) }

func explore[S comparable, P system[S]](p *Plan, first S, f Fault) Explored {
	seed, seen := maphash.MakeSeed(), map[uint64]bool{}
	level := []reached[S]{{state: first}}
	out := Explored{States: 1}
	for len(level) > 0 && out.Err == nil {
		var after []reached[S]
		for i := range level {
			at := &level[i]
			still := true // nothing that is bound to happen changes anything
			P(&at.state).next(p, f, func(s step[S]) {
				still = still && s.possible
				for _, e := range s.events {
					if err := P(&s.to).rules().Do(p, e); err != nil && out.Err == nil {
						out.Path, out.Err = append(at.how.all(), s.events...), fmt.Errorf("%+v: %w", e, err)
					}
				}
				if sum := maphash.Comparable(seed, s.to); !seen[sum] {
					seen[sum] = true
					out.States++
					after = append(after, reached[S]{s.to, &path{s.events, at.how}})
				}
			})
			if err := P(&at.state).rules().Finish(); still && err != nil && out.Err == nil {
				out.Path, out.Err = at.how.all(), fmt.Errorf("nothing more happens: %w", err)
			}
		}
		level = after
	}
	return out
}

// Replay gives the events to the rules of logs, and Finish to the end. The error names the event.
func Replay(p *Plan, events []Event) (*Rules, error) {
	w := &Rules{}
	return w, replay(p, w, events)
}

// ReplayQueue is [Replay] with the rules of queues.
func ReplayQueue(p *Plan, events []Event) (*QueueRules, error) {
	w := &QueueRules{}
	return w, replay(p, w, events)
}

func replay(p *Plan, w rules, events []Event) error {
	for i, e := range events {
		if err := w.Do(p, e); err != nil {
			return fmt.Errorf("event %d, %+v: %w", i, e, err)
		}
	}
	return w.Finish()
}
