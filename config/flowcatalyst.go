package config

import "strings"

// FlowCatalyst is the preset of a destination for FlowCatalyst's API. Its layout of a source is in package layout.
const FlowCatalyst = "flowcatalyst"

// Defaults of FlowCatalyst's outbox processor that differ from Outrider's.
const (
	flowCatalystRequests = 10
	flowCatalystGroups   = 1
)

// checkPreset gives the destination the preset's bounds and refuses what
// contradicts it.
func (h *HTTP) checkPreset(c *checker, at place) {
	if h.Preset != FlowCatalyst {
		return
	}
	if !at.has("max_requests") {
		h.MaxRequests = flowCatalystRequests
	}
	if !at.child("batch").has("max_groups") {
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
