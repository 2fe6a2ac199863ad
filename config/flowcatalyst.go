package config

import (
	"strings"
	"time"
)

// FlowCatalyst is the layout of a source and the preset of a destination that
// do what FlowCatalyst's outbox processor does. What its users rely on without
// writing it down is in this file; what is written in the file goes before it.
const FlowCatalyst = "flowcatalyst"

// Defaults of FlowCatalyst's outbox processor where ours differ.
const (
	flowCatalystPoll     = Duration(time.Second)
	flowCatalystAttempts = 4 // the first, and max-retries more
	flowCatalystRequests = 10
	flowCatalystGroups   = 1
)

// pollAsFlowCatalyst polls once a second.
func (p *Postgres) pollAsFlowCatalyst(at place) {
	if p.Layout == FlowCatalyst && !at.has("min") {
		p.Poll.Min = min(flowCatalystPoll, p.Poll.Max)
	}
}

// retryAsFlowCatalyst makes failed items wait for the next poll, or for about a
// second when polls are more frequent than that.
func (cfg *Config) retryAsFlowCatalyst(at place, r *Route) {
	src, ok := cfg.Sources[r.From].(*Postgres)
	if !ok || src == nil || src.Layout != FlowCatalyst || at.has("middleware") {
		return
	}
	for _, m := range r.Middleware {
		if retry, ok := m.(*Retry); ok {
			pause := max(flowCatalystPoll-src.Poll.Min, Duration(time.Millisecond))
			*retry = Retry{Attempts: flowCatalystAttempts, Base: pause, Max: pause}
		}
	}
}

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

// isBase tells whether a path can be appended to the URL. One that ends with a
// path of the API was probably meant to be the base.
func (t Template) isBase() bool {
	text := strings.TrimRight(string(t), "/")
	return t.Static() && !strings.ContainsAny(text, "?#") && !strings.HasSuffix(text, "/batch")
}
