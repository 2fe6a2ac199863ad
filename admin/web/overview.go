package web

import (
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
)

// summary is the head of every page.
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
func summaryOf(snap *console.Snapshot) (s summary) {
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
	*status.RouteStatus
	From, To string
	State    string
	Cause    status.Cause
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
	Href   link         // of a link, below the base
	Action string       // of a form
	Fields [][2]string  // of a form
	Role   operate.Role // that it needs
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

func (s *pages) overview(r *http.Request) (*page, error) {
	snap := s.console.Status(r.Context())
	q := r.URL.Query()
	d := overviewData{Query: q.Get("q"), State: q.Get("state")}
	var wanted []*status.RouteStatus
	var slowest *status.RouteStatus
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
	for _, known := range status.RouteStates {
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
func (s *pages) ways() map[string][2]string {
	out := map[string][2]string{}
	for _, r := range s.console.Config().Routes {
		out[r.Name] = [2]string{r.From, strings.Join(r.Targets, ", ")}
	}
	return out
}

// shownState is a route's state, or that it is not known.
func shownState(snap *console.Snapshot, r *status.RouteStatus) string {
	if snap.Problem != nil && r.State != status.StateStopped {
		return stateError
	}
	return string(r.State)
}

// line describes a route.
func (s *pages) line(snap *console.Snapshot, r *status.RouteStatus, ways map[string][2]string) routeLine {
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
	if l.Cause.Kind == status.CausePaused {
		l.Hint = "" // the button says it
	}
	if l.AlsoPaused = r.Paused != nil && l.Cause.Kind != status.CausePaused; l.AlsoPaused {
		l.Acts = append(l.Acts, resume(r.Route))
	}
	return l
}

// rateOf is the number of messages that a route delivers a second: between the last two snapshots, or else in the
// last step of its history.
func (s *pages) rateOf(snap *console.Snapshot, route string) (float64, bool) {
	if rate, ok := snap.Rates[route]; ok {
		return rate, true
	}
	return s.console.History().Rate(route)
}

// resume ends the pause of a route.
func resume(route string) act {
	return act{Label: "Resume", Action: "resume", Fields: [][2]string{{"route", route}}, Role: operate.RoleOperate}
}

// actsFor are the ways out of a cause.
func actsFor(l *routeLine, r *status.RouteStatus) []act {
	route, c := r.Route, &l.Cause
	details := act{Label: "Details", Href: "/route/" + pathOf(route)}
	parked := func(status string) link { return "/parked?" + query("route", route, "status", status) }
	confirm := func(action, status string) link {
		return "/confirm?" + query("action", action, "route", route, "status", status)
	}
	switch c.Kind {
	case status.CausePaused:
		return []act{resume(route)}
	case status.CauseAddress:
		return append(repairs(l, r), act{Label: "Addresses", Href: "/destinations?" + query("route", route)})
	case status.CauseGroupHeld:
		return []act{{Label: "Blocked groups", Href: "/groups?" + query("route", route)}, {Label: "Redrive", Href: confirm("redrive", "held"), Role: operate.RoleOperate}}
	case status.CauseRetrying:
		return []act{{Label: "See them", Href: parked("retrying")}, {Label: "Retry now", Href: confirm("redrive", "retrying"), Role: operate.RoleOperate}}
	case status.CauseDead:
		return []act{{Label: "See them", Href: parked("dead")}, {Label: "Redrive", Href: confirm("redrive", "dead"), Role: operate.RoleOperate}}
	case status.CauseNoOwner, status.CauseStandby:
		acts := []act{{Label: "Instances", Href: "/instances"}}
		if len(r.Owned) > 0 && len(r.Idle) > 0 {
			remove := "/confirm?" + query("action", "remove-instance", "instance", r.Idle[0])
			acts = append(acts, act{Label: "Remove " + r.Idle[0] + "…", Href: remove, Role: operate.RoleAdmin})
		}
		return acts
	case status.CauseGroupPaused:
		return []act{{Label: "Paused groups", Href: "/groups?" + query("route", route)}}
	case status.CauseStopped:
		return append(rebases(route, r.Stopped), details)
	case status.CauseTransaction:
		if c.Transaction != "" {
			end := "/confirm?" + query("action", "end-transaction", "source", l.From, "transaction", c.Transaction)
			return []act{{Label: "End it…", Href: end, Role: operate.RoleAdmin}, details}
		}
		return []act{details}
	case status.CauseSource, status.CauseState:
		return []act{{Label: "Doctor", Href: "/doctor", Role: operate.RoleOperate}, details}
	case status.CauseForeign:
		if len(r.RunBy) == 0 {
			return []act{{Label: "Forget…", Href: "/confirm?" + query("action", "forget", "route", route), Role: operate.RoleAdmin}, details}
		}
		return []act{{Label: "Instances", Href: "/instances"}, details}
	case status.CauseBehind, status.CauseStuck:
		return []act{details}
	case status.CauseFine:
	}
	return nil
}

// repairs are the ways out for an address that is not in use.
func repairs(l *routeLine, r *status.RouteStatus) (acts []act) {
	c, of := &l.Cause, [][2]string{{"route", r.Route}, {"address", l.Cause.Address}}
	if i := slices.IndexFunc(r.Down, func(s status.Stop) bool { return s.Address == c.Address }); i >= 0 && r.Down[i].Durable {
		return []act{{Label: "Resume address", Action: "resume", Fields: of, Role: operate.RoleOperate}}
	}
	if c.Missing {
		create := "/confirm?" + query("action", "create-topic", "destination", l.To, "topic", c.Address)
		return []act{{Label: "Create the topic…", Href: create, Role: operate.RoleAdmin}}
	}
	return []act{{Label: "Try now", Action: "probe", Fields: of, Role: operate.RoleOperate},
		{Label: "Reload…", Href: "/confirm?action=reload&back=/", Role: operate.RoleAdmin}}
}

// rebases are the ways out for a route that is stopped because its cursor is another table's or database's: those which the error names.
func rebases(route, stopped string) []act {
	rebase := "outrider rebase " + route
	switch {
	case strings.Contains(stopped, rebase+" --adopt"):
		return []act{{Label: "Adopt…", Href: "/confirm?" + query("action", "rebase", "route", route, "adopt", "yes"), Role: operate.RoleAdmin}}
	case strings.Contains(stopped, rebase):
		return []act{{Label: "Rebase…", Href: "/confirm?" + query("action", "rebase", "route", route), Role: operate.RoleAdmin}}
	}
	return nil
}
