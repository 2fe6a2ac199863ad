package main

import (
	"fmt"
	"slices"
)

// scenario is what is compared with what.
type scenario struct {
	name    string
	title   func(o *options) string
	entries func(o *options) []entry
	remarks func(results []result) []string // what the figures mean, a sentence each
}

// entry is one peer with one backlog.
type entry struct {
	peer peer
	rows int
}

// scenarios are all that there are, in the order of -scenario all.
var scenarios = []*scenario{
	{
		name: "drain",
		title: func(o *options) string {
			return fmt.Sprintf("Draining a backlog: %d rows of %d bytes of JSON, %d groups", o.rows, o.payload, o.groups)
		},
		entries: func(o *options) []entry {
			var out []entry
			for _, p := range o.peers {
				out = append(out, entry{p, p.rows(o)})
			}
			return out
		},
		remarks: compare,
	},
	{
		name: "backlog",
		title: func(o *options) string {
			return fmt.Sprintf("The same rate whatever the backlog: %d and %d rows", o.rows, o.backlog)
		},
		entries: func(o *options) []entry { return []entry{{embedded{}, o.rows}, {embedded{}, o.backlog}} },
		remarks: func(results []result) []string {
			shallow, deep := results[0], results[1]
			return []string{fmt.Sprintf("With a backlog of %d rows outrider reaches %.0f%% of its rate with %d.",
				deep.Rows, 100*deep.Rate/shallow.Rate, shallow.Rows)}
		},
	},
}

// compare relates Outrider to the others.
func compare(results []result) []string {
	find := func(p peer) *result {
		i := slices.IndexFunc(results, func(r result) bool { return r.Peer == p.name() })
		if i < 0 {
			return nil
		}
		return &results[i]
	}
	ours, least, theirs := find(embedded{}), find(floor{}), find(stock{})
	var out []string
	if ours != nil && least != nil {
		out = append(out, fmt.Sprintf("outrider reaches %.0f%% of the floor.", 100*ours.Rate/least.Rate))
	}
	if ours != nil && theirs != nil {
		out = append(out, fmt.Sprintf("outrider moves %.0f times as many messages per second as stock.", ours.Rate/theirs.Rate))
		if theirs.Rows < ours.Rows {
			out = append(out, fmt.Sprintf("stock was given %d rows instead of %d: its rate falls with the backlog, so this is in its favour.",
				theirs.Rows, ours.Rows))
		}
	}
	return out
}
