package config

import (
	"regexp"
	"time"

	"github.com/outriderhq/outrider/config/internal/form"
)

// Route is one way from a source to a destination. After loading each has
// exactly one destination.
type Route struct {
	Name       string       `yaml:",key"`
	From       string       `yaml:"from" required:"true" doc:"Name of a source."`
	Match      Match        `yaml:"match" doc:"Conditions on messages, all of which must hold. Default: all messages."`
	Targets    []string     `yaml:"to" required:"true" min:"1" single:"true" doc:"Name of a destination. A list is short for one route per destination, named ROUTE-DESTINATION."`
	Order      string       `yaml:"order" enum:"group|global|none" default:"group" doc:"Order that is kept: within each group, of all messages, or none. With layout {layouts in global order} the default is global."`
	Start      Start        `yaml:"start" default:"beginning" doc:"Where a new route begins: beginning, end, an RFC 3339 time or, with layout watermill, offsets: after the messages acknowledged by the source's consumer_group (docs/migrate/watermill.md). Ignored once the route has a cursor."`
	Poll       *RoutePoll   `yaml:"poll" doc:"Poll interval of this route, if longer than that of its source. For append-only tables only. Default: each poll of the source."`
	Progress   *Progress    `yaml:"progress" doc:"With a source of layout {layouts with progress}: the row in its progress_table that shows the route's progress, and by which SQL can pause, resume, reset and move it. See docs/crablet.md."`
	Window     int          `yaml:"window" default:"1024" min:"1" max:"16384" doc:"Most messages of one lane in flight. A route has 16 lanes; with order: global it has one, and the default is 4096."`
	Middleware []Middleware `yaml:"middleware" doc:"Middleware around the delivery, outermost first; {add: [...]} adds to the default. Default: poison, retry, timeout. With a named layout, retry and poison without keys are those of the original (docs/layouts.md)."`

	// To is the destination: one of Targets.
	To string `yaml:"-"`
}

// Poison is the name of the destination that dead messages go to; empty: none.
func (r *Route) Poison() string {
	for _, m := range r.Middleware {
		if p, ok := m.(*Poison); ok {
			return p.To
		}
	}
	return ""
}

// Match selects messages. A key that is not given matches everything.
type Match struct {
	Types          []Glob   `yaml:"types" min:"1" doc:"Event types; one must match."`
	AggregateTypes []Glob   `yaml:"aggregate_types" min:"1" doc:"Aggregate types; one must match."`
	Tenants        []Glob   `yaml:"tenants" min:"1" doc:"Tenant ids; one must match."`
	Tags           TagMatch `yaml:"tags" doc:"Tags of the message."`
	Headers        TagMatch `yaml:"headers" doc:"Headers of the message, by the same conditions as tags."`
}

// TagMatch selects by tags.
type TagMatch struct {
	All []Tag `yaml:"all" min:"1" doc:"All of these tags must be present, as KEY or KEY=VALUE."`
	Any []Tag `yaml:"any" min:"1" doc:"One of these tags must be present, as KEY or KEY=VALUE."`
}

// Event has the values that a route can match.
type Event struct {
	Type, AggregateType, Tenant string
	Tags, Headers               map[string]string
}

// Matches reports whether the route takes the message.
func (m Match) Matches(e Event) bool {
	return anyGlob(m.Types, e.Type) && anyGlob(m.AggregateTypes, e.AggregateType) &&
		anyGlob(m.Tenants, e.Tenant) && m.Tags.matches(e.Tags) && m.Headers.matches(e.Headers)
}

func anyGlob(globs []Glob, text string) bool {
	for _, g := range globs {
		if g.Match(text) {
			return true
		}
	}
	return len(globs) == 0
}

func (t TagMatch) matches(tags map[string]string) bool {
	for _, tag := range t.All {
		if !tag.Match(tags) {
			return false
		}
	}
	for _, tag := range t.Any {
		if tag.Match(tags) {
			return true
		}
	}
	return len(t.Any) == 0
}

// routeName keeps names fit for keys of the state store, metric labels and URLs.
var routeName = regexp.MustCompile(`^[a-z0-9_-]{1,48}$`)

func (r *Route) check(c *form.Checker, at form.Location) {
	if !routeName.MatchString(r.Name) {
		c.Add(at.Key(), "%q is not a name for a route", form.Shorten(r.Name)).
			Fix("use at most 48 of a-z, 0-9, _ and -")
	}
	r.checkTargets(c, at.Child("to"))
	switch list := at.Child("middleware"); {
	case !list.Found():
		r.Middleware = DefaultMiddleware()
	case list.IsMapping():
		r.checkStack(c, list.Child(form.AddKey), false)
		r.Middleware = withAdded(r.Middleware)
	default:
		r.checkStack(c, list, true)
	}
}

// checkTargets refuses repetitions, and names that the list would make too long.
func (r *Route) checkTargets(c *form.Checker, at form.Location) {
	seen := map[string]bool{}
	for i, to := range r.Targets {
		if seen[to] && to != "" {
			c.Add(at.Item(i), "%s is listed twice", at.Item(i).Quote()).Fix("remove one of them")
		}
		seen[to] = true
		if name := r.Name + "-" + to; len(r.Targets) > 1 && len(name) > 48 {
			c.Add(at.Item(i), "the list makes a route named ROUTE-DESTINATION, here with %d characters; 48 are allowed", len(name)).
				Fix("shorten the route's or the destination's name")
		}
	}
}

// checkStack refuses stacks that cannot do what they say; ordered is false if the order of the list does not count.
func (r *Route) checkStack(c *form.Checker, at form.Location, ordered bool) {
	first := map[string]int{}
	for i, m := range r.Middleware {
		if m == nil {
			continue // reported where it was read
		}
		kind := m.Kind()
		if before, twice := first[kind]; twice {
			c.Add(at.Item(i), "%s is already in the list, as item %d", kind, before+1).Fix("remove one of them")
			continue
		}
		first[kind] = i
		if _, retried := first["retry"]; retried && ordered && kind == "poison" {
			c.Add(at.Item(i), "poison inside of retry would never see the last attempt").
				Fix("list poison before retry: the outermost comes first")
		}
		if _, broken := first["breaker"]; broken && ordered && kind == "retry" {
			c.Add(at.Item(i), "retry inside of the breaker decides before the breaker can give attempts back").
				Fix("list retry before breaker: the outermost comes first")
		}
		if p, ok := m.(*Poison); ok && p.Then == "hold" && r.Order == "none" {
			c.Add(at.Item(i), "then: hold holds a group back, but with order: none there are no groups").
				Fix("use then: continue, or order: group")
		}
	}
}

// expandRoutes makes one route of each destination of a list.
func expandRoutes(routes []Route) []Route {
	var out []Route
	for _, r := range routes {
		for _, to := range r.Targets {
			one := r
			one.To, one.Targets = to, []string{to}
			if len(r.Targets) > 1 {
				one.Name = r.Name + "-" + to
			}
			out = append(out, one)
		}
	}
	return out
}

// Start is where a new route begins.
type Start struct {
	Kind string    // "beginning", "end", "offsets" or "time"
	Time time.Time // for "time"
}

// Parse implements form.Scalar.
func (s *Start) Parse(text string) error {
	if text == "beginning" || text == "end" || text == "offsets" {
		*s = Start{Kind: text}
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return form.Expected("beginning, end, offsets or a time such as 2026-01-31T08:00:00Z")
	}
	*s = Start{Kind: "time", Time: t}
	return nil
}

// Spelling implements form.Scalar.
func (*Start) Spelling() form.Spelling {
	return form.Spelling{
		Name: "place", Example: "end",
		Pattern: `^(beginning|end|offsets|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2}))$`,
	}
}

// String writes the position as it is read.
func (s Start) String() string {
	if s.Kind == "time" {
		return s.Time.Format(time.RFC3339Nano)
	}
	return s.Kind
}
