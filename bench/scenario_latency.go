package main

import (
	"fmt"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

// The ways whose latency is measured.
var (
	itemWay  = peers.FastItems.As("flowcatalyst")
	hookWay  = peers.ToWebhook.As("webhook")
	topicWay = peers.ToKafka.As("kafka")
)

// delayScenario measures latency at low rates.
var delayScenario = &scenario{
	name:  "latency",
	about: "How long a message takes from its COMMIT to the receiver when there is nothing else to do.",
	title: func(o *options) string {
		return fmt.Sprintf("From COMMIT to the receiver: single rows of %d bytes of JSON, written at random moments for %v, and nothing else to do",
			o.payload, o.duration)
	},
	peers: []peers.Peer{peers.Promptly, itemWay, hookWay, topicWay, peers.Woken, peers.Followed, peers.PromptDebezium},
	entries: func(o *options) []entry {
		return []entry{
			delayEntry(o, itemWay, measure.Endpoint{Path: peers.ItemPath, Read: measure.Batches{}}, 100),
			delayEntry(o, hookWay, measure.Endpoint{Path: peers.HookPath, Read: measure.Webhooks{}}, 100),
			delayEntry(o, topicWay, measure.Tap{}, 10),
			delayEntry(o, peers.Woken, measure.Tap{}, 10),
			delayEntry(o, peers.Followed, measure.Tap{}, 10),
			delayEntry(o, topicWay, measure.Tap{}, 100),
			delayEntry(o, peers.Promptly, measure.Tap{}, 1000),
			delayEntry(o, topicWay, measure.Tap{}, 1000),
			delayEntry(o, peers.Woken, measure.Tap{}, 1000),
			delayEntry(o, peers.Followed, measure.Tap{}, 1000),
			delayEntry(o, peers.PromptDebezium, measure.Tap{}, 1000),
		}
	},
	measure: (*bench).measureDelay,
	columns: delayColumns,
	plots:   distributions,
	remarks: func(results []result) []string {
		var out []string
		for _, r := range results {
			out = append(out, fmt.Sprintf("%s at %s: half of the messages within %.2f ms of their commit.", r.Peer, r.With, r.P50))
		}
		return append(out, compareDelay(results)...)
	},
}

// compareDelay relates Outrider to the other peers at the same rate.
func compareDelay(results []result) []string {
	var out []string
	for _, ours := range results {
		for _, theirs := range results {
			if ours.Peer == topicWay.Name() && (theirs.Peer == peers.Promptly.Name() || theirs.Peer == peers.PromptDebezium.Name()) && ours.With == theirs.With {
				out = append(out, fmt.Sprintf("%s at %s has %.0f%% of %s's p50, and %.0f%% of its p99.",
					ours.Peer, ours.With, 100*ours.P50/theirs.P50, theirs.Peer, 100*ours.P99/theirs.P99))
			}
		}
	}
	return out
}

// publisher is a peer whose table accepts single messages.
type publisher interface {
	peers.Peer

	// Insert is a statement that publishes one message: $1 id, $2 group, $3 payload.
	Insert() string
}

// delayEntry is the entry of a peer at so many messages per second.
func delayEntry(o *options, p publisher, to measure.Sink, rate int) entry {
	return entry{peer: p, sink: to, rows: max(int(float64(rate)*o.duration.Seconds()), 1), groups: o.groups,
		rate: rate, publish: p.Insert(), with: fmt.Sprintf("%d msgs/s", rate)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
