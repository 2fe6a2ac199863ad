package router

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// cut makes an end of what a stop waits for no longer: deliveries are cancelled.
func (s *session) cut() {
	s.mu.Lock()
	s.cutOff = true
	s.mu.Unlock()
	s.gate.Abort()
}

// cutMoment is how long chains may take to end whose deliveries were cancelled:
// some of them turn out to have arrived.
const cutMoment = 100 * time.Millisecond

// awaitCutOff gives chains a moment to end after the cut.
func (s *session) awaitCutOff() {
	ctx, cancel := context.WithTimeout(context.Background(), cutMoment)
	defer cancel()
	s.awaitChains(ctx)
}

// noteUnknown counts a chain that ends after the cut without telling that its
// message arrived: what was called off may have. Call with the mutex held.
func (s *session) noteUnknown(o outbox.Outcome) {
	if s.cutOff && o != outbox.Delivered && o != outbox.Skipped {
		s.unknown++
	}
}

// leftUnknown is of how many messages a stopped session does not know whether
// they arrived. A chain that has not ended by now is of one of them: what it ends
// with is not settled any more.
func (s *session) leftUnknown() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cutOff {
		return 0
	}
	return s.unknown + s.chains
}

// leftOf is what stopped sessions of one route do not know.
type leftOf struct {
	route string
	lanes []string
	n     int
}

// leftBy adds up by route what stopped sessions do not know, routes and lanes in
// the order of their names.
func leftBy(sessions []*session) (out []leftOf) {
	byRoute := map[string]*leftOf{}
	for _, s := range sessions {
		unknown := s.leftUnknown()
		if unknown == 0 {
			continue
		}
		l := byRoute[s.route.Name]
		if l == nil {
			l = &leftOf{route: s.route.Name}
			byRoute[s.route.Name] = l
		}
		l.lanes = append(l.lanes, s.lane.name)
		l.n += unknown
	}
	for _, l := range byRoute {
		slices.Sort(l.lanes)
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b leftOf) int { return cmp.Compare(a.route, b.route) })
	return out
}
