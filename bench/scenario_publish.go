package main

import (
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

// publishScenario measures the cost of publishing.
var publishScenario = &scenario{
	name:  "publish",
	about: "The cost of publishing, with the client and with waking the relay.",
	title: func(o *options) string {
		return fmt.Sprintf("Publishing: transactions that write one message of %d bytes of JSON and nothing else, for %v, "+
			"while a relay delivers them to nowhere", o.payload, o.duration)
	},
	peers: []peers.Peer{bareWay, clientWay, notifyWay, triggerWay, alwaysWay},
	entries: func(o *options) (out []entry) {
		for _, connections := range []int{1, publishers} {
			for _, p := range []publishing{bareWay, clientWay, notifyWay, triggerWay, alwaysWay} {
				e := entry{peer: p, sink: measure.Topic{}, groups: o.groups, rate: connections, with: fmt.Sprint(connections, " connections")}
				if connections == 1 {
					e.with = "1 connection"
				}
				out = append(out, e)
			}
		}
		return out
	},
	measure:   (*bench).measurePublish,
	inProcess: true,
	columns: columns{peerColumn, withColumn, runsColumn,
		{"transactions/s (median)", func(r *result) string { return fmt.Sprintf("%.0f", r.Rate) }},
		{"lowest to highest", func(r *result) string {
			return fmt.Sprintf("%.0f to %.0f", slices.Min(r.Rates), slices.Max(r.Rates))
		}},
	},
	remarks: func(results []result) []string {
		var out []string
		for _, r := range results {
			for _, bare := range results {
				if bare.Peer == bareWay.label && r.Peer != bareWay.label && bare.With == r.With {
					out = append(out, fmt.Sprintf("%s, %s: %+.1f%% against the plain INSERT.", r.Peer, r.With, 100*(r.Rate/bare.Rate-1)))
				}
			}
		}
		return out
	},
}

// publishers is the number of connections that publish.
const publishers = 8
