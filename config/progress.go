package config

import (
	"unicode/utf8"

	"github.com/outriderhq/outrider/config/internal/form"
)

// RoutePoll is the pause between two polls of a route: Min after one that found messages, and after the first After that
// found none; longer by Factor each time after that, up to Max.
type RoutePoll struct {
	Min    Duration `yaml:"min" default:"1s" min:"1ms" max:"1h" doc:"Pause between two polls."`
	After  int      `yaml:"after" default:"3" min:"0" max:"1000" doc:"Empty polls before the pause grows."`
	Factor float64  `yaml:"factor" default:"2" min:"1" max:"100" doc:"Growth of the pause with each further empty poll."`
	Max    Duration `yaml:"max" default:"60s" min:"1ms" max:"1h" doc:"Longest pause. Default: 60s, or min if that is longer."`
}

func (p *RoutePoll) check(c *form.Checker, at form.Location) {
	if !at.Has("max") {
		p.Max = max(p.Max, p.Min)
	}
	if at.Sound("min", "max") && p.Max < p.Min {
		c.Add(at.Child("max"), "must not be less than min (%s), is %s", at.Child("min").Shown(p.Min), at.Child("max").Shown(p.Max))
	}
}

// Progress names the row of a route in the table in which another system keeps how far its publishers are.
type Progress struct {
	Topic     string `yaml:"topic" required:"true" doc:"Topic of the row, at most 100 characters."`
	Publisher string `yaml:"publisher" required:"true" doc:"Publisher of the row, at most 100 characters."`
}

// longestProgress is how many characters the columns of a [Progress] hold.
const longestProgress = 100

func (p *Progress) check(c *form.Checker, at form.Location) {
	for key, text := range map[string]string{"topic": p.Topic, "publisher": p.Publisher} {
		if utf8.RuneCountInString(text) > longestProgress {
			c.Add(at.Child(key), "has %d characters; the column holds %d", utf8.RuneCountInString(text), longestProgress).Fix("shorten it")
		}
	}
}

// globalWindow is the window of a route with order: global, which has one lane instead of 16: what waits for a settle takes room, and with
// the usual window a batch destination got a quarter of the messages that it can take.
const globalWindow = 4096

// windowOfOrder gives a route that names no window that of its order.
func windowOfOrder(at form.Location, r *Route) {
	if r.Order == "global" && !at.Has("window") {
		r.Window = globalWindow
	}
}

// globalAsPreset gives a route that names no order that of its source's preset.
func (cfg *Config) globalAsPreset(at form.Location, r *Route) {
	table, ok := tableOf(cfg.Sources[r.From])
	if !ok || at.Has("order") {
		return
	}
	if preset := table.Preset(); preset != nil && preset.Defaults.Global {
		r.Order = "global"
	}
}

// globalBatch is how many messages a batch of a route with order: global has at most (router/internal/lane).
const globalBatch = 1000

// checkGlobalBatch warns if batches are smaller than the destination allows.
func (cfg *Config) checkGlobalBatch(c *form.Checker, at form.Location, r *Route) {
	for _, to := range r.Targets {
		if d, ok := cfg.Destinations[to].(*HTTP); ok && d != nil && r.Order == "global" && d.Batch.Whole && d.Batch.MaxMessages > globalBatch {
			c.Warn(at, "sends at most %d messages in a request, although destination %s has batch: {max_messages: %d}", globalBatch, to, d.Batch.MaxMessages).
				Fix("set max_messages to %d, or order: group", globalBatch)
		}
	}
}

// progressRow is a row of a table of progress.
type progressRow struct{ database, table, topic, publisher string }

// checkProgress refuses a route with progress that cannot keep it: the row is written in the transaction that writes the cursor,
// and has one position for the whole route.
func (cfg *Config) checkProgress(c *form.Checker, at form.Location, r *Route, taken map[progressRow]string) {
	if r.Progress == nil {
		return
	}
	at = at.Child("progress")
	if cfg.Sources[r.From] == nil {
		return // reported where it was read or named
	}
	src, _ := cfg.Sources[r.From].(*Postgres)
	switch {
	case src == nil || src.Preset() == nil || !hasProgress(src.Preset()):
		c.Add(at.Key(), "has an effect with %s only", layoutsWith(hasProgress)).Fix("remove the key")
		return
	case r.Order != "global":
		c.Add(at.Key(), "has one position, but a route with order: %s has one for each lane", r.Order).Fix("set order: global, or remove progress")
	case len(r.Targets) > 1:
		c.Add(at.Key(), "the row belongs to one publisher, but the list makes a route for each destination").Fix("write a route for each of them")
	}
	if !cfg.State.URL.IsZero() && (cfg.State.URL.Scheme() == "" || databaseOf(cfg.State.URL) != databaseOf(src.URL)) {
		c.Add(at.Key(), "the row is written in the transaction that writes the route's cursor, and the state is in another database").
			Fix("remove state: {url: ...}, which puts the state beside the source, or remove progress")
	}
	row := progressRow{databaseOf(src.URL), string(src.Progress), r.Progress.Topic, r.Progress.Publisher}
	if other, twice := taken[row]; twice {
		c.Add(at.Key(), "route %s has the same row, and each row is of one route", other).Fix("give the topic or the publisher another name")
	}
	taken[row] = r.Name
}

// checkRoutePoll refuses a poll of a route whose source is not read for each route by itself.
func (cfg *Config) checkRoutePoll(c *form.Checker, at form.Location, r *Route) {
	if src := cfg.Sources[r.From]; r.Poll != nil && src != nil && !src.traits().log {
		c.Add(at.Child("poll").Key(), "belongs to append-only tables: of a %s all routes are polled together", kindOf(src)).Fix("set poll of the source")
	}
}
