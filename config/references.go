package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters/layout"
)

// check looks at what holds between the parts: names, and what a route's
// source and destination can do.
func (cfg *Config) check(c *checker, at place) {
	cfg.checkStateURL(c, at.child("state"))
	cfg.checkStateSchema(c, at.child("state"))
	cfg.statisticsAsPreset(at.child("statistics"))
	usedSources, usedDestinations := map[string]bool{}, map[string]bool{}
	names, rows := map[string]place{}, map[progressRow]string{}
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		route := at.child("routes").child(r.Name)
		c.reference(route.child("from"), "source", r.From, at.child("sources"))
		cfg.checkFedOnce(c, route.child("from"), r, usedSources[r.From])
		usedSources[r.From] = true
		for j, to := range r.Targets {
			c.reference(route.child("to").item(j), "destination", to, at.child("destinations"))
			usedDestinations[to] = true
		}
		cfg.globalAsPreset(route, r)
		windowOfOrder(route, r)
		cfg.checkProgress(c, route, r, rows)
		cfg.checkPace(c, route, r)
		cfg.checkGlobalBatch(c, route, r)
		cfg.layersAsPreset(c, route, r)
		cfg.retryAsWebhook(route, r)
		cfg.checkPoison(c, at, route, r, usedDestinations)
		cfg.checkRoute(c, route, r)
		expandedNames(c, route, r, names)
	}
	c.unused(at.child("sources"), "source", usedSources)
	c.unused(at.child("destinations"), "destination", usedDestinations)
	cfg.checkStore(c, at, usedSources)
	cfg.checkClaimless(c, at.child("sources"))
}

// checkClaimless refuses a second source of a table in which nothing says who has a row: both would deliver it.
func (cfg *Config) checkClaimless(c *checker, at place) {
	type table struct{ database, name string }
	known := map[table]string{}
	for _, e := range at.entries() {
		p, ok := tableOf(cfg.Sources[e.key.text])
		if !ok {
			continue
		}
		if preset := layout.Find(p.layout); preset == nil || preset.Queue == nil || !preset.Queue.Claimless() {
			continue
		}
		of := table{p.database, string(*p.table)}
		if other, taken := known[of]; taken {
			c.add(at.child(e.key.text).key(), "source %s reads the table %s, too, and both would deliver each row, because rows are not marked as being processed",
				other, *p.table).hint("use one source, with several routes")
		}
		known[of] = e.key.text
	}
}

// known are the names given in a section, also those whose content is wrong:
// a reference to them is right.
func known(section place) []string {
	var names []string
	for _, e := range section.entries() {
		names = append(names, e.key.text)
	}
	return names
}

// reference reports a name that nothing in a section has.
func (c *checker) reference(at place, what, name string, section place) {
	names := known(section)
	if name == "" || !section.found || slices.Contains(names, name) {
		return // an empty name and a missing section have been reported
	}
	e := c.add(at, "no %s is named %s", what, at.node.quote())
	if near := nearest(name, names); near != "" {
		e.hint("did you mean %q?", near)
	} else {
		e.hint("known %ss: %s", what, listNames(names))
	}
}

// unused warns about parts that no route uses.
func (c *checker) unused(section place, what string, used map[string]bool) {
	for _, e := range section.entries() {
		if !used[e.key.text] {
			c.warn(section.child(e.key.text).key(), "no route uses this %s", what).hint("remove it, or name it in a route")
		}
	}
}

// checkPoison looks at the destination that dead messages go to.
func (cfg *Config) checkPoison(c *checker, at, route place, r *Route, used map[string]bool) {
	for _, m := range r.Middleware {
		p, ok := m.(*Poison)
		if !ok || p == nil || p.To == "" {
			continue
		}
		item, _ := layerPlace(route, "poison")
		to := item.child("poison").child("to")
		c.reference(to, "destination", p.To, at.child("destinations"))
		used[p.To] = true
		cfg.checkTopics(c, to, r, p.To)
		if slices.Contains(r.Targets, p.To) {
			c.add(to, "dead messages cannot go to %s, where the route's messages go: it has just failed to take them", to.node.quote()).
				hint("name another destination, for example a topic for dead messages")
		}
	}
}

// checkTopics refuses a route whose rows would choose among all topics of a cluster.
func (cfg *Config) checkTopics(c *checker, at place, r *Route, to string) {
	k, ok := cfg.Destinations[to].(*Kafka)
	if !ok || k == nil || !k.Topic.chosenByRows() || len(k.Topics) > 0 || len(r.Match.Types) > 0 {
		return
	}
	c.add(at, "the topic of %s is a template, so the writer of a row can choose any topic of the cluster", at.node.quote()).
		hint("give the route match: {types: [...]}, or the destination topics: [...]")
}

// checkRoute refuses what the route's source or destinations cannot do.
func (cfg *Config) checkRoute(c *checker, at place, r *Route) {
	for i, to := range r.Targets {
		place := at.child("to")
		if len(r.Targets) > 1 {
			place = place.item(i)
		}
		cfg.checkTopics(c, place, r, to)
		cfg.checkCircle(c, place, r, to)
	}
	src := cfg.Sources[r.From]
	if src != nil && !src.log() {
		what := kindOf(src)
		if len(r.Targets) > 1 {
			c.add(at.child("to"), "a message of a %s can go to one destination only: it is acknowledged once", what).
				hint("keep one destination, or read from an append-only outbox table")
		}
		if r.Start.Kind != "beginning" {
			c.add(at.child("start"), "a %s has no start position", what).hint("remove the key")
		}
		if queued(src) && r.Order == "global" {
			c.add(at.child("order"), "rows of a queue table are claimed, not read by position").hint("use order: group")
		}
		if queued(src) {
			checkHold(c, at, r)
		}
	}
	checkOffsets(c, at.child("start"), r, src)
	if p, ok := src.(*Postgres); ok && p != nil && p.withoutGroup() && r.Order == "group" {
		c.warn(at.child("from"), "messages of a %s table have no group unless their metadata names one, and then no order", p.Preset().Title).
			hint("%sset order: global for the order of the whole table", p.groupHint())
	}
	if r.Order != "global" {
		return
	}
	for i, to := range r.Targets {
		if !static(cfg.Destinations[to]) {
			c.warn(at.child("order"), "global order is kept per address, and %s renders one for each message",
				at.child("to").item(i).node.quote()).
				hint("give the destination a fixed address, or use order: group")
		}
	}
}

// withoutGroup reports whether the table has no column for groups, and nothing else is said to hold them.
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
func checkHold(c *checker, at place, r *Route) {
	for _, m := range r.Middleware {
		if p, ok := m.(*Poison); ok && p != nil && p.Then == "hold" {
			item, _ := layerPlace(at, "poison")
			c.add(item, "then: hold cannot hold a group of a queue table, which has no status for it").hint("use then: continue")
		}
	}
}

// queued reports whether a source is a queue table in a database, which keeps the
// state as well.
func queued(src Source) bool {
	p, ok := tableOf(src)
	return ok && p.queued()
}

// static reports whether all messages go to the same address.
func static(d Destination) bool {
	switch d := d.(type) {
	case *Kafka:
		return d.Topic.Static()
	case *HTTP:
		return d.URL.Static() && d.Preset == ""
	case *Webhook:
		return d.URL.Static()
	case *Publisher:
		return d.Topic.Static()
	}
	return true
}

// expandedNames reports routes whose names meet once lists are written out.
func expandedNames(c *checker, at place, r *Route, names map[string]place) {
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
			c.add(at.key(), "makes a route of the same name as line %d does", other.key().node.line).
				hint("rename one of them; a list in to: makes routes named ROUTE-DESTINATION")
		}
		names[name] = at
	}
}

// checkFedOnce refuses a second route of a source whose messages have one verdict.
func (cfg *Config) checkFedOnce(c *checker, at place, r *Route, fed bool) {
	switch s := cfg.Sources[r.From].(type) {
	case *HTTPSource:
		fed = fed && s != nil
	case *Postgres:
		fed = fed && s != nil && s.Stock()
	default:
		fed = false
	}
	if fed {
		c.add(at, "source %s has a route already, and each of its messages has one verdict", at.node.quote()).
			hint("declare another source for this route")
	}
}

// checkOffsets refuses to start at the offsets of a table that has none.
func checkOffsets(c *checker, at place, r *Route, src Source) {
	if p, ok := src.(*Postgres); r.Start.Kind == "offsets" && src != nil && src.log() && (!ok || p.Layout != "watermill") {
		c.add(at, "only a table of watermill-sql has offsets").hint("use beginning, end or a time")
	}
}

// kindOf is what a source without a cursor is called.
func kindOf(src Source) string {
	if p, ok := src.(*Postgres); ok && p.Stock() {
		return "source with client watermill"
	}
	if queued(src) {
		return "queue table"
	}
	return src.Kind()
}

// stateful reports whether the state can stand beside the source.
func stateful(src Source) bool {
	_, ok := tableOf(src)
	_, documents := src.(*MongoDB)
	return ok && !documents
}

// checkStore makes sure that every route has a place for its state: a source
// with a database of its own keeps it there.
func (cfg *Config) checkStore(c *checker, at place, used map[string]bool) {
	if !cfg.State.URL.IsZero() || at.child("state").has("url_file") {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		src := cfg.Sources[name] // nil: reported where it was read or named
		if src != nil && !src.log() && !stateful(src) {
			where := at.child("sources").child(name).key()
			c.add(where, "a %s source needs a state store", src.Kind()).hint("set state: {url: ...}, a postgres:// or mysql:// URL or the path of an SQLite file")
		}
	}
}

// checkStateSchema refuses a schema where no state is in PostgreSQL, and one whose
// tables PostgreSQL would hide behind its own.
func (cfg *Config) checkStateSchema(c *checker, at place) {
	if cfg.State.Schema == "" {
		return
	}
	name, where := cfg.State.Schema.Exact(), at.child("schema")
	if strings.HasPrefix(name, "pg_") || name == "information_schema" {
		c.add(where, "is a schema of PostgreSQL's own").hint("name another, such as outrider")
	}
	inPostgres := cfg.State.URL.Scheme() != "" && !isMySQL(cfg.State.URL)
	if cfg.State.URL.IsZero() {
		inPostgres = at.has("url_file")
		for _, s := range cfg.Sources {
			_, beside := s.(*Postgres)
			inPostgres = inPostgres || beside || s == nil // nil: reported where it was read
		}
	}
	if !inPostgres {
		c.add(where.key(), "belongs to state in PostgreSQL, and there is none").hint("remove it; SQLite has no schemas, and MySQL calls its databases so: the url names one")
	}
}

// checkStateURL accepts a URL of PostgreSQL or MySQL, or a path.
func (cfg *Config) checkStateURL(c *checker, at place) {
	switch {
	case isMySQL(cfg.State.URL):
		c.mysqlURL(at.child("url"), cfg.State.URL)
		c.mysqlTLS(at, cfg.State.URL, &cfg.State.TLS)
	case !cfg.State.URL.IsZero() && cfg.State.URL.Scheme() != "":
		c.postgresURL(at.child("url"), cfg.State.URL, ", nor a mysql:// one, or the path of an SQLite file")
		c.postgresTLS(at, cfg.State.URL, &cfg.State.TLS)
	case cfg.State.TLS.given():
		c.add(at.child("tls").key(), "belongs to a postgres:// or mysql:// url").hint("remove it; state beside a source uses that source's tls")
	}
}
