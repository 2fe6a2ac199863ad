package config

import "strings"

// Presets of a destination for FlowCatalyst's API: that of the document that names two tables, and that of its current SDKs.
// The layouts of a source with these names are in package layout.
const (
	FlowCatalyst   = "flowcatalyst"
	FlowCatalystV2 = "flowcatalyst-v2"
)

// Defaults of FlowCatalyst's outbox processor that differ from Outrider's.
const (
	flowCatalystRequests = 10
	flowCatalystGroups   = 1
)

// checkPreset gives the destination the preset's bounds and refuses what
// contradicts it.
func (h *HTTP) checkPreset(c *checker, at place) {
	if h.Preset == "" {
		return
	}
	if !at.has("max_requests") {
		h.MaxRequests = flowCatalystRequests
	}
	if h.Preset == FlowCatalyst && !at.child("batch").has("max_groups") {
		h.Batch.MaxGroups = flowCatalystGroups
	}
	if h.Format != "raw" {
		c.add(at.child("format"), "the preset sends payloads as they are").hint("remove the key, or the preset")
	}
	if at.has("url") && !h.URL.isBase() {
		c.add(at.child("url"), "the preset appends a path to it").
			hint("give the base URL, for example https://api.example.com: no query, no placeholders, no /api/events/batch")
	}
}

// isBase reports whether a path can be appended to the URL. One that ends with a
// path of the API was probably meant to be the base.
func (t Template) isBase() bool {
	text := strings.TrimRight(string(t), "/")
	return t.Static() && !strings.ContainsAny(text, "?#") && !strings.HasSuffix(text, "/batch")
}
