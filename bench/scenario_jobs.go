package main

import (
	"fmt"
	"strings"
)

// Outrider that makes jobs of River, of Yantra's rows and of its own.
var (
	queuedJobs = jobRelay{embedded{
		label: outriderName,
		settings: "package outrider, layout yantra with poll.min 1ms, poll.batch 10000 and claims.in_memory 20000, and type: river; all else by default: " +
			"16 lanes, transactions of 500 jobs, leases, notes of attempts, metrics",
		config: strings.NewReplacer("{source}", ", layout: yantra, poll: {batch: 10000, min: 1ms, max: 1s}, claims: {in_memory: 20000}", "{route}", "").Replace(jobConfig),
		table:  yantraTable{},
	}}
	loggedJobs = jobRelay{embedded{
		label:    outriderName + "-own",
		settings: "package outrider with its own table and type: river; all else by default",
		config:   strings.NewReplacer("{source}", "", "{route}", ", start: beginning").Replace(jobConfig),
		table:    ownTable{},
	}}
)

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
			out = append(out, entry{peer: p, sink: inserted{o.items}, rows: o.items, groups: itemGroups})
		}
		return append(out, entry{peer: rowJobs, sink: inserted{few}, rows: few, groups: itemGroups})
	},
	measure: (*bench).measureDrain,
	columns: drainColumns,
	remarks: func(results []result) (out []string) {
		rate := map[string]float64{}
		for _, r := range results {
			rate[r.Peer] = r.Rate
		}
		for _, ours := range []peer{queuedJobs, loggedJobs} {
			if bare, row, mine := rate[bareJobs.label], rate[rowJobs.label], rate[ours.name()]; bare > 0 && row > 0 && mine > 0 {
				out = append(out, fmt.Sprintf("%s makes %.0f%% of the jobs per second that the bare loop makes, and %.1f times as many as row by row.",
					ours.name(), 100*mine/bare, mine/row))
			}
		}
		return out
	},
}
