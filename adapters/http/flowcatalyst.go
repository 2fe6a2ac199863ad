package http

import (
	"maps"

	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// FlowCatalyst's endpoints, relative to the base URL of its API.
const (
	FlowCatalystEvents       = "/api/events/batch"
	FlowCatalystDispatchJobs = "/api/dispatch/jobs/batch"

	FlowCatalystDispatchJobsV2 = "/api/dispatch-jobs/batch" // as the current API has it
	FlowCatalystAuditLogs      = "/api/audit-logs/batch"
)

// FlowCatalystRequests is how many requests are sent to FlowCatalyst at once:
// the groups that its own processor works on at a time.
const FlowCatalystRequests = 10

// FlowCatalyst completes a configuration for the API of FlowCatalyst, whose
// base URL it has: a JSON array of the payloads as they are stored, at most 100
// of one group in a request, 10 requests at once, 10 s to connect and 30 s for
// a request. Values that cfg has already stay, except for paths and format.
//
// Rows of kind EVENT go to /api/events/batch, those of kind DISPATCH_JOB to
// /api/dispatch/jobs/batch. Messages without a kind, of tables that hold one
// kind of rows only, are events; another kind is dead at once.
//
// A status of 400 or more is a failed attempt of every item of the request. Those
// which say that the platform takes nothing now, or nothing from us, count for
// nobody: 401, 403, 404, 405, 407, 429, 502, 503, 504, and 410.
func FlowCatalyst(cfg Config) Config {
	cfg.Format = format.Raw
	cfg.Paths = map[string]string{
		string(outbox.FlowCatalystEvent): FlowCatalystEvents, "": FlowCatalystEvents,
		string(outbox.FlowCatalystDispatchJob): FlowCatalystDispatchJobs,
	}
	cfg.Whole = true
	setDefault(&cfg.ConnectTimeout, DefaultConnectTimeout)
	setDefault(&cfg.Timeout, DefaultTimeout)
	setDefault(&cfg.MaxMessages, DefaultMaxMessages)
	setDefault(&cfg.MaxGroups, 1)
	setDefault(&cfg.MaxRequests, FlowCatalystRequests)
	statuses := FlowCatalystStatuses()
	maps.Copy(statuses, cfg.Statuses)
	cfg.Statuses = statuses
	return cfg
}

// FlowCatalystV2 completes a configuration for the API that FlowCatalyst's current SDKs write rows for: {"items": [...]}, at
// most 100 in a request and of each group one, to /api/events/batch, /api/dispatch-jobs/batch and /api/audit-logs/batch by the
// kind of the rows. The answer has the result of each item. Values that cfg has already stay, except for paths and format.
//
// BAD_REQUEST and FORBIDDEN of an item are permanent, SKIPPED is success, everything else is a failed attempt. Of
// answers without results 400 is permanent, for the item that it turns out to be about; the others are as [FlowCatalyst] has them.
func FlowCatalystV2(cfg Config) Config {
	cfg.Format, cfg.Items = format.Raw, true
	cfg.Paths = map[string]string{
		string(outbox.FlowCatalystEvent): FlowCatalystEvents, string(outbox.FlowCatalystDispatchJob): FlowCatalystDispatchJobsV2,
		"AUDIT_LOG": FlowCatalystAuditLogs,
	}
	setDefault(&cfg.ConnectTimeout, DefaultConnectTimeout)
	setDefault(&cfg.Timeout, DefaultTimeout)
	setDefault(&cfg.MaxMessages, DefaultMaxMessages)
	setDefault(&cfg.MaxRequests, FlowCatalystRequests)
	statuses := FlowCatalystStatuses()
	statuses[400] = outbox.KindPermanent
	maps.Copy(statuses, cfg.Statuses)
	cfg.Statuses = statuses
	return cfg
}

// FlowCatalystStatuses says what statuses mean to [FlowCatalyst] where that
// differs from [DefaultStatuses]: what would be permanent is another attempt.
func FlowCatalystStatuses() map[int]outbox.Kind {
	table, usual := map[int]outbox.Kind{}, DefaultStatuses()
	for status := 400; status < 500; status++ {
		if kind, ok := usual[status]; !ok || kind == outbox.KindPermanent {
			table[status] = outbox.KindTransient
		}
	}
	return table
}
