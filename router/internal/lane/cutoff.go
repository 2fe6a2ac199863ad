package lane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// cut makes an end of what a stop waits for no longer: deliveries are cancelled.
func (s *Session) cut() {
	s.mu.Lock()
	s.cutOff = true
	s.mu.Unlock()
	s.gate.Abort()
}

// CutMoment is how long chains may take to end whose deliveries were cancelled:
// some of them turn out to have arrived.
const CutMoment = 100 * time.Millisecond

// awaitCutOff gives chains a moment to end after the cut.
func (s *Session) awaitCutOff() {
	ctx, cancel := context.WithTimeout(context.Background(), CutMoment)
	defer cancel()
	s.runner.await(ctx)
}

// noteUnknown counts a chain that ends after the cut without telling that its
// message arrived: what was called off may have. Call with the mutex held.
func (s *Session) noteUnknown(o outbox.Outcome) {
	if s.cutOff && o != outbox.OutcomeDelivered && o != outbox.OutcomeSkipped {
		s.unknown++
	}
}

// leftUnknown is of how many messages a stopped session does not know whether
// they arrived. A chain that has not ended by now is of one of them: what it ends
// with is not settled any more.
func (s *Session) leftUnknown() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cutOff {
		return 0
	}
	return s.unknown + s.runner.chains
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
		unknown := s.leftUnknown()
		if unknown == 0 {
			continue
		}
		l := byRoute[s.route.Name]
		if l == nil {
			l = &Unknown{Route: s.route.Name}
			byRoute[s.route.Name] = l
		}
		l.Lanes = append(l.Lanes, s.lane.Name)
		l.Messages += unknown
	}
	for _, l := range byRoute {
		slices.Sort(l.Lanes)
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b Unknown) int { return cmp.Compare(a.Route, b.Route) })
	return out
}
