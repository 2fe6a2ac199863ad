package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

// scenario compares peers, each in one or more entries.
type scenario struct {
	name    string
	about   string // what it measures, a sentence
	title   func(o *options) string
	peers   []peers.Peer
	entries func(o *options) []entry // with any of the peers
	measure func(b *bench, ctx context.Context, st *stage) (sample, error)
	columns columns
	remarks func(results []result) []string // what the figures mean, a sentence each
	plots   func(results []result) []plot   // nil: none

	once      bool // a run is so long that it needs no repetition and no warm-up
	inProcess bool // the relay runs in this process
}

// entry is one peer with one backlog and one destination: a line of the table.
type entry struct {
	peer   peers.Peer
	sink   measure.Sink
	rows   int
	groups int
	lead   int    // of the rows: those that arrive before the clock starts, to warm the relay
	with   string // what is special about it, for the reader

	// Messages that are written per second while the clock runs, and the
	// statement for one: $1 id, $2 group, $3 payload. 0: all are there before.
	rate    int
	publish string

	flow *measure.FlowSpec // the rows are written while the clock runs; nil: they are not
}

// scenarios are all scenarios, in the order of -scenario all.
var scenarios = []*scenario{drainScenario, flatScenario, itemScenario, mariaScenario, documentScenario, hookScenario, delayScenario,
	publishScenario, riverScenario, jobScenario, sustainedScenario, snapshotScenario, spreadScenario, neighbourScenario, faultScenario, idleScenario, routesScenario}

var drainScenario = &scenario{
	name:  "drain",
	about: "How fast a backlog of the own table arrives in Kafka, compared with the floor, the stock pipeline and Debezium.",
	title: func(o *options) string {
		return fmt.Sprintf("Draining a backlog: %d rows of %d bytes of JSON, %d groups", o.rows, o.payload, o.groups)
	},
	peers: []peers.Peer{peers.Floor, peers.ToKafka, peers.Chained(), peers.Stock, peers.ColdDebezium, peers.FastDebezium},
	entries: func(o *options) []entry {
		entries := []entry{
			{peer: peers.Floor, sink: measure.Topic{}, rows: o.rows, groups: o.groups},
			{peer: peers.ToKafka, sink: measure.Topic{}, rows: o.rows, groups: o.groups},
			{peer: peers.Chained(), sink: measure.Topic{}, rows: o.rows, groups: o.groups},
			{peer: peers.Stock, sink: measure.Topic{}, rows: min(o.rows, o.stockRows), groups: o.groups},
			{peer: peers.ColdDebezium, sink: measure.Topic{}, rows: o.rows, groups: o.groups},
			{peer: peers.FastDebezium, sink: measure.Topic{}, rows: o.rows, groups: o.groups, with: warmed},
		}
		if o.rows < peers.DebeziumWarmRows { // too few to tell when the first of them have arrived
			return entries
		}
		return append(entries, entry{peer: peers.ToKafka, sink: measure.Topic{}, rows: o.rows + peers.DebeziumWarmRows, groups: o.groups,
			lead: peers.DebeziumWarmRows, with: warmed})
	},
	measure: (*bench).measureDrain,
	columns: drainColumns,
	remarks: compare,
	plots:   sideBySide,
}

// warmed marks the entry of a peer whose start does not count.
const warmed = "warm"

// scenarioNamed returns nil for an unknown name.
func scenarioNamed(name string) *scenario {
	i := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return scenarios[i]
}

// peerNamed returns nil for an unknown name.
func (sc *scenario) peerNamed(name string) peers.Peer {
	for _, p := range sc.peers {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// selected returns the entries whose peers -peers names.
func (sc *scenario) selected(o *options) []entry {
	return slices.DeleteFunc(sc.entries(o), func(e entry) bool {
		return !slices.Contains(o.peers, peerKind(e.peer)) && !slices.Contains(o.peers, e.peer.Name())
	})
}

// resultOf returns the first of the results that is meant; nil: there is none.
func resultOf(results []result, is func(*result) bool) *result {
	for i := range results {
		if is(&results[i]) {
			return &results[i]
		}
	}
	return nil
}

// beside relates Outrider to another peer: format has how many times its rate is, and how many times less processor time it uses.
func beside(results []result, name, format string) []string {
	ours := resultOf(results, func(r *result) bool { return r.Peer == peers.OutriderName })
	theirs := resultOf(results, func(r *result) bool { return r.Peer == name })
	if ours == nil || theirs == nil {
		return nil
	}
	return []string{fmt.Sprintf(format, ours.Rate/theirs.Rate, theirs.CPU/ours.CPU)}
}

// compare relates Outrider to the other peers.
func compare(results []result) []string {
	find := func(name, with string) *result {
		return resultOf(results, func(r *result) bool { return r.Peer == name && r.With == with })
	}
	ours, theirs := find(peers.OutriderName, ""), find(peers.Stock.Name(), "")
	out := compareFloor(results)
	for _, c := range []struct {
		ours, log *result
		clocks    string
	}{
		{ours, find(peers.ColdDebezium.Name(), ""), "both from the start of their processes"},
		{find(peers.OutriderName, warmed), find(peers.FastDebezium.Name(), warmed), "both warm"},
		{ours, find(peers.FastDebezium.Name(), warmed), "debezium warm and outrider from the start of its process"},
	} {
		if c.ours != nil && c.log != nil {
			out = append(out, fmt.Sprintf("outrider moves %.1f times as many messages per second as debezium, %s, and uses %.1f times less processor time for each.",
				c.ours.Rate/c.log.Rate, c.clocks, c.log.CPU/c.ours.CPU))
		}
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

// compareFloor relates Outrider to the floor with the same backlog and sink.
func compareFloor(results []result) []string {
	var out []string
	for _, ours := range results {
		for _, least := range results {
			if ours.Peer != peers.OutriderName && ours.Peer != peers.ChainsName || least.Peer != peers.Floor.Name() || ours.With != least.With || ours.Rows != least.Rows {
				continue
			}
			of := ""
			if ours.With != "" {
				of = fmt.Sprintf(" of %d rows, %s", ours.Rows, ours.With)
			}
			out = append(out, fmt.Sprintf("%s reaches %.0f%% of the floor%s.", ours.Peer, 100*ours.Rate/least.Rate, of))
		}
	}
	return out
}
