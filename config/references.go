package config

import (
	"cmp"
	"slices"

	"github.com/outriderhq/outrider/config/internal/form"
)

// check checks what depends on several sections: names, and what a route's
// source and destination can do.
func (cfg *Config) check(c *form.Checker, at form.Location) {
	cfg.checkState(c, at.Child("state"))
	cfg.statisticsAsPreset(at.Child("statistics"))
	usedSources, usedDestinations := map[string]bool{}, map[string]bool{}
	names, rows := map[string]form.Location{}, map[progressRow]string{}
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		route := at.Child("routes").Child(r.Name)
		checkReference(c, route.Child("from"), "source", r.From, at.Child("sources"))
		cfg.checkFedOnce(c, route.Child("from"), r, usedSources[r.From])
		usedSources[r.From] = true
		for j, to := range r.Targets {
			checkReference(c, route.Child("to").Item(j), "destination", to, at.Child("destinations"))
			usedDestinations[to] = true
		}
		cfg.globalAsPreset(route, r)
		windowOfOrder(route, r)
		cfg.checkProgress(c, route, r, rows)
		cfg.checkRoutePoll(c, route, r)
		cfg.checkGlobalBatch(c, route, r)
		cfg.layersAsPreset(c, route, r)
		cfg.retryAsWebhook(route, r)
		cfg.checkPoison(c, at, route, r, usedDestinations)
		cfg.checkRoute(c, route, r)
		expandedNames(c, route, r, names)
	}
	checkUnused(c, at.Child("sources"), "source", usedSources)
	checkUnused(c, at.Child("destinations"), "destination", usedDestinations)
	cfg.checkStore(c, at, usedSources)
	cfg.checkClaimless(c, at.Child("sources"))
}

// checkClaimless refuses a second source of a table in which rows are not marked as claimed: both would deliver them.
func (cfg *Config) checkClaimless(c *form.Checker, at form.Location) {
	type table struct{ database, name string }
	known := map[table]string{}
	for _, name := range at.Keys() {
		src, ok := cfg.Sources[name].(tabled)
		if !ok {
			continue
		}
		if preset := src.shared().Preset(); preset == nil || preset.Queue == nil || !preset.Queue.Claimless() {
			continue
		}
		of := table{src.traits().database, string(src.shared().Table)}
		if other, taken := known[of]; taken {
			c.Add(at.Child(name).Key(), "source %s reads the table %s, too, and both would deliver each row, because rows are not marked as being processed",
				other, of.name).Fix("use one source, with several routes")
		}
		known[of] = name
	}
}

// checkReference reports a name that nothing in a section has.
func checkReference(c *form.Checker, at form.Location, what, name string, section form.Location) {
	names := section.Keys() // also those whose content is wrong: a reference to them is right
	if name == "" || !section.Found() || slices.Contains(names, name) {
		return // an empty name and a missing section have been reported
	}
	e := c.Add(at, "no %s is named %s", what, at.Quote())
	if near := form.Nearest(name, names); near != "" {
		e.Fix("did you mean %q?", near)
	} else {
		e.Fix("known %ss: %s", what, form.ListNames(names))
	}
}

// checkUnused warns about parts that no route uses.
func checkUnused(c *form.Checker, section form.Location, what string, used map[string]bool) {
	for _, name := range section.Keys() {
		if !used[name] {
			c.Warn(section.Child(name).Key(), "no route uses this %s", what).Fix("remove it, or name it in a route")
		}
	}
}

// checkPoison checks the destination of dead messages.
func (cfg *Config) checkPoison(c *form.Checker, at, route form.Location, r *Route, used map[string]bool) {
	for _, m := range r.Middleware {
		p, ok := m.(*Poison)
		if !ok || p == nil || p.To == "" {
			continue
		}
		item, _ := layerLocation(route, "poison")
		to := item.Child("poison").Child("to")
		checkReference(c, to, "destination", p.To, at.Child("destinations"))
		used[p.To] = true
		cfg.checkChoice(c, to, r, p.To)
		if slices.Contains(r.Targets, p.To) {
			c.Add(to, "dead messages cannot go to %s, where the route's messages go: it has just failed to take them", to.Quote()).
				Fix("name another destination, for example a topic for dead messages")
		}
	}
}

// checkRoute refuses what the route's source or destinations cannot do.
func (cfg *Config) checkRoute(c *form.Checker, at form.Location, r *Route) {
	for i, to := range r.Targets {
		target := at.Child("to")
		if len(r.Targets) > 1 {
			target = target.Item(i)
		}
		cfg.checkChoice(c, target, r, to)
		cfg.checkCircle(c, target, r, to)
	}
	src := cfg.Sources[r.From]
	if src != nil && !src.traits().log {
		what := kindOf(src)
		if len(r.Targets) > 1 {
			c.Add(at.Child("to"), "a message of a %s can go to one destination only: it is acknowledged once", what).
				Fix("keep one destination, or read from an append-only outbox table")
		}
		if r.Start.Kind != "beginning" {
			c.Add(at.Child("start"), "a %s has no start position", what).Fix("remove the key")
		}
		cfg.checkOnce(c, at.Child("to"), r, what)
		if queued(src) && r.Order == "global" {
			c.Add(at.Child("order"), "rows of a queue table are claimed, not read by position").Fix("use order: group")
		}
		if queued(src) {
			checkHold(c, at, r)
		}
	}
	if k, ok := src.(*KafkaSource); ok && k != nil && r.Order == "global" {
		c.Add(at.Child("order"), "each partition of a topic has an order of its own").Fix("use order: group")
	}
	checkOffsets(c, at.Child("start"), r, src)
	if p, ok := src.(*Postgres); ok && p != nil && p.withoutGroup() && r.Order == "group" {
		c.Warn(at.Child("from"), "messages of a %s table have no group unless their metadata names one, and then no order", p.Preset().Title).
			Fix("%sset order: global for the order of the whole table", p.groupHint())
	}
	if r.Order != "global" {
		return
	}
	for i, to := range r.Targets {
		if !static(cfg.Destinations[to]) {
			c.Warn(at.Child("order"), "global order is kept per address, and %s renders one for each message",
				at.Child("to").Item(i).Quote()).
				Fix("give the destination a fixed address, or use order: group")
		}
	}
}

// checkOnce refuses exactly once of messages that have no position by which they could be recognised.
func (cfg *Config) checkOnce(c *form.Checker, at form.Location, r *Route, what string) {
	for _, to := range r.Targets {
		if k, ok := cfg.Destinations[to].(*Kafka); ok && k != nil && k.ExactlyOnce {
			c.Add(at, "exactly_once of %s needs a source that is read by position, which a %s is not", to, what).
				Fix("read from an append-only outbox table or a topic, or use a destination without exactly_once")
		}
	}
}

// withoutGroup reports whether neither a column of the table nor a key of its metadata has the group.
func (p *Postgres) withoutGroup() bool {
	preset := p.Preset()
	return preset != nil && preset.Log != nil && preset.Log.Columns.Group == "" && p.Metadata.Group == ""
}

// groupHint is how messages of such a table get a group, where they can.
func (p *Postgres) groupHint() string {
	if hasHeaders(p.Preset()) {
		return "name the key in the source's metadata: {group: KEY}, or "
	}
	return ""
}

// checkHold refuses to hold groups of a queue table: it has no status for that,
// and other programs that use the table would not know.
func checkHold(c *form.Checker, at form.Location, r *Route) {
	for _, m := range r.Middleware {
		if p, ok := m.(*Poison); ok && p != nil && p.Then == "hold" {
			item, _ := layerLocation(at, "poison")
			c.Add(item, "then: hold cannot hold a group of a queue table, which has no status for it").Fix("use then: continue")
		}
	}
}

// queued reports whether a source is a queue table in a database, which keeps the
// state as well.
func queued(src Source) bool {
	p, ok := tableOf(src)
	return ok && p.Queued()
}

// static reports whether all messages go to the same address.
func static(d Destination) bool {
	t, ok := d.(interface{ static() bool })
	return !ok || t.static()
}

// expandedNames reports routes whose names meet once lists are written out.
func expandedNames(c *form.Checker, at form.Location, r *Route, names map[string]form.Location) {
	targets := []string{r.Name}
	if len(r.Targets) > 1 {
		targets = nil
		for _, to := range r.Targets {
			targets = append(targets, r.Name+"-"+to)
		}
	}
	slices.Sort(targets) // a destination listed twice is reported elsewhere
	for _, name := range slices.Compact(targets) {
		if other, taken := names[name]; taken {
			c.Add(at.Key(), "makes a route of the same name as line %d does", other.Key().Line()).
				Fix("rename one of them; a list in to: makes routes named ROUTE-DESTINATION")
		}
		names[name] = at
	}
}

// checkFedOnce refuses a second route of a source whose messages have one verdict.
func (cfg *Config) checkFedOnce(c *form.Checker, at form.Location, r *Route, fed bool) {
	if src := cfg.Sources[r.From]; fed && src != nil && src.traits().oneRoute {
		c.Add(at, "source %s has a route already, and each of its messages has one verdict", at.Quote()).
			Fix("declare another source for this route")
	}
}

// checkOffsets refuses to start at the offsets of a table that has none.
func checkOffsets(c *form.Checker, at form.Location, r *Route, src Source) {
	if r.Start.Kind == "offsets" && src != nil && src.traits().log && !src.traits().offsets {
		c.Add(at, "only a table of watermill-sql has offsets").Fix("use beginning, end or a time")
	}
}

// kindOf names a source without a cursor in messages.
func kindOf(src Source) string {
	if queued(src) {
		return "queue table"
	}
	return cmp.Or(src.traits().noun, src.Kind())
}
