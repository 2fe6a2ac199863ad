package main

import "fmt"

// jobScenario makes jobs of River of the rows of a table.
var jobScenario = &scenario{
	name:  "jobs",
	about: "How fast rows of a table become jobs of River, each with what records it in one transaction.",
	title: func(o *options) string {
		return fmt.Sprintf("Jobs of River from an outbox table: %d rows of %d bytes of JSON", o.items, o.payload)
	},
	peers: []peer{bareJobs, rowJobs, queuedJobs, loggedJobs},
	entries: func(o *options) (out []entry) {
		few := min(o.items, 20_000) // what is slow stays slow with more
		for _, p := range []peer{bareJobs, queuedJobs, loggedJobs} {
			out = append(out, entry{peer: p, sink: inserted{rows: o.items}, rows: o.items, groups: itemGroups})
		}
		return append(out, entry{peer: rowJobs, sink: inserted{rows: few}, rows: few, groups: itemGroups})
	},
	measure: (*bench).measureDrain,
	columns: drainColumns,
	remarks: func(results []result) (out []string) {
		rate := map[string]float64{}
		for _, r := range results {
			rate[r.Peer] = r.Rate
		}
		for _, ours := range []peer{queuedJobs, loggedJobs} {
			if bare, row, mine := rate[bareJobs.name()], rate[rowJobs.name()], rate[ours.name()]; bare > 0 && row > 0 && mine > 0 {
				out = append(out, fmt.Sprintf("%s makes %.0f%% of the jobs per second that the bare loop makes, and %.1f times as many as row by row.",
					ours.name(), 100*mine/bare, mine/row))
			}
		}
		return out
	},
}
