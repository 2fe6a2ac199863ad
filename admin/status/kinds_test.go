package status

import (
	"strings"
	"testing"
	"time"
)

// Each kind of cause names what keeps the route, since when, and the fix.
func TestCausesOfEveryKind(t *testing.T) {
	t.Parallel()
	since, behind := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC), 12
	pause := Stop{Since: since, By: "alice", Reason: "maintenance"}
	group := Stop{Group: `shop "7"`, Since: since, By: "bob"}
	overdue := &Overdue{Rows: 3, Lanes: []int{4}, ID: "e1", Where: "position 9", Since: since, Cause: CauseStuck}
	for name, tt := range map[string]struct {
		route        RouteStatus
		kind         CauseKind
		text, action string
		since        bool
	}{
		"stopped":         {RouteStatus{State: StateStopped, Stopped: "no table"}, CauseStopped, "the relay cannot run the route: no table", "follow the error", false},
		"source":          {RouteStatus{State: StateFailing, SourceError: "refused"}, CauseSource, "the source cannot be read: refused", "fix the database", false},
		"disk":            {RouteStatus{State: StateFailing, StateError: "No space left on device"}, CauseState, "progress cannot be written", "free space", false},
		"sqlite's disk":   {RouteStatus{State: StateFailing, StateError: "database or disk is full"}, CauseState, "progress cannot be written", "free space", false},
		"nobody":          {RouteStatus{State: StateNoRelay, Lanes: 16}, CauseNoOwner, "no live instance runs the route", "start a relay", false},
		"a frozen one":    {RouteStatus{State: StateNoRelay, Lanes: 16, Idle: []string{"b"}, Owned: []Owned{{Owner: "a", Alive: true, Slots: []int{0, 1}}}}, CauseNoOwner, "14 of 16 lanes have no owner; a has 2; b is alive and has none", "restart it", false},
		"paused":          {RouteStatus{Route: "orders", State: StatePaused, Paused: &pause}, CausePaused, "paused by alice: maintenance", "resume it: outrider resume orders", true},
		"a group":         {RouteStatus{Route: "orders", State: StateGroupPaused, Groups: []Stop{group}}, CauseGroupPaused, `group shop "7" is paused by bob`, `resume it: outrider resume orders --group "shop \"7\""`, true},
		"two groups":      {RouteStatus{State: StateGroupPaused, Groups: []Stop{group, group}}, CauseGroupPaused, `group shop "7" is paused by bob (and 1 more)`, "resume it", true},
		"behind":          {RouteStatus{State: StateBehind, Behind: &behind, Oldest: &since}, CauseBehind, "12 rows behind", "see whether the destination is slow", true},
		"far behind":      {RouteStatus{State: StateBehind, Behind: &behind, BehindMore: true, Oldest: &since}, CauseBehind, "more than 12 rows behind", "see whether", true},
		"overlooked":      {RouteStatus{State: StateBehind, Behind: &behind, Overdue: overdue}, CauseStuck, "3 rows of lanes [4] are not settled and nothing explains it; the first one is e1, position 9", "look at it with", true},
		"a transaction":   {RouteStatus{State: StateOK, LongTransaction: "open for 1h", LongTransactionFix: "end it", LongTransactionID: "7"}, CauseTransaction, "open for 1h", "end it", false},
		"paused and long": {RouteStatus{State: StatePaused, Paused: &pause, LongTransaction: "open for 1h"}, CausePaused, "paused", "resume", true},
		"dead":            {RouteStatus{State: StateDead, Dead: 1}, CauseDead, "the route works; 1 dead message waits", "redrive or purge", false},
		"another relay's": {RouteStatus{State: StateForeign, RunBy: []string{"x", "y"}}, CauseForeign, "not in this configuration; run by x, y", "", false},
		"removed":         {RouteStatus{Route: "old", State: StateForeign}, CauseForeign, "not in this configuration, and no live instance runs it", "if it was removed, forget it: outrider route forget old", false},
		"standby":         {RouteStatus{State: StateStandby}, CauseStandby, "instances stand by", "", false},
		"fine":            {RouteStatus{State: StateOK}, CauseFine, "the route works", "", false},
	} {
		c := tt.route.Cause()
		if c.Kind != tt.kind || !strings.HasPrefix(c.Text, tt.text) || !strings.HasPrefix(c.Action, tt.action) || tt.action == "" && c.Action != "" {
			t.Errorf("%s: %s, %q, %q", name, c.Kind, c.Text, c.Action)
		}
		if (c.Since != nil) != tt.since {
			t.Errorf("%s: since %v", name, c.Since)
		}
	}
}

// The address that only an operator can bring back is named before those that are probed.
func TestTheWorstAddressIsNamed(t *testing.T) {
	t.Parallel()
	probe := time.Now()
	r := RouteStatus{State: StateUnavailable, Down: []Stop{{Address: "a", Reason: "timeout", Probe: &probe}, {Address: "b", Durable: true, By: "alice", Reason: "b is closed"}}}
	c := r.Cause()
	if c.Address != "b" || c.NextProbe != nil || c.Missing || c.Action != "resume it when the receiver is back" {
		t.Errorf("the cause is %+v", c)
	}
	r.Down = r.Down[:1]
	if c = r.Cause(); c.Address != "a" || c.NextProbe != &probe || !strings.Contains(c.Text, "a is unavailable: timeout") {
		t.Errorf("the cause is %+v", c)
	}
}

func TestATopicIsCreatedByItsCommand(t *testing.T) {
	t.Parallel()
	missing := Stop{Address: "orders", Reason: `topic "orders" does not exist: create it with outrider topic create DESTINATION orders --yes`}
	for _, tt := range []struct {
		route RouteStatus
		stop  Stop
		want  string
	}{
		{RouteStatus{to: "bus"}, missing, "outrider topic create bus orders --yes"},
		{RouteStatus{}, missing, "outrider topic create DESTINATION orders --yes"},
		{RouteStatus{to: "bus"}, Stop{Address: "orders", Reason: "timeout"}, ""},
	} {
		if got := tt.route.TopicCommand(&tt.stop); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// Every state has a cause and a meaning, so that no route is shown without either.
func TestEveryStateHasACause(t *testing.T) {
	t.Parallel()
	for _, s := range RouteStates {
		if causes[s.State] == "" || s.Meaning == "" {
			t.Errorf("state %s has the cause %q and the meaning %q", s.State, causes[s.State], s.Meaning)
		}
	}
	if len(causes) != len(RouteStates) {
		t.Errorf("%d states have causes, %d are shown", len(causes), len(RouteStates))
	}
}
