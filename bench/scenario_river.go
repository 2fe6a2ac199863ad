package main

import "fmt"

// riverScenario sets River, as a queue in PostgreSQL, beside Outrider on
// FlowCatalyst's table, which is one too.
var riverScenario = &scenario{
	name:  "river",
	about: "How fast River works jobs that do nothing, and Outrider claims, delivers and completes items.",
	title: func(o *options) string {
		return fmt.Sprintf("Queues in PostgreSQL: River's jobs and FlowCatalyst's items of %d bytes of JSON", o.payload)
	},
	peers: []peer{River, RiverInsert, fastItems},
	entries: func(o *options) []entry {
		return []entry{
			{peer: RiverInsert, sink: jobs{state: "available", rows: o.items}, rows: o.items, groups: itemGroups, with: "inserted"},
			{peer: River, sink: jobs{state: "completed", rows: o.items}, rows: o.items, groups: itemGroups, with: "worked, the work is nothing"},
			{peer: fastItems, sink: endpoint{path: itemPath, read: batches{}}, rows: o.items, groups: itemGroups, with: "delivered by HTTP in order"},
		}
	},
	measure: (*bench).measureDrain,
	columns: drainColumns,
	remarks: func(results []result) []string {
		var out []string
		for _, ours := range results {
			for _, theirs := range results {
				if ours.Peer == outriderName && theirs.Peer == River.name() {
					out = append(out, fmt.Sprintf("outrider claims, delivers and completes %.1f times as many items per second as river works jobs, and uses %.1f times less "+
						"processor time for each.", ours.Rate/theirs.Rate, theirs.CPU/ours.CPU))
				}
			}
		}
		return out
	},
}
