package flowcatalyst

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/compat/internal/foreign"
)

// result writes the configuration.
func (im *importer) result(profile string) string {
	w := im.NewWriter()
	w.Line("# Made by `outrider import flowcatalyst %s`, profile %s.", filepath.Base(im.Name), profile)
	w.Line("# A comment behind a value names the key of outbox-processor.* that it comes from.")
	im.enabled(w)
	kind := im.databaseType()
	if kind == mongoDB {
		im.mongoState(w)
	}
	w.Line("sources:")
	w.Line("  app:")
	w.Line("    type: %s # database-type", kind)
	switch kind {
	case mongoDB:
		im.mongoSource(w)
	case mySQL:
		im.Samples["DATABASE_URL"] = "mysql://127.0.0.1/app"
		im.Note(foreign.Setting{}, "set DATABASE_URL to the mysql:// URL of the tables: mysql://user:password@host:3306/database")
		w.Line("    url: ${DATABASE_URL} # set it to the mysql:// URL of the tables")
	default:
		text, from := im.Database()
		w.Line("    url: %s # %s", foreign.Quoted(text), from)
	}
	w.Line("    layout: flowcatalyst")
	w.Line("    tables:")
	w.Text("      events", "events-table", "outbox_events")
	w.Text("      dispatch_jobs", "dispatch-jobs-table", "outbox_dispatch_jobs")
	w.Line("    poll:")
	w.Typed("      batch", "poll-batch-size", "500", "500", foreign.Count)
	pause := w.Typed("      min", "poll-interval", "1s", "1s", func(s string) (string, error) { return foreign.Duration(s, im.Millis) })
	w.Line("      max: %s # the same: the pause never changes", pause)
	w.Line("    claims:")
	w.Typed("      in_memory", "global-buffer-size", "1000", "1000", foreign.Count)
	w.Typed("      timeout", "processing-timeout-seconds", "300", "300s", foreign.Seconds)
	w.Line("      recover: 1m # not configurable there")
	w.Line("destinations:")
	w.Line("  platform:")
	w.Line("    type: http")
	w.Line("    preset: flowcatalyst")
	im.platform(w)
	w.Line("    connect_timeout: 10s # not configurable there")
	w.Line("    timeout: 30s # not configurable there")
	w.Line("    batch:")
	w.Typed("      max_messages", "api-batch-size", "100", "100", foreign.Count)
	w.Typed("    max_requests", "max-concurrent-groups", "10", "10", foreign.Count)
	w.Line("routes:")
	w.Line("  outbox:")
	w.Line("    from: app")
	w.Line("    to: platform")
	w.Line("    middleware:")
	w.Line("      - poison: {then: continue}")
	w.Line("      - retry: # each attempt at the next poll")
	w.Typed("          attempts", "max-retries", "3", "4", attempts)
	between := between(pause)
	w.Line("          base: %s", between)
	w.Line("          max: %s", between)
	w.Line("          jitter: 0")
	w.Line("      - timeout: 30s")
	return w.String()
}

// between is the pause between attempts: until the next poll, and about a second
// when polls are more frequent than that. It is what Outrider does by itself.
func between(poll string) string {
	d, err := time.ParseDuration(poll)
	if err != nil { // a variable
		return "1ms"
	}
	return foreign.Short(max(time.Second-d, time.Millisecond))
}

// enabled reports a processor that is switched off.
func (im *importer) enabled(w *foreign.Writer) {
	s, ok := im.Own("enabled")
	if !ok || strings.EqualFold(s.Value, "true") {
		return
	}
	im.Note(s, "%s is %s: Outrider has no such switch: do not start it, or pause the route: outrider pause outbox", s.Key, s.Value)
	w.Line("# enabled was %s there: Outrider has no such switch. Start it when it may run.", strings.Join(strings.Fields(s.Value), " "))
}

// The databases, as the type of a source has them.
const (
	postgreSQL = "postgres"
	mySQL      = "mysql"
	mongoDB    = "mongodb"
)

// databaseType is the type of the source. It refuses databases whose tables Outrider cannot read.
func (im *importer) databaseType() string {
	im.Own("mongo-database") // known, whatever the type
	s, ok := im.Own("database-type")
	if !ok {
		return postgreSQL
	}
	value := s.Value
	if parts, _ := foreign.Pieces(value); len(parts) == 1 && parts[0].Name != "" {
		value = parts[0].Fallback
		im.Note(s, "%s is a variable: the result is for its default, or PostgreSQL", s.Key)
	}
	switch strings.ToUpper(value) {
	case "POSTGRESQL", "POSTGRES", "":
	case "MONGODB":
		return mongoDB
	case "MYSQL":
		return mySQL
	default:
		im.Fail(s, "%s is %q, which is none of POSTGRESQL, MYSQL and MONGODB", s.Key, value)
	}
	return postgreSQL
}

// platform writes where the API is and how to be let in.
func (im *importer) platform(w *foreign.Writer) {
	if s, ok := im.Own("api-base-url"); ok {
		base := strings.TrimRight(im.Join(s, "https://api.example.com"), "/")
		w.Line("    url: %s # api-base-url", foreign.Quoted(base))
		if host, plain := strings.CutPrefix(base, "http://"); plain && !local(host) {
			im.Note(s, "%s is http: the token goes to another machine in the clear, which `tls: {enabled: false}` accepts; use https", s.Key)
			w.Line("    tls: {enabled: false} # http, as before")
		}
	} else {
		im.Samples["API_BASE_URL"] = "https://api.example.com"
		im.Note(foreign.Setting{}, "outbox-processor.api-base-url is not in the file, and there is no default: set the environment variable API_BASE_URL")
		w.Line("    url: ${API_BASE_URL} # api-base-url, required")
	}
	s, ok := im.Own("api-token")
	if !ok {
		w.Line("    # token: ${API_TOKEN} # api-token, not set")
		return
	}
	if parts, _ := foreign.Pieces(s.Value); len(parts) == 1 && parts[0].Name != "" && parts[0].HasDefault && parts[0].Fallback == "" {
		w.Line("    token: ${%s:-} # api-token", foreign.Environment(parts[0].Name))
		return
	}
	w.Line("    token: %s # api-token", im.Secret(s, "API_TOKEN"))
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

// attempts makes of retries the attempts in all.
func attempts(text string) (string, error) {
	text, err := foreign.Count(text)
	if err != nil {
		return "", err
	}
	n, _ := strconv.Atoi(text) // count has checked
	return strconv.Itoa(n + 1), nil
}
