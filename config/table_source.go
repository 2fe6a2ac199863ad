package config

import (
	"reflect"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/config/internal/form"
)

// TableSource has the keys of sources whose tables have a layout. The struct of a database that inlines it names those
// that the database has.
type TableSource struct {
	Layout    string `yaml:"layout"`
	Table     Table  `yaml:"table"`
	Tables    Queues `yaml:"tables" doc:"With layout {layouts with several tables}: names of its tables."`
	Queue     *Queue `yaml:"queue"`
	Claims    Claims `yaml:"claims" doc:"Limits and timeouts of claims."`
	Delivered string `yaml:"delivered" enum:"keep|delete" default:"keep"`
	Wake      string `yaml:"wake" enum:"poll" default:"poll"`
	Poll      Poll   `yaml:"poll" doc:"Interval and size of reads."`
	MaxRow    Size   `yaml:"max_row" default:"16MiB" min:"64KiB" max:"512MiB" doc:"Largest payload that is read. A row with a larger one is dead, with its size in the error, and is not loaded. The same holds for a row with more than 1,000 headers or tags, 1 MiB of them, or names (id, type, group, tenant and so on) of more than 1 KiB. One message may exceed the budget memory, so max_row should be less than memory."`
	Leader    bool   `yaml:"leader" default:"false" doc:"One instance at a time runs all routes of this source, the others stand by. By default lanes are spread over all instances; with layout {layouts with a leader} the default is true. See docs/instances.md."`
}

// Preset is the layout's preset; nil: the table is Outrider's own, or described in the file.
func (t *TableSource) Preset() *layout.Preset { return layout.Find(t.Layout) }

// Deletes reports whether rows that were delivered are deleted.
func (t *TableSource) Deletes() bool { return t.Delivered == deleted }

// Notified reports whether publishers wake the source, or would if they could.
func (t *TableSource) Notified() bool { return t.Wake == "notify" || t.Wake == "auto" }

// tabled is a source whose tables have a layout.
type tabled interface {
	Source
	shared() *TableSource
}

func (t *TableSource) shared() *TableSource { return t }

// tableOf returns the shared keys of a source whose tables have a layout.
func tableOf(src Source) (*TableSource, bool) {
	if t, ok := src.(tabled); ok {
		return t.shared(), true
	}
	return nil, false
}

// withoutPoll returns a copy of a source without its section poll.
func withoutPoll(src tabled) Source {
	made := reflect.New(reflect.TypeOf(src).Elem())
	made.Elem().Set(reflect.ValueOf(src).Elem())
	rest, _ := reflect.TypeAssert[tabled](made)
	rest.shared().Poll = Poll{}
	return rest
}

// DeadAttempts is the number of attempts of a dead row, by its column for attempts.
func DeadAttempts(src Source, column int) int {
	if t, ok := tableOf(src); ok {
		if preset := t.Preset(); preset != nil && preset.Queue != nil && preset.Queue.DeadKeepsRetries {
			return column + 1
		}
	}
	return column
}

// Queued reports whether the rows carry a status and are claimed, in contrast to
// an append-only table, which is read by cursor.
func (t *TableSource) Queued() bool {
	if preset := t.Preset(); preset != nil {
		return preset.Queue != nil
	}
	return t.Layout == custom && t.Queue != nil
}

// checkQueue checks the keys that depend on whether the tables are queues.
func (t *TableSource) checkQueue(c *form.Checker, at form.Location) {
	preset := t.Preset()
	if preset == nil || !severalTables(preset) {
		onlyIn(c, at, layoutsWith(severalTables), "tables")
	}
	if t.Layout != custom {
		onlyIn(c, at, "layout: custom", "queue")
	}
	if preset == nil || !preset.Hot {
		onlyIn(c, at, layoutsWith(hasHotPath), "hot_path")
	}
	if !t.Queued() {
		if at.Has("claims") {
			c.Add(at.Child("claims").Key(), "nothing is claimed from an append-only table").Fix("remove the key")
		}
		if at.Has("delivered") {
			c.Add(at.Child("delivered").Key(), "rows of an append-only table stay until retention removes them").Fix("remove the key, or see retention")
		}
		t.settingsOf(preset, at)
		return
	}
	if !at.Child("poll").Has("batch") {
		t.Poll.Batch = queueBatch
	}
	t.settingsOf(preset, at)
	if at.Has("retention") && t.Deletes() {
		c.Add(at.Child("retention").Key(), "removes nothing, because delivered rows are deleted at once").Fix("remove the key, or set delivered: keep")
	}
	onlyIn(c, at, layoutsWith(hasTopic), "topic")
	if at.Has("metadata") {
		c.Add(at.Child("metadata").Key(), "has no meaning for queue tables").Fix("remove the key")
	}
	if preset != nil {
		onlyIn(c, at, "layout: custom", "columns")
		t.checkTables(c, at, preset)
		return
	}
	if at.Has("columns") {
		c.Add(at.Child("columns").Key(), "a table is described by columns or by a queue, not by both").
			Fix("columns is for append-only tables, queue for rows with a status")
	}
}

// checkTables checks the names of a preset's tables.
func (t *TableSource) checkTables(c *form.Checker, at form.Location, preset *layout.Preset) {
	tables := preset.Queue.Tables
	if !severalTables(preset) {
		if !at.Has("table") {
			t.Table = Table(tables[0].Name)
		}
		return
	}
	keys := make([]string, len(tables))
	for i, of := range tables {
		keys[i] = of.Key + ": ..."
	}
	if at.Has("table") {
		c.Add(at.Child("table").Key(), "%s has %s tables", preset.Title, numberWord(len(tables))).
			Fix("name them in tables: {%s}", strings.Join(keys, ", "))
	}
	kinds := map[string]bool{}
	for _, of := range tables {
		name := t.Tables.Of(of)
		if kinds[name] {
			c.Add(at.Child("tables"), "both kinds of rows have the table %s", name).Fix("name %s tables", numberWord(len(tables)))
		}
		kinds[name] = true
	}
}

// settingsOf takes from the preset what the file does not set.
func (t *TableSource) settingsOf(preset *layout.Preset, at form.Location) {
	if preset == nil {
		return
	}
	d, poll, claims := preset.Defaults, at.Child("poll"), at.Child("claims")
	if every := Duration(d.Poll); every > 0 {
		if !poll.Has("min") {
			t.Poll.Min = every
			if poll.Has("max") {
				t.Poll.Min = min(every, t.Poll.Max)
			}
		}
		if !poll.Has("max") && t.Poll.Min <= every {
			t.Poll.Max = every
		}
	}
	if deletes(preset) && !at.Has("delivered") {
		t.Delivered = deleted
	}
	if d.Leader && !at.Has("leader") {
		t.Leader = true
	}
	if d.Batch > 0 && !poll.Has("batch") {
		t.Poll.Batch = d.Batch
	}
	if d.InMemory > 0 && !claims.Has("in_memory") {
		t.Claims.InMemory = d.InMemory
	}
	for key, of := range map[string]struct {
		target *Duration
		def    time.Duration
	}{"timeout": {&t.Claims.Timeout, d.Timeout}, "recover": {&t.Claims.Recover, d.Recover}} {
		if of.def > 0 && !claims.Has(key) {
			*of.target = Duration(of.def)
		}
	}
}
