package status

import (
	"cmp"
	"slices"
	"time"
)

// RouteState is the one thing to know about a route.
type RouteState string

// The states; [RouteStates] has their meaning.
const (
	StateStopped     RouteState = "stopped"
	StateNoRelay     RouteState = "no-relay"
	StateFailing     RouteState = "failing"
	StateUnavailable RouteState = "unavailable"
	StateHeld        RouteState = "held"
	StateRetrying    RouteState = "retrying"
	StateBehind      RouteState = "behind"
	StatePaused      RouteState = "paused"
	StateGroupPaused RouteState = "group-paused"
	StateDead        RouteState = "dead"
	StateForeign     RouteState = "not-configured"
	StateStandby     RouteState = "standby"
	StateOK          RouteState = "ok"
)

// RouteStates are all states, worst first, with their meaning.
var RouteStates = []struct {
	State   RouteState
	Meaning string
}{
	{StateStopped, "the relay cannot run the route until an operator acts"},
	{StateNoRelay, "no live instance runs it, although it is not paused"},
	{StateFailing, "its source cannot be read, or its progress cannot be written"},
	{StateUnavailable, "an address does not answer, or is paused"},
	{StateHeld, "groups wait for an operator because a message failed permanently"},
	{StateRetrying, "messages have failed and are being retried"},
	{StateBehind, "the oldest row not delivered is over 1m0s old"},
	{StatePaused, "an operator paused the route"},
	{StateGroupPaused, "an operator paused groups of the route; others are delivered"},
	{StateDead, "the route works; dead messages wait for an operator"},
	{StateForeign, "the state store has the route and this configuration has not: another relay's, or removed"},
	{StateStandby, "instances stand by: another process is the leader"},
	{StateOK, "the route works"},
}

// behindAfter is the age of the oldest row that makes a route count as behind.
const behindAfter = time.Minute

// Judge gives each route its state and sorts them, worst first; routes in one
// state keep the configuration's order.
func Judge(rows []RouteStatus, members []Member) {
	alive := slices.ContainsFunc(members, func(m Member) bool { return m.Alive })
	rank := map[RouteState]int{}
	for i, s := range RouteStates {
		rank[s.State] = i
	}
	for i := range rows {
		rows[i].NoRelay = !alive
		rows[i].State = rows[i].judged(members)
	}
	slices.SortStableFunc(rows, func(a, b RouteStatus) int { return cmp.Compare(rank[a.State], rank[b.State]) })
}

func (p *RouteStatus) judged(members []Member) RouteState {
	switch {
	case p.Foreign:
		return StateForeign
	case p.Stopped != "":
		return StateStopped
	case p.Paused == nil && !p.Alive && p.standsBy(members):
		return StateStandby
	case p.Paused == nil && !p.Alive:
		return StateNoRelay
	case p.Paused == nil && (p.SourceError != "" || p.StateError != ""):
		return StateFailing
	case p.Paused == nil && len(p.Down) > 0:
		return StateUnavailable
	case p.Held > 0:
		return StateHeld
	case p.Paused != nil:
		return StatePaused
	case len(p.Groups) > 0:
		return StateGroupPaused
	case p.Retrying > 0:
		return StateRetrying
	case p.Oldest != nil && *p.Behind > 0 && time.Since(*p.Oldest) > behindAfter:
		return StateBehind
	case p.Dead > 0:
		return StateDead
	}
	return StateOK
}

// standsBy reports whether a live instance says why it takes nothing of the route.
func (p *RouteStatus) standsBy(members []Member) bool {
	return slices.ContainsFunc(members, func(m Member) bool {
		return m.Alive && slices.ContainsFunc(m.Waits, func(w Waits) bool { return w.Route == p.Route })
	})
}
