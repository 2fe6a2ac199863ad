package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin"
)

// routeState is the one thing to know about a route.
type routeState string

const (
	stateStopped     routeState = "stopped"
	stateNoRelay     routeState = "no-relay"
	stateUnavailable routeState = "unavailable"
	stateHeld        routeState = "held"
	stateRetrying    routeState = "retrying"
	stateBehind      routeState = "behind"
	statePaused      routeState = "paused"
	stateDead        routeState = "dead"
	stateStandby     routeState = "standby"
	stateOK          routeState = "ok"
)

// routeStates are all states, worst first, with their meaning.
var routeStates = []struct {
	state   routeState
	meaning string
}{
	{stateStopped, "the relay cannot run the route until an operator acts"},
	{stateNoRelay, "no live instance runs it, although it is not paused"},
	{stateUnavailable, "an address does not answer, or is paused"},
	{stateHeld, "groups wait for an operator because a message failed for good"},
	{stateRetrying, "messages have failed and are tried again"},
	{stateBehind, fmt.Sprintf("the oldest row not delivered is over %s old", rough(behindAfter))},
	{statePaused, "an operator paused the route"},
	{stateDead, "the route works; dead messages wait for an operator"},
	{stateStandby, "instances stand by: another process is the leader"},
	{stateOK, "the route works"},
}

// behindAfter is the age of the oldest row that makes a route count as behind.
const behindAfter = time.Minute

func stateNames() []string {
	var names []string
	for _, s := range routeStates {
		names = append(names, string(s.state))
	}
	return names
}

func stateHelp() string {
	var b strings.Builder
	for _, s := range routeStates {
		fmt.Fprintf(&b, "  %-12s %s\n", s.state, s.meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}

// judge gives each route its state and sorts them, worst first; routes in one
// state keep the configuration's order.
func judge(rows []progress, members []member) {
	alive := slices.ContainsFunc(members, func(m member) bool { return m.Alive })
	rank := map[routeState]int{}
	for i, s := range routeStates {
		rank[s.state] = i
	}
	for i := range rows {
		rows[i].noRelay = !alive
		rows[i].State = rows[i].judged(members)
	}
	slices.SortStableFunc(rows, func(a, b progress) int { return cmp.Compare(rank[a.State], rank[b.State]) })
}

func (p *progress) judged(members []member) routeState {
	switch {
	case p.Stopped != "":
		return stateStopped
	case p.Paused == nil && !p.Alive && p.waits(members):
		return stateStandby
	case p.Paused == nil && !p.Alive:
		return stateNoRelay
	case p.Paused == nil && len(p.Down) > 0:
		return stateUnavailable
	case p.Held > 0:
		return stateHeld
	case p.Paused != nil:
		return statePaused
	case p.Retrying > 0:
		return stateRetrying
	case p.Oldest != nil && *p.Behind > 0 && time.Since(*p.Oldest) > behindAfter:
		return stateBehind
	case p.Dead > 0:
		return stateDead
	}
	return stateOK
}

// waits reports whether a live instance says why it takes nothing of the route.
func (p *progress) waits(members []member) bool {
	return slices.ContainsFunc(members, func(m member) bool {
		return m.Alive && slices.ContainsFunc(m.Waits, func(w waits) bool { return w.Route == p.Route })
	})
}

// detailed is of how many routes the failures are looked up.
const detailed = 50

// addFailures finds, for the routes that need it most, the parked message to look
// at first: one that holds its group, else one that is retried, else a dead one.
func addFailures(ctx context.Context, op *admin.Operator, rows []progress) error {
	looked := 0
	for i := range rows {
		p := &rows[i]
		var status adapters.ParkedStatus
		switch {
		case p.Held > 0:
			status = adapters.ParkedHeld
		case p.Retrying > 0:
			status = adapters.ParkedRetrying
		case p.Dead > 0:
			status = adapters.ParkedDead
		default:
			continue
		}
		if looked++; looked > detailed {
			return nil
		}
		found, err := op.Parked(ctx, adapters.ParkedFilter{Route: p.Route, Status: status, Limit: 1})
		if err != nil {
			return err
		}
		if len(found) == 0 {
			continue // it was settled meanwhile
		}
		m := found[0]
		p.Failing = &failing{ID: m.ID, Group: m.Group, Status: m.Status, Attempts: m.Attempts, Since: m.ParkedAt, Error: m.LastError}
		if m.Status == adapters.ParkedRetrying {
			p.Failing.Next = &m.NextAttemptAt
		}
	}
	return nil
}
