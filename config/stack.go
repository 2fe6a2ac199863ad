package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/config/internal/form"
)

// stackOrder is where added layers go, outermost first (docs/middleware.md).
var stackOrder = []string{"metrics", "tracing", "dedupe", "throttle", "poison", "retry", "timeout", "breaker"}

// withAdded returns the default stack with layers added at their places. One of a kind that the stack has replaces it.
func withAdded(added []Middleware) []Middleware {
	stack := slices.DeleteFunc(slices.Clone(added), func(m Middleware) bool { return m == nil }) // reported where it was read
	for _, m := range DefaultMiddleware() {
		if !has(stack, m.Kind()) {
			stack = append(stack, m)
		}
	}
	slices.SortStableFunc(stack, func(a, b Middleware) int {
		return slices.Index(stackOrder, a.Kind()) - slices.Index(stackOrder, b.Kind())
	})
	return stack
}

// has reports whether a stack has a layer of a kind.
func has(stack []Middleware, kind string) bool {
	return slices.ContainsFunc(stack, func(m Middleware) bool { return m != nil && m.Kind() == kind })
}

// layerLocation is the location of a layer in a route's list; listed is false if the list does not have it.
func layerLocation(route form.Location, kind string) (at form.Location, listed bool) {
	list := route.Child("middleware")
	if list.IsMapping() {
		list = list.Child(form.AddKey)
	}
	for i := range list.Len() {
		if item := list.Item(i); item.Text() == kind || item.Has(kind) {
			return item, true
		}
	}
	return list, false
}

// bare reports whether a route's file has nothing of a layer but its name.
func bare(route form.Location, kind string) bool {
	at, listed := layerLocation(route, kind)
	return !listed || len(at.Child(kind).Keys()) == 0
}

// layersAsPreset gives layers that the file only names the values of the preset of the route's source.
func (cfg *Config) layersAsPreset(c *form.Checker, at form.Location, r *Route) {
	table, ok := tableOf(cfg.Sources[r.From])
	var preset *layout.Preset
	if ok {
		preset = table.Preset()
	}
	if preset == nil || preset.Defaults.Retry == nil {
		leftOut(c, at, r, nil)
		return
	}
	d := preset.Defaults.Retry
	retry := Retry{Attempts: d.Attempts, Base: Duration(d.Base), Max: Duration(d.Max), Jitter: d.Jitter, Growth: exponential}
	if d.Linear {
		retry.Growth = linear
	}
	if d.NextPoll { // a poll that is more frequent than the preset's must not shorten the pause
		pause := max(Duration(d.Base)-table.Poll.Min, Duration(time.Millisecond))
		retry.Base, retry.Max = pause, pause
	}
	for _, m := range r.Middleware {
		switch of := m.(type) {
		case *Retry:
			if bare(at, "retry") {
				*of = retry
			} else if item, _ := layerLocation(at, "retry"); !item.Child("retry").Has("attempts") && d.Attempts != of.Attempts {
				c.Note(item.Child("retry").Key(), "%d attempts are made; without keys retry has the %d of layout %s", of.Attempts, d.Attempts, preset.Name).
					Fix("add attempts: %d", d.Attempts)
			}
		case *Poison:
			if d.Hold && bare(at, "poison") && r.Order != "none" {
				of.Then = hold
			}
		}
	}
	lost := map[string]string{}
	if usual := form.WithDefaults(&Retry{}); usual.Attempts != d.Attempts {
		lost["retry"] = fmt.Sprintf("; without retry a message is dead after %d attempts, with that of layout %s after %d", usual.Attempts, preset.Name, d.Attempts)
	}
	if d.Hold {
		lost["poison"] = "; without poison the group of a dead message continues, with that of layout " + preset.Name + " it is held"
	}
	leftOut(c, at, r, lost)
}

// leftOut reports which layers of the default stack a list leaves out; lost has what of the layout is lost by that.
func leftOut(c *form.Checker, at form.Location, r *Route, lost map[string]string) {
	var names []string
	report, why := c.Note, ""
	for _, m := range DefaultMiddleware() {
		if kind := m.Kind(); !has(r.Middleware, kind) {
			names = append(names, kind)
			if lost[kind] != "" {
				report, why = c.Warn, why+lost[kind]
			}
		}
	}
	if len(names) == 0 {
		return
	}
	all := strings.Join(names, ", ")
	report(at.Child("middleware").Key(), "leaves out %s of the default stack%s", all, why).
		Fix("to add to the default stack, write middleware: {add: [...]}; or name %s in the list", all)
}
