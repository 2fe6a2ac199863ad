package main

import (
	"fmt"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

// jobScenario inserts jobs of River for the rows of a table.
var jobScenario = &scenario{
	name:  "jobs",
	about: "How fast rows of a table become jobs of River, each with what records it in one transaction.",
	title: func(o *options) string {
		return fmt.Sprintf("Jobs of River from an outbox table: %d rows of %d bytes of JSON", o.items, o.payload)
	},
	peers: []peers.Peer{peers.BareJobs, peers.RowJobs, peers.QueuedJobs, peers.LoggedJobs},
	entries: func(o *options) (out []entry) {
		few := min(o.items, 20_000) // what is slow stays slow with more
		for _, p := range []peers.Peer{peers.BareJobs, peers.QueuedJobs, peers.LoggedJobs} {
			out = append(out, entry{peer: p, sink: measure.Inserted{Rows: o.items}, rows: o.items, groups: peers.ItemGroups})
		}
		return append(out, entry{peer: peers.RowJobs, sink: measure.Inserted{Rows: few}, rows: few, groups: peers.ItemGroups})
	},
	measure: (*bench).measureDrain,
	columns: drainColumns,
	remarks: func(results []result) (out []string) {
		rate := map[string]float64{}
		for _, r := range results {
			rate[r.Peer] = r.Rate
		}
		for _, ours := range []peers.Peer{peers.QueuedJobs, peers.LoggedJobs} {
			if bare, row, mine := rate[peers.BareJobs.Name()], rate[peers.RowJobs.Name()], rate[ours.Name()]; bare > 0 && row > 0 && mine > 0 {
				out = append(out, fmt.Sprintf("%s makes %.0f%% of the jobs per second that the bare loop makes, and %.1f times as many as row by row.",
					ours.Name(), 100*mine/bare, mine/row))
			}
		}
		return out
	},
}
