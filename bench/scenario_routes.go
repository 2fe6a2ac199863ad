package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

// routesWays are Outrider with some routes on one table.
var routesWays = []counted{routesWay(1), routesWay(100), routesWay(1000)}

// routesWay is Outrider with so many routes on one table, of which one delivers.
func routesWay(n int) counted {
	e := peers.ToWebhook.As(fmt.Sprintf("%d-routes", n))
	e.Settings = fmt.Sprintf("own table to a webhook with the default settings; routes on the table: %d, of which one delivers", n)
	var more strings.Builder
	for i := range n - 1 {
		fmt.Fprintf(&more, ", more-%d: {from: app, to: partner, match: {types: [\"more.%d\"]}}", i, i)
	}
	e.Config = strings.Replace(e.Config, "start: beginning}}", "start: beginning, match: {types: [\"order.*\"]}}"+more.String()+"}", 1)
	return counted{e, idleStatements}
}

// routesScenario measures what the number of routes costs.
var routesScenario = &scenario{
	name:  "routes",
	about: "What a hundred and a thousand routes cost: at the start, of which the state is empty, and while nothing happens.",
	title: func(o *options) string {
		return fmt.Sprintf("Starting with many routes, and %v of idling", 2*o.duration)
	},
	peers: []peers.Peer{routesWays[0], routesWays[1], routesWays[2]},
	entries: func(*options) (out []entry) {
		for _, way := range routesWays {
			out = append(out, entry{peer: way, sink: measure.Endpoint{Path: peers.HookPath, Read: measure.Webhooks{}}, rows: 1, groups: 1})
		}
		return out
	},
	measure: (*bench).measureRoutes,
	columns: columns{peerColumn, runsColumn,
		figureColumn("start to first delivery, ms", "first delivery (ms)", "%.0f"),
		figureColumn("statements until then", "start (statements)", "%.0f"),
		figureColumn("% of a processor, idle", "processor (%)", "%.2f"),
		figureColumn("statements/s, idle", "statements (1/s)", "%.2f"),
		peakColumn,
	},
	remarks: func([]result) []string { return nil },
}

// measureRoutes is [bench.measureIdle], with what the start asks the database.
func (b *bench) measureRoutes(ctx context.Context, st *stage) (s sample, err error) {
	peer, ok := st.peer.(counted)
	if !ok {
		return s, fmt.Errorf("the statements of %s are not counted", st.peer.Name())
	}
	if err := st.reset(ctx); err != nil {
		return s, err
	}
	all := peer.kinds[len(peer.kinds)-1]
	before, err := all.ask(ctx, st.db)
	if err != nil {
		return s, err
	}
	used, err := b.relayed(ctx, st, func(p *process, to measure.Receiver) error {
		first, err := b.watch(ctx, p, to, st.rows)
		if err != nil {
			return err
		}
		after, err := all.ask(ctx, st.db)
		if err != nil {
			return err
		}
		s.figure("first delivery (ms)", milliseconds(first.Sub(p.began)))
		s.figure("start (statements)", float64(after.minus(before).calls))
		return b.rest(ctx, st, peer, p, &s)
	})
	s.peak = used.peak
	return s, err
}
