package web

import (
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/admin"
)

// summary is what the head of every page says.
type summary struct {
	Routes, Attention  int // routes, and those that need attention
	Held, Dead, Parked int
	Instances          int       // that live
	Problem, Mend      string    // why the state store cannot be read, and what to do
	Old                time.Time // of the state that is shown, if it is old
}

// Waiting is how many parked messages are still to be delivered.
func (s summary) Waiting() int { return max(0, s.Parked-s.Dead) }

// summaryOf counts.
func summaryOf(snap *admin.Snapshot) (s summary) {
	s.Routes = len(snap.Routes)
	if snap.Old() {
		s.Old = snap.At
	}
	if snap.Problem != nil {
		s.Problem, s.Mend = snap.Trouble()
		s.Attention = s.Routes
	}
	for i := range snap.Routes {
		r := &snap.Routes[i]
		if t := tone(r.State); snap.Problem == nil && (t == "bad" || t == "warn" || r.LongTransaction != "") {
			s.Attention++
		}
		s.Held, s.Dead, s.Parked = s.Held+r.Held, s.Dead+r.Dead, s.Parked+r.Held+r.Dead+r.Retrying+r.Waiting
	}
	for _, m := range snap.Instances {
		if m.Alive {
			s.Instances++
		}
	}
	return s
}

// routeLine is a route on the overview.
type routeLine struct {
	*admin.RouteStatus
	From, To string
	State    string
	Cause    admin.Cause
	Acts     []act
	Hint     string // what to do, where no button says it
	Lag      *time.Duration
	Rate     *float64
	InFlight int
	Spark    template.HTML

	AlsoPaused bool // and its cause is another
}

// act is a way out: a link, or a form with one button.
type act struct {
	Label  string
	Href   link        // of a link, below the base
	Action string      // of a form
	Fields [][2]string // of a form
	Role   admin.Role  // that it needs
}

// overviewData is all routes, worst first.
type overviewData struct {
	Lines      []routeLine
	Query      string
	State      string
	States     []stateCount
	Total      int
	Before     int // index of the first line
	Prev, Next link
	Rate       float64
	Slowest    *routeLine // whose oldest row waits longest; nil: none waits
	Counted    bool       // of some route it is known how many rows wait
	Spark      template.HTML
	Span       time.Duration // of the sparklines
}

// stateCount is how many routes are in a state.
type stateCount struct {
	State string
	Count int
}

// linesMost is how many routes a page shows.
const linesMost = 100

func (s *server) overview(r *http.Request) (*page, error) {
	snap := s.console.Status(r.Context())
	q := r.URL.Query()
	d := overviewData{Query: q.Get("q"), State: q.Get("state")}
	var wanted []*admin.RouteStatus
	var slowest *admin.RouteStatus
	counts := map[string]int{}
	for i := range snap.Routes {
		status := &snap.Routes[i]
		state := shownState(snap, status)
		counts[state]++
		rate, _ := s.rateOf(snap, status.Route)
		d.Rate += rate
		d.Counted = d.Counted || status.Behind != nil
		if status.Oldest != nil && deref(status.Behind) > 0 && (slowest == nil || status.Oldest.Before(*slowest.Oldest)) {
			slowest = status
		}
		if (d.Query == "" || strings.Contains(status.Route, d.Query)) && (d.State == "" || d.State == state) {
			wanted = append(wanted, status)
		}
	}
	sum := s.console.History().Sum()
	whole := s.console.History().Len()
	d.Spark, d.Span = spark(sum, whole), span(whole)
	for _, known := range admin.RouteStates {
		if n := counts[string(known.State)]; n > 0 {
			d.States = append(d.States, stateCount{string(known.State), n})
		}
	}
	d.Total = len(wanted)
	d.Before, _ = strconv.Atoi(q.Get("from")) // anything else is the begin
	d.Before = min(max(d.Before, 0), len(wanted))
	if d.Before > 0 {
		d.Prev = query("q", d.Query, "state", d.State, "from", strconv.Itoa(max(0, d.Before-linesMost)))
	}
	if end := d.Before + linesMost; end < len(wanted) {
		d.Next = query("q", d.Query, "state", d.State, "from", strconv.Itoa(end))
		wanted = wanted[:end]
	}
	ways := s.ways()
	if slowest != nil {
		line := s.line(snap, slowest, ways)
		d.Slowest = &line
	}
	for _, status := range wanted[d.Before:] {
		d.Lines = append(d.Lines, s.line(snap, status, ways))
	}
	return &page{Name: "overview", Title: "Overview", Data: d}, nil
}

// ways are where routes lead, by name.
func (s *server) ways() map[string][2]string {
	out := map[string][2]string{}
	for _, r := range s.console.Config().Routes {
		out[r.Name] = [2]string{r.From, strings.Join(r.Targets, ", ")}
	}
	return out
}

// shownState is a route's state, or that it is not known.
func shownState(snap *admin.Snapshot, r *admin.RouteStatus) string {
	if snap.Problem != nil && r.State != admin.StateStopped {
		return stateError
	}
	return string(r.State)
}

// line describes a route.
func (s *server) line(snap *admin.Snapshot, r *admin.RouteStatus, ways map[string][2]string) routeLine {
	points, _ := s.console.History().Route(r.Route)
	l := routeLine{RouteStatus: r, From: ways[r.Route][0], To: ways[r.Route][1], State: shownState(snap, r), Cause: snap.CauseOf(r),
		InFlight: snap.Stats[r.Route].InFlight, Spark: spark(points, s.console.History().Len())}
	if r.Oldest != nil && r.Behind != nil && *r.Behind > 0 {
		lag := time.Since(*r.Oldest)
		l.Lag = &lag
	}
	if rate, ok := s.rateOf(snap, r.Route); ok {
		l.Rate = &rate
	}
	l.Acts, l.Hint = actsFor(&l, r), l.Cause.Action
	if l.Cause.Kind == admin.CausePaused {
		l.Hint = "" // the button says it
	}
	if l.AlsoPaused = r.Paused != nil && l.Cause.Kind != admin.CausePaused; l.AlsoPaused {
		l.Acts = append(l.Acts, resume(r.Route))
	}
	return l
}

// rateOf is what a route delivers a second: between the last two looks, or else in the
// last step of its history.
func (s *server) rateOf(snap *admin.Snapshot, route string) (float64, bool) {
	if rate, ok := snap.Rates[route]; ok {
		return rate, true
	}
	return s.console.History().Rate(route)
}

// resume ends the pause of a route.
func resume(route string) act {
	return act{Label: "Resume", Action: "resume", Fields: [][2]string{{"route", route}}, Role: admin.RoleOperate}
}

// actsFor are the ways out of a cause.
func actsFor(l *routeLine, r *admin.RouteStatus) []act {
	route, c := r.Route, &l.Cause
	details := act{Label: "Details", Href: "/route/" + pathOf(route)}
	parked := func(status string) link { return "/parked?" + query("route", route, "status", status) }
	confirm := func(action, status string) link {
		return "/confirm?" + query("action", action, "route", route, "status", status)
	}
	switch c.Kind {
	case admin.CausePaused:
		return []act{resume(route)}
	case admin.CauseAddress:
		return append(mending(l, r), act{Label: "Addresses", Href: "/destinations?" + query("route", route)})
	case admin.CauseGroupHeld:
		return []act{{Label: "Blocked groups", Href: "/groups?" + query("route", route)}, {Label: "Redrive", Href: confirm("redrive", "held"), Role: admin.RoleOperate}}
	case admin.CauseRetrying:
		return []act{{Label: "See them", Href: parked("retrying")}, {Label: "Retry now", Href: confirm("redrive", "retrying"), Role: admin.RoleOperate}}
	case admin.CauseDead:
		return []act{{Label: "See them", Href: parked("dead")}, {Label: "Redrive", Href: confirm("redrive", "dead"), Role: admin.RoleOperate}}
	case admin.CauseNoOwner, admin.CauseStandby:
		acts := []act{{Label: "Instances", Href: "/instances"}}
		if len(r.Owned) > 0 && len(r.Idle) > 0 {
			remove := "/confirm?" + query("action", "remove-instance", "instance", r.Idle[0])
			acts = append(acts, act{Label: "Remove " + r.Idle[0] + "…", Href: remove, Role: admin.RoleAdmin})
		}
		return acts
	case admin.CauseGroupPaused:
		return []act{{Label: "Paused groups", Href: "/groups?" + query("route", route)}}
	case admin.CauseStopped:
		return append(rebases(route, r.Stopped), details)
	case admin.CauseTransaction:
		if c.Transaction != "" {
			end := "/confirm?" + query("action", "end-transaction", "source", l.From, "transaction", c.Transaction)
			return []act{{Label: "End it…", Href: end, Role: admin.RoleAdmin}, details}
		}
		return []act{details}
	case admin.CauseSource, admin.CauseState:
		return []act{{Label: "Doctor", Href: "/doctor", Role: admin.RoleOperate}, details}
	case admin.CauseForeign:
		if len(r.RunBy) == 0 {
			return []act{{Label: "Forget…", Href: "/confirm?" + query("action", "forget", "route", route), Role: admin.RoleAdmin}, details}
		}
		return []act{{Label: "Instances", Href: "/instances"}, details}
	case admin.CauseBehind, admin.CauseStuck:
		return []act{details}
	case admin.CauseFine:
	}
	return nil
}

// mending are the ways out for an address that is not in use.
func mending(l *routeLine, r *admin.RouteStatus) (acts []act) {
	c, of := &l.Cause, [][2]string{{"route", r.Route}, {"address", l.Cause.Address}}
	if i := slices.IndexFunc(r.Down, func(s admin.Stop) bool { return s.Address == c.Address }); i >= 0 && r.Down[i].Durable {
		return []act{{Label: "Resume address", Action: "resume", Fields: of, Role: admin.RoleOperate}}
	}
	if c.Missing {
		create := "/confirm?" + query("action", "create-topic", "destination", l.To, "topic", c.Address)
		return []act{{Label: "Create the topic…", Href: create, Role: admin.RoleAdmin}}
	}
	return []act{{Label: "Try now", Action: "probe", Fields: of, Role: admin.RoleOperate},
		{Label: "Reload…", Href: "/confirm?action=reload&back=/", Role: admin.RoleAdmin}}
}

// rebases are the ways out for a route that is stopped because its cursor is another table's or database's: those which the error names.
func rebases(route, stopped string) []act {
	rebase := "outrider rebase " + route
	switch {
	case strings.Contains(stopped, rebase+" --adopt"):
		return []act{{Label: "Adopt…", Href: "/confirm?" + query("action", "rebase", "route", route, "adopt", "yes"), Role: admin.RoleAdmin}}
	case strings.Contains(stopped, rebase):
		return []act{{Label: "Rebase…", Href: "/confirm?" + query("action", "rebase", "route", route), Role: admin.RoleAdmin}}
	}
	return nil
}
