package flowcatalyst

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// result writes the configuration.
func (im *importer) result(profile string) string {
	w := &writer{im: im}
	w.line("# Made by `outrider import flowcatalyst %s`, profile %s.", filepath.Base(im.name), profile)
	w.line("# A comment behind a value names the key of outbox-processor.* that it comes from.")
	im.enabled(w)
	im.databaseType()
	w.line("sources:")
	w.line("  app:")
	w.line("    type: postgres # database-type")
	text, from := im.database()
	w.line("    url: %s # %s", quoted(text), from)
	w.line("    layout: flowcatalyst")
	w.line("    tables:")
	w.text("      events", "events-table", "outbox_events")
	w.text("      dispatch_jobs", "dispatch-jobs-table", "outbox_dispatch_jobs")
	w.line("    poll:")
	w.typed("      batch", "poll-batch-size", "500", "500", count)
	pause := w.typed("      min", "poll-interval", "1s", "1s", func(s string) (string, error) { return duration(s, im.millis) })
	w.line("      max: %s # the same: the pause never changes", pause)
	w.line("    claims:")
	w.typed("      in_memory", "global-buffer-size", "1000", "1000", count)
	w.typed("      timeout", "processing-timeout-seconds", "300", "300s", seconds)
	w.line("      recover: 1m # not configurable there")
	w.line("destinations:")
	w.line("  platform:")
	w.line("    type: http")
	w.line("    preset: flowcatalyst")
	im.platform(w)
	w.line("    connect_timeout: 10s # not configurable there")
	w.line("    timeout: 30s # not configurable there")
	w.line("    batch:")
	w.typed("      max_messages", "api-batch-size", "100", "100", count)
	w.typed("    max_requests", "max-concurrent-groups", "10", "10", count)
	w.line("routes:")
	w.line("  outbox:")
	w.line("    from: app")
	w.line("    to: platform")
	w.line("    middleware:")
	w.line("      - poison: {then: continue}")
	w.line("      - retry: # each attempt at the next poll")
	w.typed("          attempts", "max-retries", "3", "4", attempts)
	between := between(pause)
	w.line("          base: %s", between)
	w.line("          max: %s", between)
	w.line("          jitter: 0")
	w.line("      - timeout: 30s")
	return w.b.String()
}

// between is the pause between attempts: until the next poll, and about a second
// when polls are more frequent than that. It is what Outrider does by itself.
func between(poll string) string {
	d, err := time.ParseDuration(poll)
	if err != nil { // a variable
		return "1ms"
	}
	return short(max(time.Second-d, time.Millisecond))
}

// enabled reports a processor that is switched off.
func (im *importer) enabled(w *writer) {
	s, ok := im.own("enabled")
	if !ok || strings.EqualFold(s.value, "true") {
		return
	}
	im.note(s, "%s is %s: Outrider has no such switch. What is not to run is not started, or paused: outrider pause outbox", s.key, s.value)
	w.line("# enabled was %s there: Outrider has no such switch. Start it when it may run.", strings.Join(strings.Fields(s.value), " "))
}

// databaseType refuses databases whose tables Outrider cannot read.
func (im *importer) databaseType() {
	im.own("mongo-database") // known, and of no meaning for PostgreSQL
	s, ok := im.own("database-type")
	if !ok {
		return
	}
	value := s.value
	if parts, _ := pieces(value); len(parts) == 1 && parts[0].name != "" {
		value = parts[0].fallback
		im.note(s, "%s is a variable: the result is for PostgreSQL", s.key)
	}
	switch strings.ToUpper(value) {
	case "POSTGRESQL", "POSTGRES", "":
	case "MYSQL", "MONGODB":
		im.fail(s, "%s is %s: Outrider reads FlowCatalyst's tables in PostgreSQL only; MySQL and MongoDB come later. Keep the processor until then",
			s.key, strings.ToUpper(value))
	default:
		im.fail(s, "%s is %q, which is none of POSTGRESQL, MYSQL and MONGODB", s.key, value)
	}
}

// platform writes where the API is and how to be let in.
func (im *importer) platform(w *writer) {
	if s, ok := im.own("api-base-url"); ok {
		base := strings.TrimRight(im.join(s, "https://api.example.com"), "/")
		w.line("    url: %s # api-base-url", quoted(base))
		if host, plain := strings.CutPrefix(base, "http://"); plain && !local(host) {
			im.note(s, "%s is http: the token goes to another machine in the clear, which `tls: {enabled: false}` accepts; use https", s.key)
			w.line("    tls: {enabled: false} # http, as before")
		}
	} else {
		im.samples["API_BASE_URL"] = "https://api.example.com"
		im.note(setting{}, "outbox-processor.api-base-url is not in the file, and there is no default: set the environment variable API_BASE_URL")
		w.line("    url: ${API_BASE_URL} # api-base-url, required")
	}
	s, ok := im.own("api-token")
	if !ok {
		w.line("    # token: ${API_TOKEN} # api-token, not set")
		return
	}
	if parts, _ := pieces(s.value); len(parts) == 1 && parts[0].name != "" && parts[0].hasDefault && parts[0].fallback == "" {
		w.line("    token: ${%s:-} # api-token", environment(parts[0].name))
		return
	}
	w.line("    token: %s # api-token", im.secret(s, "API_TOKEN"))
}

// local reports whether what follows http:// leads to this machine.
func local(host string) bool {
	for _, name := range []string{"localhost", "127.0.0.1", "[::1]"} {
		if rest, ok := strings.CutPrefix(host, name); ok && (rest == "" || rest[0] == ':' || rest[0] == '/') {
			return true
		}
	}
	return false
}

// join renders a text with its placeholders.
func (im *importer) join(s setting, sample string) string {
	var b strings.Builder
	for _, p := range im.resolve(s) {
		b.WriteString(im.render(p, sample))
	}
	return b.String()
}

// writer writes lines of YAML.
type writer struct {
	im *importer
	b  strings.Builder
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// typed writes a value that is converted, with its origin, and returns it.
func (w *writer) typed(name, key, def, sample string, convert func(string) (string, error)) string {
	text, isDefault := w.im.typed(key, def, sample, convert)
	w.line("%s: %s # %s%s", name, text, key, ifDefault(isDefault))
	return text
}

// text writes a name.
func (w *writer) text(name, key, def string) {
	s, ok := w.im.own(key)
	value := def
	if ok {
		value = w.im.join(s, def)
	}
	w.line("%s: %s # %s%s", name, quoted(value), key, ifDefault(!ok))
}

func ifDefault(is bool) string {
	if is {
		return ", default"
	}
	return ""
}

// quoted writes text as a YAML scalar of one line. Variables are written plainly:
// their insides are Outrider's.
func quoted(text string) string {
	if strings.HasPrefix(text, "${") && strings.Count(text, "}") == 1 && strings.HasSuffix(text, "}") {
		return text
	}
	b, err := yaml.MarshalWithOptions(text, yaml.JSON())
	if err != nil {
		return `""` // a string can always be written
	}
	return strings.TrimSpace(string(b))
}
