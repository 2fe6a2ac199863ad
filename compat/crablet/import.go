package crablet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/compat/internal/foreign"
)

// Options of [Import].
type Options struct {
	// Profile whose keys go before those of none, in a YAML file with documents for profiles. Default: prod.
	Profile string
}

// Result is the result of an import.
type Result = foreign.Result

// importer is one import.
type importer struct {
	*foreign.File
	profile string

	named map[string]string // destinations by publisher

	interval, intervalFrom string // polling-interval-ms
	backoff                backoff
	attempts, attemptsFrom string
	batch, batchFrom       string // batch-size
}

// backoff is how pauses grow.
type backoff struct {
	off                                     bool
	threshold, multiplier, most             string
	thresholdFrom, multiplierFrom, mostFrom string
}

// prefix begins the keys of the outbox.
const prefix = "crablet.outbox."

// Import reads a file whose name ends with .properties, .yaml or .yml. The error lists everything that makes an import impossible.
func Import(name string, text []byte, o Options) (Result, error) {
	all, err := foreign.Read(name, text)
	if err != nil {
		return Result{}, err
	}
	im := &importer{named: map[string]string{}, File: foreign.NewFile(name, all, prefix, o.Profile), profile: cmp.Or(o.Profile, foreign.DefaultProfile)}
	if !im.Any() {
		return Result{}, fmt.Errorf("%s: has no key of Crablet's outbox (crablet.outbox.enabled, crablet.outbox.topics.NAME.publishers and so on) that applies with the profile %s; "+
			"name the application's configuration file, or another --profile", name, im.profile)
	}
	im.remarks()
	out := im.result()
	for _, s := range im.Unused() {
		im.Note(s, "%s is not a key of Crablet's outbox; it is left out", s.Key)
	}
	return im.Result(out)
}

// remarks takes the remarks off values of a .properties file, as Crablet.s documents have them: in such a file a # behind a value is a part of it.
func (im *importer) remarks() {
	if filepath.Ext(im.Name) != ".properties" {
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(im.Settings), func(a, b string) int { return im.Settings[a].Line - im.Settings[b].Line }) {
		s := im.Settings[key]
		at := strings.Index(s.Value, " #")
		if at < 0 || !strings.HasPrefix(key, foreign.Canonical(prefix)) {
			continue
		}
		im.Note(s, "%s: %q is left out; in a .properties file that is no comment but a part of the value, which Spring refuses", s.Key, s.Value[at+1:])
		s.Value = strings.TrimSpace(s.Value[:at])
		im.Settings[key] = s
	}
}

// result writes the configuration.
func (im *importer) result() string {
	w := im.NewWriter()
	w.Line("# Made by `outrider import crablet %s`, profile %s.", filepath.Base(im.Name), im.profile)
	w.Line("# A comment behind a value names the key of crablet.outbox.* that it comes from.")
	im.enabled(w)
	im.pointless()
	im.typed()
	im.globalStatistics(w)
	w.Line("sources:")
	w.Line("  app:")
	w.Line("    type: postgres")
	text, from := im.Database()
	w.Line("    url: %s # %s", foreign.Quoted(text), from)
	w.Line("    layout: crablet # tables events and outbox_topic_progress (crablet-v2: crablet_events and crablet_outbox_topic_progress); leader: true with the lock of Crablet's own leader")
	topics := im.topics()
	w.Line("destinations:")
	im.destinations(w, topics)
	w.Line("routes:")
	im.routes(w, topics)
	return w.String()
}

// enabled reports an outbox that is switched off.
func (im *importer) enabled(w *foreign.Writer) {
	s, ok := im.Own("enabled")
	switch {
	case ok && strings.EqualFold(s.Value, "true"):
		return
	case !ok:
		im.Note(s, "crablet.outbox.enabled is not in the file, and false by default: Outrider has no such switch. Start it when it may run")
	default:
		im.Note(s, "%s is %s: Outrider has no such switch. Start it when it may run", s.Key, s.Value)
	}
	w.Line("# enabled was not true there: Outrider has no such switch. Start it when it may run.")
}

// pointless notes the keys that mean nothing here, each with the reason.
func (im *importer) pointless() {
	for _, k := range []struct{ key, usual, why string }{
		{"fetch-size", "", "rows are read as memory allows, see poll.batch of the source"},
		{"fetch-batch-size", "", "rows are read as memory allows, see poll.batch of the source"},
		{"retry-delay-ms", "", "the original reads it and never uses it: it tries again at the next poll, and so does the result"},
		{"lock-strategy", "GLOBAL", "one instance leads all routes of the source; leader: false spreads them over instances"},
		{"leader-election-retry-interval-ms", "", "an instance that stands by looks again by itself"},
		{"acquisition-retry-interval-ms", "", "an instance that stands by looks again by itself"},
		{"heartbeat-ttl-seconds", "", "see lease"},
		{"shared-fetch.enabled", "", "routes at one place share a read by themselves"},
		{"publishers.log.enabled", "", "LogPublisher is a destination where a topic has it"},
		{"publishers.statistics.enabled", "", "StatisticsPublisher is a destination where a topic has it"},
	} {
		if s, ok := im.Own(k.key); ok && (k.usual == "" || !strings.EqualFold(s.Value, k.usual)) {
			im.Note(s, "%s is left out: %s", s.Key, k.why)
		}
	}
	if s, ok := im.Settings["crabletinstanceid"]; ok && s.Value != "" {
		im.Note(s, "%s is left out: name an instance with outrider run --instance", s.Key)
	}
}

// typed reads the numbers that all routes share.
func (im *importer) typed() {
	from := func(key string, isDefault bool) string {
		if isDefault {
			return key + ", default"
		}
		return key
	}
	var usual bool
	im.interval, usual = im.Typed("polling-interval-ms", "1000", "1s", foreign.Milliseconds)
	im.intervalFrom = from("polling-interval-ms", usual)
	im.attempts, usual = im.Typed("max-retries", "3", "3", positive)
	im.attemptsFrom = from("max-retries", usual)
	im.batch, usual = im.Typed("batch-size", "100", "100", im.batchSize)
	im.batchFrom = from("batch-size", usual)
	b := &im.backoff
	b.threshold, usual = im.Typed("backoff.threshold", "3", "3", foreign.Count)
	b.thresholdFrom = from("backoff.threshold", usual)
	b.multiplier, usual = im.Typed("backoff.multiplier", "2", "2", positive)
	b.multiplierFrom = from("backoff.multiplier", usual)
	b.most, usual = im.Typed("backoff.max-seconds", "60", "60s", foreign.Seconds)
	b.mostFrom = from("backoff.max-seconds", usual)
	s, ok := im.Own("backoff.enabled")
	b.off = ok && strings.EqualFold(s.Value, "false")
}

// positive checks a whole number of at least 1.
// batchSize is a number of events that a batch of ours can have.
func (im *importer) batchSize(text string) (string, error) {
	text, err := positive(text)
	if n, _ := strconv.Atoi(text); err == nil && (n > largestBatch || len(text) > len("1000")) {
		s, _ := im.Own("batch-size")
		im.Note(s, "%s is %s: a batch has at most %d events", s.Key, text, largestBatch)
		text = strconv.Itoa(largestBatch)
	}
	return text, err
}

// largestBatch is how many events a batch of a route in global order has at most.
const largestBatch = 1000

func positive(text string) (string, error) {
	text, err := foreign.Count(text)
	if err == nil && text == "0" {
		err = strconv.ErrRange
	}
	return text, err
}

// globalStatistics writes how often the log sums up what was delivered.
func (im *importer) globalStatistics(w *foreign.Writer) {
	w.Line("statistics: # global-statistics")
	if s, ok := im.Own("global-statistics.enabled"); ok && strings.EqualFold(s.Value, "false") {
		im.Own("global-statistics.log-interval-seconds")
		im.Own("global-statistics.log-level")
		w.Line("  every: 0s # global-statistics.enabled")
		return
	}
	w.Typed("  every", "global-statistics.log-interval-seconds", "30", "30s", foreign.Seconds)
	w.Typed("  level", "global-statistics.log-level", "INFO", "info", level)
}

// level is the level of our log for one of Java's.
func level(text string) (string, error) {
	switch text = strings.ToLower(text); text {
	case "trace":
		return "debug", nil
	case "debug", "info", "warn", "error":
		return text, nil
	}
	return "", errors.New("is none of TRACE, DEBUG, INFO, WARN and ERROR")
}

// destinations writes one for each publisher.
func (im *importer) destinations(w *foreign.Writer, topics []*topic) {
	taken := map[string]bool{}
	batches := false
	for _, t := range topics {
		for _, p := range t.publishers {
			if im.named[p] != "" {
				continue
			}
			im.named[p] = nameOf(p, taken)
			w.Line("  %s: # %s", im.named[p], oneLine(p))
			switch p {
			case "LogPublisher":
				w.Line("    type: log")
			case "GlobalStatisticsPublisher":
				w.Line("    type: statistics")
				w.Typed("    every", "global-statistics.log-interval-seconds", "30", "30s", foreign.Seconds)
			case "StatisticsPublisher":
				w.Line("    type: statistics")
				w.Typed("    every", "publishers.statistics.log-interval-seconds", "10", "10s", foreign.Seconds)
			default:
				w.Line("    type: publisher # a class of the application: replace it, for example by type kafka or http, or supply it in Go")
				batches = true
				w.Line("    batch: {max_messages: %s} # %s", im.batch, im.batchFrom)
				im.Note(foreign.Setting{}, "%s is a class of the application: replace its destination by one of Outrider's, such as kafka or http, "+
					"or embed Outrider and supply it with outrider.WithPublisher(%q, ...)", p, im.named[p])
			}
		}
	}
	if s, ok := im.Own("batch-size"); ok && !batches && s.Value != "100" {
		im.Note(s, "%s is left out: no publisher of the result takes batches", s.Key)
	}
	im.Own("publishers.statistics.log-interval-seconds") // of a publisher that no topic has
}

// routes writes one for each pair of a topic and a publisher.
func (im *importer) routes(w *foreign.Writer, topics []*topic) {
	names := map[string]bool{}
	for _, t := range topics {
		for _, p := range t.publishers {
			w.Line("  %s:", nameOf(t.name+"-"+p, names))
			w.Line("    from: app")
			w.Line("    to: %s # topics.%s.publishers", im.named[p], oneLine(t.name))
			t.match(w)
			w.Line("    progress: {topic: %s, publisher: %s}", literal(t.name), literal(p))
			interval := im.poll(w, t, p)
			w.Line("    middleware:")
			w.Line("      - poison: {then: hold} # status FAILED, until it is reset")
			w.Line("      - retry:")
			w.Line("          attempts: %s # %s", im.attempts, im.attemptsFrom)
			w.Line("          base: %s # with the next poll", interval)
			w.Line("          max: %s", interval)
			w.Line("          jitter: 0")
			w.Line("      - timeout: 30s")
		}
	}
}

// poll writes the poll of a route, and returns the usual pause.
func (im *importer) poll(w *foreign.Writer, t *topic, publisher string) (interval string) {
	interval, from := im.interval, im.intervalFrom
	if s, own := t.intervals[publisher]; own {
		text, err := foreign.Milliseconds(s.Value)
		if err != nil {
			im.Fail(s, "%s: %q %v", s.Key, s.Value, err)
		}
		interval, from = text, "publisher-configs, polling-interval-ms"
	}
	w.Line("    poll:")
	w.Line("      min: %s # %s", interval, from)
	if im.backoff.off {
		w.Line("      max: %s # backoff.enabled is false", interval)
		return interval
	}
	w.Line("      after: %s # %s", im.backoff.threshold, im.backoff.thresholdFrom)
	w.Line("      factor: %s # %s", im.backoff.multiplier, im.backoff.multiplierFrom)
	most, mostFrom := im.backoff.most, im.backoff.mostFrom
	least, err1 := time.ParseDuration(interval)
	longest, err2 := time.ParseDuration(most)
	if err1 == nil && err2 == nil && longest < least {
		most, mostFrom = interval, "polling-interval-ms, which is longer than backoff.max-seconds"
	}
	w.Line("      max: %s # %s", most, mostFrom)
	return interval
}

// literal is text that holds no variables, as a YAML scalar.
func literal(text string) string { return foreign.Quoted(strings.ReplaceAll(text, "$", "$$")) }

// oneLine is text for a comment.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// longestName is how long the name of a route or destination may be.
const longestName = 48

// nameOf makes the name of a route or destination, which is not among those of others.
func nameOf(text string, taken map[string]bool) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, text)
	name = name[:min(len(name), longestName)]
	for i, base := 2, name; taken[name]; i++ {
		suffix := "-" + strconv.Itoa(i)
		name = base[:min(len(base), longestName-len(suffix))] + suffix
	}
	taken[name] = true
	return name
}
