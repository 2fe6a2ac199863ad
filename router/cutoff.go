package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// ErrCutOff is what [Router.Run] returns, by errors.Is, when
// [Config.DrainTimeout] was over before everything under way had ended: what was
// left was cancelled, and nobody knows whether it arrived. Nothing is lost: it
// stays unsettled and may be delivered again. All that was concluded is written
// down, unless the error says otherwise as well.
var ErrCutOff = errors.New("the drain was cut off")

// mostRoutesNamed bounds the routes that an error names.
const mostRoutesNamed = 5

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

// cutOff returns an [ErrCutOff] that says what was left of the stopped sessions
// when the limit was over; nil when nothing was.
func cutOff(sessions []*session, limit time.Duration) error {
	left := leftBy(sessions)
	if len(left) == 0 {
		return nil
	}
	n := 0
	var routes []string
	for i, l := range left {
		n += l.n
		if i < mostRoutesNamed {
			routes = append(routes, fmt.Sprintf("route %s (%d, in %s)", l.route, l.n, strings.Join(l.lanes, ", ")))
		}
	}
	if more := len(left) - len(routes); more > 0 {
		routes = append(routes, fmt.Sprintf("%d more routes", more))
	}
	return fmt.Errorf("%w after %v (drain_timeout) with %s under way: %s; whether they arrived is not known, and they may be delivered again; "+
		"raise drain_timeout above the timeout of these routes, or find out what takes their receivers or middleware so long",
		ErrCutOff, limit, messages(n), strings.Join(routes, ", "))
}

// messages is a number of them, with the noun.
func messages(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}
