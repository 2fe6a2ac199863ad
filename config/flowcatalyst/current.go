package flowcatalyst

import (
	"errors"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

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
	for key := range im.settings {
		if strings.HasPrefix(key, currentPrefix) {
			return true
		}
	}
	return false
}

// current writes the configuration of what a current program does with its variables.
func (im *importer) current() string {
	w := &writer{im: im}
	w.line("# Made by `outrider import flowcatalyst %s`.", filepath.Base(im.name))
	w.line("# A comment behind a value names the variable that it comes from. Other settings are defaults of the layout and the preset.")
	im.currentEnabled(w)
	im.currentBackend()
	im.currentAdmin(w)
	w.line("sources:")
	w.line("  app:")
	w.line("    type: postgres")
	im.currentURL(w, "    url", currentDatabase, "", "postgres://127.0.0.1/app")
	w.line("    layout: flowcatalyst-v2")
	im.currentTable(w)
	w.line("    delivered: delete # as their current programs do; keep leaves rows with status 1")
	w.line("    poll:")
	w.current("      batch", "100", count, "FC_OUTBOX_BATCH_SIZE")
	pause := w.current("      min", "1000", milliseconds, "FC_OUTBOX_POLL_INTERVAL_MS")
	w.line("      max: %s # the same: the pause never changes", pause)
	w.line("    claims:")
	w.current("      in_memory", "1000", count, "FC_OUTBOX_MAX_IN_FLIGHT")
	w.line("destinations:")
	w.line("  platform:")
	w.line("    type: http")
	w.line("    preset: flowcatalyst-v2")
	im.currentURL(w, "    url", currentPlatform, "http://localhost:8080", "https://api.example.com")
	im.currentToken(w)
	w.current("    max_requests", "10", count, currentGroups...)
	w.line("routes:")
	w.line("  outbox: {from: app, to: platform}")
	im.currentRest()
	return w.b.String()
}

// variable returns the first of the names that is set and not empty. All are used.
func (im *importer) variable(names ...string) (setting, bool) {
	var found setting
	for _, name := range names {
		im.used[canonical(name)] = true
		if s := im.settings[canonical(name)]; found.key == "" && s.value != "" {
			found = s
		}
	}
	return found, found.key != ""
}

// unmapped returns the first setting of those that have no equivalent, and the names of all that are set.
func (im *importer) unmapped(names ...string) (first setting, set string) {
	var all []string
	for _, name := range names {
		if s, ok := im.variable(name); ok {
			all = append(all, s.key)
			if first.key == "" {
				first = s
			}
		}
	}
	return first, strings.Join(all, ", ")
}

// current writes a number, and returns it. To them 0 is the default, too.
func (w *writer) current(name, def string, convert func(string) (string, error), variables ...string) string {
	text, _ := convert(def)
	s, ok := w.im.variable(variables...)
	if !ok || s.value == "0" {
		w.line("%s: %s # %s, default", name, text, variables[0])
		return text
	}
	text, err := convert(s.value)
	if err != nil {
		w.im.fail(s, "%s: %q %v", s.key, s.value, err)
	}
	w.line("%s: %s # %s", name, text, s.key)
	return text
}

// milliseconds makes a duration of a number of milliseconds.
func milliseconds(text string) (string, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return "", errors.New("is not a whole number of milliseconds")
	}
	return short(time.Duration(n) * time.Millisecond), nil
}

// currentURL writes where the tables or the platform are. A URL with a login, and any that their program would expand, stays
// in the environment: Outrider reads the same variable. def empty: there is no default.
func (im *importer) currentURL(w *writer, name string, variables []string, def, sample string) {
	s, ok := im.variable(variables...)
	switch {
	case !ok && def == "":
		im.samples[variables[0]] = sample
		im.note(setting{}, "%s is not in the file: set it to the postgres:// URL of the tables", variables[0])
		w.line("%s: ${%s}", name, variables[0])
	case !ok:
		w.line("%s: %s # %s, default", name, quoted(def), variables[0])
	case def == "" || strings.ContainsAny(s.value, "@$"):
		im.samples[s.key] = sample
		im.note(s, "%s stays where it is, it may hold a secret: Outrider reads the environment variable %s; it reads no .env file itself", s.key, s.key)
		if u, err := url.Parse(s.value); def == "" && !strings.HasPrefix(s.value, "$") && (err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql") {
			im.note(s, "%s is no postgres:// URL, which Outrider needs", s.key)
		}
		w.line("%s: ${%s}", name, s.key)
	default:
		base := strings.TrimRight(s.value, "/")
		w.line("%s: %s # %s", name, quoted(base), s.key)
		if host, plain := strings.CutPrefix(base, "http://"); plain && !local(host) {
			im.note(s, "%s is http: the token goes to another machine in the clear, which `tls: {enabled: false}` accepts; use https", s.key)
			w.line("    tls: {enabled: false} # http, as before")
		}
	}
}

// currentToken writes which variable holds the token, and what there is no equivalent of.
func (im *importer) currentToken(w *writer) {
	if s, names := im.unmapped("FC_OUTBOX_CLIENT_ID", "FC_OUTBOX_CLIENT_SECRET", "FC_OUTBOX_TOKEN_URL", "FC_OUTBOX_SCOPE"); names != "" {
		im.note(s, "%s: Outrider fetches no token from an OAuth server: give it one that lasts in FC_OUTBOX_PLATFORM_AUTH_TOKEN, or in a file that you renew (token_file)", names)
	}
	s, ok := im.variable(currentToken...)
	if !ok {
		w.line("    token: ${%s:-} # not set", currentToken[0])
		return
	}
	im.samples[s.key] = "secret"
	im.note(s, "%s is a secret and not copied: Outrider reads the environment variable %s", s.key, s.key)
	w.line("    token: ${%s}", s.key)
}

// currentEnabled reports a processor that is switched off.
func (im *importer) currentEnabled(w *writer) {
	s, ok := im.variable(currentEnabled...)
	if !ok || strings.EqualFold(s.value, "true") || s.value == "1" {
		return
	}
	im.note(s, "%s is not true: Outrider has no such switch. What is not to run is not started, or paused: outrider pause outbox", s.key)
	w.line("# %s was not true there: Outrider has no such switch. Start it when it may run.", s.key)
}

// currentBackend refuses databases whose tables Outrider cannot read.
func (im *importer) currentBackend() {
	mongo, names := im.unmapped("FC_OUTBOX_MONGO_URI", "FC_OUTBOX_MONGO_DB")
	s, ok := im.variable(currentBackend...)
	switch value := strings.ToLower(s.value); value {
	case "", "postgres", "postgresql":
		if names != "" {
			im.note(mongo, "%s: without a meaning, the processor works on PostgreSQL", names)
		}
	default:
		if ok {
			im.fail(s, "%s is %s: Outrider reads the table in PostgreSQL only. Keep their processor", s.key, value)
		}
	}
}

// currentTable writes the name of the table where it is not outbox_messages. The processor before the current one could read
// a table for each type, which are sources of their own here.
func (im *importer) currentTable(w *writer) {
	const usual = "outbox_messages"
	table, from := usual, setting{}
	for i, name := range currentTables {
		s, ok := im.variable(name)
		value := usual
		if ok {
			value = s.value
			from = s
		}
		if i == 0 {
			table = value
		}
		if value != table {
			im.fail(from, "%s, %s and %s name several tables: write a source with layout flowcatalyst-v2 and a route for each, with its name in `table`",
				currentTables[0], currentTables[1], currentTables[2])
			return
		}
	}
	if table != usual {
		w.line("    table: %s # %s", quoted(table), strings.Join(currentTables, ", "))
	}
}

// currentAdmin writes where operators reach the program.
func (im *importer) currentAdmin(w *writer) {
	s, ok := im.variable("FC_OUTBOX_ADMIN_PORT")
	if !ok || s.value == "0" {
		return
	}
	port, err := strconv.ParseUint(s.value, 10, 16)
	if err != nil {
		im.fail(s, "%s: %q is not a port", s.key, s.value)
		return
	}
	im.note(s, "%s: Outrider's API and its paths differ from theirs: docs/api.md", s.key)
	w.line("admin: {listen: %q} # %s", "127.0.0.1:"+strconv.FormatUint(port, 10), s.key)
}

// currentRest notes what is understood and has no key here, and what is not.
func (im *importer) currentRest() {
	if s, ok := im.variable("FC_OUTBOX_BLOCK_ON_ERROR"); ok && !strings.EqualFold(s.value, "true") && s.value != "1" {
		im.note(s, "%s is not true: Outrider always delivers a group in order while a row of it is retried; a row that is given up does not stop its group", s.key)
	}
}
