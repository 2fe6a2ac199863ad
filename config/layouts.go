package config

import (
	"strings"

	"github.com/outriderhq/outrider/adapters/layout"
)

// The layouts that are no presets: Outrider's own table, and one that the file describes.
const (
	own    = "outrider"
	custom = "custom"
)

// Conditions on presets.
func severalTables(p *layout.Preset) bool { return p.Queue != nil && len(p.Queue.Tables) > 1 }
func hasTopic(p *layout.Preset) bool      { return p.Log != nil && p.Log.TopicPrefix != "" }
func isQueue(p *layout.Preset) bool       { return p.Queue != nil }
func deletes(p *layout.Preset) bool       { return p.Queue != nil && p.Queue.DoneIsDeleted }
func hasLeader(p *layout.Preset) bool     { return p.Defaults.Leader }
func hasStatistics(p *layout.Preset) bool { return p.Defaults.Statistics != 0 }
func inGlobalOrder(p *layout.Preset) bool { return p.Defaults.Global }
func hasHeaders(p *layout.Preset) bool    { return p.Log != nil && p.Log.Columns.Headers != "" }
func hasLock(p *layout.Preset) bool       { return p.Defaults.Lock != 0 }
func hasProgress(p *layout.Preset) bool   { return p.Log != nil && p.Log.Progress != "" }
func inMongoDB(p *layout.Preset) bool     { return p.Queue != nil && p.Queue.Fields != nil }
func hasHotPath(p *layout.Preset) bool    { return p.Hot }
func captured(p *layout.Preset) bool      { return p.Log != nil && p.Log.Captured }
func oneLimit(p *layout.Preset) bool      { return p.Defaults.Together }

// namesWith are the names of the presets that meet a condition.
func namesWith(meets func(*layout.Preset) bool) (names []string) {
	for _, p := range layout.All() {
		if meets(p) {
			names = append(names, p.Name)
		}
	}
	return names
}

// layoutsWith names them for messages.
func layoutsWith(meets func(*layout.Preset) bool) string {
	return "layout: " + strings.Join(namesWith(meets), " or ")
}

// presetWords are the words of tags that follow from the presets.
var presetWords = func() *strings.Replacer {
	values := func(meets func(*layout.Preset) bool) string { return strings.Join(namesWith(meets), "|") }
	list := func(meets func(*layout.Preset) bool) string { return strings.Join(namesWith(meets), " or ") }
	words := []string{
		"{layouts}", values(func(*layout.Preset) bool { return true }), "{layouts in mongodb}", values(inMongoDB),
		"{layouts with topics}", list(hasTopic), "{layouts with several tables}", list(severalTables),
		"{layouts with statistics}", list(hasStatistics),
		"{layouts with progress}", list(hasProgress), "{layouts with a lock}", list(hasLock), "{layouts in global order}", list(inGlobalOrder),
		"{layouts with one limit}", list(oneLimit), "{layouts that delete}", list(deletes), "{layouts with a hot path}", list(hasHotPath),
		"{layouts with a leader}", list(hasLeader), "{layouts with headers}", list(hasHeaders), "{captured layouts}", list(captured), "{queue layouts}", list(isQueue),
	}
	for _, p := range layout.All() {
		if p.Queue == nil {
			continue
		}
		for database := range p.Queue.Definitions { // a word that is there already goes before
			in := func(p *layout.Preset) bool { return p.Queue != nil && p.Queue.Definitions[database].Columns != nil }
			words = append(words, "{layouts in "+string(database)+"}", values(in), "{queue layouts in "+string(database)+"}", list(in))
		}
	}
	return strings.NewReplacer(words...)
}()
