package main

import (
	"fmt"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

// riverScenario compares two queues in PostgreSQL: River, and Outrider on
// FlowCatalyst's table.
var riverScenario = &scenario{
	name:  "river",
	about: "How fast River works jobs that do nothing, and Outrider claims, delivers and completes items.",
	title: func(o *options) string {
		return fmt.Sprintf("Queues in PostgreSQL: River's jobs and FlowCatalyst's items of %d bytes of JSON", o.payload)
	},
	peers: []peers.Peer{peers.River, peers.RiverInsert, peers.FastItems},
	entries: func(o *options) []entry {
		return []entry{
			{peer: peers.RiverInsert, sink: measure.Jobs{State: "available", Rows: o.items}, rows: o.items, groups: peers.ItemGroups, with: "inserted"},
			{peer: peers.River, sink: measure.Jobs{State: "completed", Rows: o.items}, rows: o.items, groups: peers.ItemGroups, with: "worked, the work is nothing"},
			{peer: peers.FastItems, sink: measure.Endpoint{Path: peers.ItemPath, Read: measure.Batches{}}, rows: o.items, groups: peers.ItemGroups, with: "delivered by HTTP in order"},
		}
	},
	measure: (*bench).measureDrain,
	columns: drainColumns,
	remarks: func(results []result) []string {
		return beside(results, peers.River.Name(),
			"outrider claims, delivers and completes %.1f times as many items per second as river works jobs, and uses %.1f times less processor time for each.")
	},
}
