package config

import (
	"reflect"
	"slices"
)

// Changes is how a configuration differs from another one, where that is little enough for a running relay to continue with all else.
type Changes struct {
	Polls map[string]Poll // the new sections poll of sources, by name

	Routes []string // that are new, or that differ, they or their destinations
	Gone   []string // routes that are no longer configured

	Sources []string // that those routes read, or have read
}

// Since returns how the configuration differs from a former one. It returns false if nothing differs, and where a relay has to begin anew: no
// route stays, a source gets its first route or loses its last one, a route shows its progress to others, the first or last route is traced,
// a file that both name has other contents, or anything but sections poll, destinations and routes differs. The order of lines does not
// count.
func (cfg *Config) Since(former *Config) (c Changes, ok bool) {
	was, rest := former.withoutPolls()
	is, now := cfg.withoutPolls()
	if !reflect.DeepEqual(rest, now) || cfg.files.Differ(former.files) {
		return c, false
	}
	c.Polls = map[string]Poll{}
	for name, poll := range is {
		if poll != was[name] {
			c.Polls[name] = poll
		}
	}
	before := map[string]*Route{}
	for i := range former.Routes {
		before[former.Routes[i].Name] = &former.Routes[i]
	}
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		old := before[r.Name]
		delete(before, r.Name)
		if old != nil && reflect.DeepEqual(former.with(old), cfg.with(r)) {
			continue
		}
		c.Routes, c.Sources = append(c.Routes, r.Name), append(c.Sources, r.From)
		if old != nil {
			c.Sources = append(c.Sources, old.From)
		}
	}
	for name, old := range before {
		c.Gone, c.Sources = append(c.Gone, name), append(c.Sources, old.From)
	}
	slices.Sort(c.Gone)
	slices.Sort(c.Sources)
	c.Sources = slices.Compact(c.Sources)
	if len(c.Routes)+len(c.Gone) == 0 {
		return c, len(c.Polls) > 0
	}
	return c, len(c.Routes) < len(cfg.Routes) && reflect.DeepEqual(former.common(), cfg.common())
}

// withoutPolls separates what a running relay can change, the sections poll, routes and destinations, from the rest of a configuration.
func (cfg *Config) withoutPolls() (polls map[string]Poll, rest *Config) {
	polls, rest = map[string]Poll{}, new(*cfg)
	rest.Warnings, rest.Notes, rest.files, rest.Routes, rest.Destinations, rest.Sources = nil, nil, nil, nil, nil, map[string]Source{}
	for name, source := range cfg.Sources {
		if t, ok := source.(tabled); ok {
			polls[name], source = t.shared().Poll, withoutPoll(t)
		}
		rest.Sources[name] = source
	}
	return polls, rest
}

// destined is a route with its destinations.
type destined struct {
	route      Route
	to, poison Destination
}

func (cfg *Config) with(r *Route) destined {
	d := destined{*r, cfg.Destinations[r.To], nil}
	d.route.Targets = nil // To is one of them
	d.poison = cfg.Destinations[r.Poison()]
	return d
}

// common is what the routes of a configuration have in common.
type common struct {
	sources map[string]bool // that are read
	traced  bool
	shown   []Route // that show their progress
}

func (cfg *Config) common() common {
	c := common{sources: map[string]bool{}}
	for _, r := range cfg.Routes {
		c.sources[r.From] = true
		c.traced = c.traced || slices.ContainsFunc(r.Middleware, func(m Middleware) bool { _, ok := m.(*Tracing); return ok })
		if r.Progress != nil {
			c.shown = append(c.shown, r)
		}
	}
	return c
}
