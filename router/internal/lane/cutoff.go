package lane

import (
	"cmp"
	"slices"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// CutMoment is how long chains may take to end whose deliveries were cancelled:
// some of them turn out to have arrived.
const CutMoment = 100 * time.Millisecond

// cutoff is the end of what a stop waits for no longer: deliveries are cancelled. It is
// guarded by the session's mutex.
type cutoff struct {
	done    bool
	unknown int // chains that ended after that without showing whether their message arrived
}

// note counts a chain that ends after the cut without showing that its
// message arrived: a cancelled delivery may have.
func (c *cutoff) note(o outbox.Outcome) {
	if c.done && o != outbox.OutcomeDelivered && o != outbox.OutcomeSkipped {
		c.unknown++
	}
}

// left is of how many messages a stopped session does not know whether they arrived. A
// chain that has not ended by now is of one of them: what it ends with is not settled
// any more.
func (c *cutoff) left(chains int) int {
	if !c.done {
		return 0
	}
	return c.unknown + chains
}

// Unknown is what stopped sessions of one route do not know.
type Unknown struct {
	Route    string
	Lanes    []string
	Messages int
}

// UnknownBy adds up by route what stopped sessions do not know, routes and lanes in
// the order of their names.
func UnknownBy(sessions []*Session) (out []Unknown) {
	byRoute := map[string]*Unknown{}
	for _, s := range sessions {
		s.mu.Lock()
		unknown := s.cutoff.left(s.runner.chains)
		s.mu.Unlock()
		if unknown == 0 {
			continue
		}
		l := byRoute[s.Route.Name]
		if l == nil {
			l = &Unknown{Route: s.Route.Name}
			byRoute[s.Route.Name] = l
		}
		l.Lanes = append(l.Lanes, s.Lane.Name)
		l.Messages += unknown
	}
	for _, l := range byRoute {
		slices.Sort(l.Lanes)
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b Unknown) int { return cmp.Compare(a.Route, b.Route) })
	return out
}
