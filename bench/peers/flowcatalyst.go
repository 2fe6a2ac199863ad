package peers

import (
	"fmt"
	"strings"
)

// The settings of both Outrider and the floor for FlowCatalyst's tables.
const (
	itemClaim    = 4000   // items of one claim
	itemMemory   = 16_000 // items claimed and not settled
	itemRequests = 32     // requests at once
	ItemRequest  = 100    // items of one request, FlowCatalyst's api-batch-size
	ItemGroups   = 200    // message groups

	// ItemPath is FlowCatalyst's endpoint for events.
	ItemPath = "/api/events/batch"
)

// itemConfig has FlowCatalyst's tables and API at both ends.
const itemConfig = `
admin: {listen: "127.0.0.1:0"}
sources:
  app: {type: postgres, url: {postgres}, layout: flowcatalyst, {claims}}
destinations:
  platform: {type: http, preset: flowcatalyst, url: "{url}", token: benchmark, {requests}}
routes: {items: {from: app, to: platform}}
`

// FastItems is Outrider with the limits of the floor.
var FastItems = Outrider{
	label: OutriderName,
	Settings: fmt.Sprintf("package outrider, layout and preset flowcatalyst, with the floor's limits: poll.batch %d, claims.in_memory %d, "+
		"max_requests %d, poll.min 1ms; all else by default: claims as prefixes of groups, leases, attempts, poison, retry and timeout, metrics",
		itemClaim, itemMemory, itemRequests),
	Config: strings.NewReplacer(
		"{claims}", fmt.Sprintf("poll: {batch: %d, min: 1ms, max: 1s}, claims: {in_memory: %d}", itemClaim, itemMemory),
		"{requests}", fmt.Sprintf("max_requests: %d", itemRequests)).Replace(itemConfig),
	table: queueTable{},
}

// PlainItems is Outrider with FlowCatalyst's defaults.
var PlainItems = Outrider{
	label: OutriderName + "-defaults",
	Settings: "the same with poll-interval 1 s, poll-batch-size 500, global-buffer-size 1000, max-concurrent-groups 10 " +
		"and api-batch-size 100: a poll moves 500 items, whatever the machine is",
	Config: strings.NewReplacer(
		"{claims}", "poll: {batch: 500, min: 1s, max: 1s}, claims: {in_memory: 1000}",
		"{requests}", "max_requests: 10").Replace(itemConfig),
	table: queueTable{},
}
