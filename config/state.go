package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/config/internal/form"
)

// StateTLS is how the connections to the state at a location are encrypted: as the section state says if it names
// a database, otherwise as the source whose database has it.
func (cfg *Config) StateTLS(location string) (t TLS) {
	if !cfg.State.URL.IsZero() {
		return cfg.State.TLS
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		if of := cfg.Sources[name].traits(); of.state != nil && of.tls != nil && of.database == location {
			return *of.tls
		}
	}
	return t
}

// stateKind is a kind of database that can hold the state.
type stateKind struct {
	schemes []string // of its URLs
	schemas bool     // tables are in schemas

	// check checks url and tls; otherwise is added to the error of a URL that is not its own.
	check func(c *form.Checker, at form.Location, s *State, otherwise string)
}

// stateKinds are those of sources that a URL leads to. A URL that leads to none is reported by the first.
func stateKinds() (kinds []*stateKind) {
	for _, k := range sources.Kinds {
		if src, ok := k.Zero.(Source); ok && src.traits().state != nil && src.traits().state.schemes != nil {
			kinds = append(kinds, src.traits().state)
		}
	}
	return kinds
}

// stateURLs names the URLs of kinds for messages.
func stateURLs(kinds []*stateKind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.schemes[0]+"://")
	}
	return strings.Join(names, " or ")
}

// kind is the kind of database that the section names; nil: it names none.
func (s *State) kind() *stateKind {
	scheme := s.URL.Scheme()
	if s.URL.IsZero() {
		return nil
	}
	if scheme == "" {
		return &sqliteState
	}
	kinds := stateKinds()
	return kinds[max(slices.IndexFunc(kinds, func(k *stateKind) bool { return slices.Contains(k.schemes, scheme) }), 0)]
}

// checkState checks the section state.
func (cfg *Config) checkState(c *form.Checker, at form.Location) {
	kind := cfg.State.kind()
	if kind != nil && kind.check != nil {
		kind.check(c, at, &cfg.State, ", nor a "+stateURLs(stateKinds()[1:])+" one, or the path of an SQLite file")
	} else if cfg.State.TLS.given() {
		c.Add(at.Child("tls").Key(), "belongs to a %s url", stateURLs(stateKinds())).Fix("remove it; state beside a source uses that source's tls")
	}
	if cfg.State.Schema != "" {
		cfg.checkStateSchema(c, at, kind)
	}
}

// checkStateSchema refuses a schema where no state is in PostgreSQL, and one whose
// tables PostgreSQL would hide behind its own.
func (cfg *Config) checkStateSchema(c *form.Checker, at form.Location, kind *stateKind) {
	name, where := cfg.State.Schema.Exact(), at.Child("schema")
	if strings.HasPrefix(name, "pg_") || name == "information_schema" {
		c.Add(where, "is a schema of PostgreSQL's own").Fix("name another, such as outrider")
	}
	hasSchemas := kind != nil && kind.schemas || kind == nil && at.Has("url_file")
	if kind == nil {
		for _, s := range cfg.Sources {
			hasSchemas = hasSchemas || s == nil || s.traits().state != nil && s.traits().state.schemas // nil: reported where it was read
		}
	}
	if !hasSchemas {
		c.Add(where.Key(), "belongs to state in PostgreSQL, and there is none").Fix("remove it; SQLite has no schemas, and MySQL calls its databases so: the url names one")
	}
}

// checkStore makes sure that every route has a place for its state: a source
// with a database of its own keeps it there.
func (cfg *Config) checkStore(c *form.Checker, at form.Location, used map[string]bool) {
	if !cfg.State.URL.IsZero() || at.Child("state").Has("url_file") {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		src := cfg.Sources[name] // nil: reported where it was read or named
		if src != nil && src.traits().state == nil {
			where := at.Child("sources").Child(name).Key()
			c.Add(where, "a %s source needs a state store", src.Kind()).Fix("set state: {url: ...}, a %s URL or the path of an SQLite file", stateURLs(stateKinds()))
		}
	}
}
