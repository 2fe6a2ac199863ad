package flowcatalyst

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/compat/internal/foreign"
)

// writer writes values of variables.
type writer struct {
	*foreign.Writer
	im *importer
}

// currentPrefix begins the canonical names of the variables of FlowCatalyst's current programs.
const currentPrefix = "fcoutbox"

// Names of the variables that mean one thing, the one that goes before the others first.
var (
	currentDatabase = []string{"FC_OUTBOX_SOURCE_DB_URL", "FC_OUTBOX_DB_URL", "FC_DATABASE_URL", "DATABASE_URL"}
	currentPlatform = []string{"FC_OUTBOX_PLATFORM_URL", "FC_OUTBOX_API_URL", "FC_API_BASE_URL", "FLOWCATALYST_URL"}
	currentToken    = []string{"FC_OUTBOX_PLATFORM_AUTH_TOKEN", "FC_OUTBOX_TOKEN", "FC_API_TOKEN"}
	currentGroups   = []string{"FC_OUTBOX_MAX_CONCURRENT_GROUPS", "FC_MAX_CONCURRENT_GROUPS"}
	currentBackend  = []string{"FC_OUTBOX_BACKEND", "FC_OUTBOX_DB_TYPE"}
	currentEnabled  = []string{"FC_OUTBOX_ENABLED", "OUTBOX_PROCESSOR_ENABLED"}
	currentTables   = []string{"FC_OUTBOX_EVENTS_TABLE", "FC_OUTBOX_DISPATCH_JOBS_TABLE", "FC_OUTBOX_AUDIT_LOGS_TABLE"}
)

// isCurrent reports whether the settings are those of a current program.
func (im *importer) isCurrent() bool {
	for key := range im.Settings {
		if strings.HasPrefix(key, currentPrefix) {
			return true
		}
	}
	return false
}

// current writes the configuration of what a current program does with its variables.
func (im *importer) current() string {
	w := writer{im.NewWriter(), im}
	w.Line("# Made by `outrider import flowcatalyst %s`.", filepath.Base(im.Name))
	w.Line("# A comment behind a value names the variable that it comes from. Other settings are defaults of the layout and the preset.")
	im.currentEnabled(w)
	im.currentBackend()
	im.currentAdmin(w)
	w.Line("sources:")
	w.Line("  app:")
	w.Line("    type: postgres")
	im.currentURL(w, "    url", currentDatabase, "", "postgres://127.0.0.1/app")
	w.Line("    layout: flowcatalyst-v2")
	im.currentTable(w)
	w.Line("    delivered: delete # as their current programs do; keep leaves rows with status 1")
	w.Line("    poll:")
	w.current("      batch", "100", foreign.Count, "FC_OUTBOX_BATCH_SIZE")
	pause := w.current("      min", "1000", foreign.Milliseconds, "FC_OUTBOX_POLL_INTERVAL_MS")
	w.Line("      max: %s # the same: the pause never changes", pause)
	w.Line("    claims:")
	w.current("      in_memory", "1000", foreign.Count, "FC_OUTBOX_MAX_IN_FLIGHT")
	w.Line("destinations:")
	w.Line("  platform:")
	w.Line("    type: http")
	w.Line("    preset: flowcatalyst-v2")
	im.currentURL(w, "    url", currentPlatform, "http://localhost:8080", "https://api.example.com")
	im.currentToken(w)
	w.current("    max_requests", "10", foreign.Count, currentGroups...)
	w.Line("routes:")
	w.Line("  outbox: {from: app, to: platform}")
	im.currentRest()
	return w.String()
}

// variable returns the first of the names that is set and not empty. All are used.
func (im *importer) variable(names ...string) (foreign.Setting, bool) {
	var found foreign.Setting
	for _, name := range names {
		im.Use(foreign.Canonical(name))
		if s := im.Settings[foreign.Canonical(name)]; found.Key == "" && s.Value != "" {
			found = s
		}
	}
	return found, found.Key != ""
}

// unmapped returns the first setting of those that have no equivalent, and the names of all that are set.
func (im *importer) unmapped(names ...string) (first foreign.Setting, set string) {
	var all []string
	for _, name := range names {
		if s, ok := im.variable(name); ok {
			all = append(all, s.Key)
			if first.Key == "" {
				first = s
			}
		}
	}
	return first, strings.Join(all, ", ")
}

// current writes a number, and returns it. To them 0 is the default, too.
func (w writer) current(name, def string, convert func(string) (string, error), variables ...string) string {
	text, _ := convert(def)
	s, ok := w.im.variable(variables...)
	if !ok || s.Value == "0" {
		w.Line("%s: %s # %s, default", name, text, variables[0])
		return text
	}
	text, err := convert(s.Value)
	if err != nil {
		w.im.Fail(s, "%s: %q %v", s.Key, s.Value, err)
	}
	w.Line("%s: %s # %s", name, text, s.Key)
	return text
}

// currentURL writes where the tables or the platform are. A URL with a login, and any that their program would expand, stays
// in the environment: Outrider reads the same variable. def empty: there is no default.
func (im *importer) currentURL(w writer, name string, variables []string, def, sample string) {
	s, ok := im.variable(variables...)
	switch {
	case !ok && def == "":
		im.Samples[variables[0]] = sample
		im.Note(foreign.Setting{}, "%s is not in the file: set it to the postgres:// URL of the tables", variables[0])
		w.Line("%s: ${%s}", name, variables[0])
	case !ok:
		w.Line("%s: %s # %s, default", name, foreign.Quoted(def), variables[0])
	case def == "" || strings.ContainsAny(s.Value, "@$"):
		im.Samples[s.Key] = sample
		im.Note(s, "%s stays where it is, it may hold a secret: Outrider reads the environment variable %s; it reads no .env file itself", s.Key, s.Key)
		if u, err := url.Parse(s.Value); def == "" && !strings.HasPrefix(s.Value, "$") && (err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql") {
			im.Note(s, "%s is no postgres:// URL, which Outrider needs", s.Key)
		}
		w.Line("%s: ${%s}", name, s.Key)
	default:
		base := strings.TrimRight(s.Value, "/")
		w.Line("%s: %s # %s", name, foreign.Quoted(base), s.Key)
		if host, plain := strings.CutPrefix(base, "http://"); plain && !local(host) {
			im.Note(s, "%s is http: the token goes to another machine in the clear, which `tls: {enabled: false}` accepts; use https", s.Key)
			w.Line("    tls: {enabled: false} # http, as before")
		}
	}
}

// currentToken writes which variable holds the token, and what there is no equivalent of.
func (im *importer) currentToken(w writer) {
	if s, names := im.unmapped("FC_OUTBOX_CLIENT_ID", "FC_OUTBOX_CLIENT_SECRET", "FC_OUTBOX_TOKEN_URL", "FC_OUTBOX_SCOPE"); names != "" {
		im.Note(s, "%s: Outrider fetches no token from an OAuth server: give it one that lasts in FC_OUTBOX_PLATFORM_AUTH_TOKEN, or in a file that you renew (token_file)", names)
	}
	s, ok := im.variable(currentToken...)
	if !ok {
		w.Line("    token: ${%s:-} # not set", currentToken[0])
		return
	}
	im.Samples[s.Key] = "secret"
	im.Note(s, "%s is a secret and not copied: Outrider reads the environment variable %s", s.Key, s.Key)
	w.Line("    token: ${%s}", s.Key)
}

// currentEnabled reports a processor that is switched off.
func (im *importer) currentEnabled(w writer) {
	s, ok := im.variable(currentEnabled...)
	if !ok || strings.EqualFold(s.Value, "true") || s.Value == "1" {
		return
	}
	im.Note(s, "%s is not true: Outrider has no such switch: do not start it, or pause the route: outrider pause outbox", s.Key)
	w.Line("# %s was not true there: Outrider has no such switch. Start it when it may run.", s.Key)
}

// currentBackend refuses databases whose tables Outrider cannot read.
func (im *importer) currentBackend() {
	mongo, names := im.unmapped("FC_OUTBOX_MONGO_URI", "FC_OUTBOX_MONGO_DB")
	s, ok := im.variable(currentBackend...)
	switch value := strings.ToLower(s.Value); value {
	case "", "postgres", "postgresql":
		if names != "" {
			im.Note(mongo, "%s: without a meaning, the processor works on PostgreSQL", names)
		}
	default:
		if ok {
			im.Fail(s, "%s is %s: Outrider reads the table in PostgreSQL only. Keep their processor", s.Key, value)
		}
	}
}

// currentTable writes the name of the table where it is not outbox_messages. The processor before the current one could read
// a table for each type, which are sources of their own here.
func (im *importer) currentTable(w writer) {
	const usual = "outbox_messages"
	table, from := usual, foreign.Setting{}
	for i, name := range currentTables {
		s, ok := im.variable(name)
		value := usual
		if ok {
			value = s.Value
			from = s
		}
		if i == 0 {
			table = value
		}
		if value != table {
			im.Fail(from, "%s, %s and %s name several tables: write a source with layout flowcatalyst-v2 and a route for each, with its name in `table`",
				currentTables[0], currentTables[1], currentTables[2])
			return
		}
	}
	if table != usual {
		w.Line("    table: %s # %s", foreign.Quoted(table), strings.Join(currentTables, ", "))
	}
}

// currentAdmin writes where operators reach the program.
func (im *importer) currentAdmin(w writer) {
	s, ok := im.variable("FC_OUTBOX_ADMIN_PORT")
	if !ok || s.Value == "0" {
		return
	}
	port, err := strconv.ParseUint(s.Value, 10, 16)
	if err != nil {
		im.Fail(s, "%s: %q is not a port", s.Key, s.Value)
		return
	}
	im.Note(s, "%s: Outrider's API and its paths differ from theirs: docs/api.md", s.Key)
	w.Line("admin: {listen: %q} # %s", "127.0.0.1:"+strconv.FormatUint(port, 10), s.Key)
}

// currentRest notes what is understood and has no key here, and what is not.
func (im *importer) currentRest() {
	if s, ok := im.variable("FC_OUTBOX_BLOCK_ON_ERROR"); ok && !strings.EqualFold(s.Value, "true") && s.Value != "1" {
		im.Note(s, "%s is not true: Outrider always delivers a group in order while a row of it is retried; a row that is given up does not stop its group", s.Key)
	}
}
