package main

import (
	"fmt"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

// itemScenario drains FlowCatalyst's table to its API.
var itemScenario = &scenario{
	name:  "flowcatalyst",
	about: "How fast FlowCatalyst's items arrive at an HTTP API, which answers at once or after 10 ms.",
	title: func(o *options) string {
		return fmt.Sprintf("FlowCatalyst's table to its HTTP API: items of %d bytes of JSON, %d groups, at most %d items of one group in a request",
			o.payload, peers.ItemGroups, peers.ItemRequest)
	},
	peers: []peers.Peer{peers.ItemFloor, peers.FastItems, peers.PlainItems},
	entries: func(o *options) []entry {
		var out []entry
		for _, rows := range []int{max(o.items/10, 1), o.items} {
			for _, delay := range []time.Duration{0, 10 * time.Millisecond} {
				for _, p := range []peers.Peer{peers.ItemFloor, peers.FastItems} {
					out = append(out, itemEntry(p, rows, delay))
				}
			}
		}
		return append(out, itemEntry(peers.PlainItems, max(o.items/50, 1), 0))
	},
	measure: (*bench).measureDrain,
	columns: drainColumns,
	remarks: compareFloor,
}

func itemEntry(p peers.Peer, rows int, delay time.Duration) entry {
	return entry{peer: p, sink: measure.Endpoint{Path: peers.ItemPath, Delay: delay, Read: measure.Batches{}}, rows: rows, groups: peers.ItemGroups,
		with: fmt.Sprintf("answers after %d ms", delay.Milliseconds())}
}

// mariaScenario and documentScenario drain it in other databases.
var (
	mariaScenario = storedScenario("mariadb", "FlowCatalyst's table in MariaDB", peers.MariaFloor, peers.MariaRelay, func(o *options) []int { return []int{max(o.items/10, 1), o.items} })

	// The server of MongoDB's protocol that `make bench` starts sorts without an index, so it gets few documents.
	documentScenario = storedScenario("mongodb", "FlowCatalyst's collection in MongoDB", peers.DocumentFloor, peers.DocumentRelay, func(o *options) []int { return []int{max(o.items/200, 1)} })
)

func storedScenario(name, what string, least, ours peers.Peer, rows func(o *options) []int) *scenario {
	return &scenario{
		name:  name,
		about: "How fast the items of " + what + " arrive at an HTTP API.",
		title: func(o *options) string {
			return fmt.Sprintf("%s to its HTTP API: items of %d bytes of JSON, %d groups, at most %d items of one group in a request",
				what, o.payload, peers.ItemGroups, peers.ItemRequest)
		},
		peers: []peers.Peer{least, ours},
		entries: func(o *options) (out []entry) {
			for _, n := range rows(o) {
				for _, p := range []peers.Peer{least, ours} {
					e := itemEntry(p, n, 0)
					e.with = ""
					out = append(out, e)
				}
			}
			return out
		},
		measure: (*bench).measureDrain,
		columns: drainColumns,
		remarks: compareFloor,
	}
}

func hookEntry(o *options, p peers.Peer, rows int) entry {
	return entry{peer: p, sink: measure.Endpoint{Path: peers.HookPath, Read: measure.Webhooks{}}, rows: rows, groups: o.groups}
}

// hookScenario drains Outrider's own table to webhooks.
var hookScenario = &scenario{
	name:  "webhooks",
	about: "How fast a backlog of the own table arrives as signed webhooks, over 64 connections.",
	title: func(o *options) string {
		return fmt.Sprintf("Own table to signed webhooks: %d rows of %d bytes of JSON, %d groups, %d connections",
			o.hooks, o.payload, o.groups, peers.HookRequests)
	},
	peers: []peers.Peer{peers.HookFloor, peers.ToWebhook, peers.Graphile},
	entries: func(o *options) []entry {
		var out []entry
		for _, p := range []peers.Peer{peers.HookFloor, peers.ToWebhook} {
			out = append(out, hookEntry(o, p, o.hooks))
		}
		return append(out, hookEntry(o, peers.Graphile, max(o.hooks/5, 1))) // what is slow stays slow with more
	},
	measure: (*bench).measureDrain,
	columns: drainColumns,
	remarks: func(results []result) []string {
		return append(compareFloor(results), beside(results, peers.Graphile.Name(),
			"outrider sends %.1f times as many webhooks per second as graphile, and uses %.1f times less processor time for each; graphile was given fewer.")...)
	},
}
