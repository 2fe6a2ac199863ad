package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

// idleLead is the idle time before measuring: by then the pauses between polls have
// their full length.
const idleLead = 5 * time.Second

// versionRuns is the number of starts of the binary.
const versionRuns = 11

// idleStatements are the polls, and all statements.
var idleStatements = []statements{{"polls", `^\s*(SELECT|WITH|\().*outrider_outbox`}, {"statements", `.`}}

// idleWay is Outrider with one route, and manyWay with a hundred.
var (
	idleWay = counted{peers.ToWebhook, idleStatements}
	manyWay = func() counted {
		e := peers.ToWebhook.As("100-routes")
		e.Settings = "the same with a hundred routes on the table, of which one delivers"
		var more strings.Builder
		for i := range 99 {
			fmt.Fprintf(&more, ", more-%d: {from: app, to: partner, match: {types: [\"more.%d\"]}}", i, i)
		}
		e.Config = strings.Replace(e.Config, "start: beginning}}", "start: beginning, match: {types: [\"order.*\"]}}"+more.String()+"}", 1)
		return counted{e, idleStatements}
	}()
)

// idleScenario measures the cost of an idle relay (G9) and of starting.
var idleScenario = &scenario{
	name:  "idle",
	about: "The statements and processor time of an idle relay, and how long starting takes.",
	title: func(o *options) string {
		return fmt.Sprintf("Idle for %v, %v after the last message, polling every second; starting, with one message in the table", 2*o.duration, idleLead)
	},
	peers: []peers.Peer{idleWay, manyWay},
	entries: func(*options) []entry {
		return []entry{
			{peer: idleWay, sink: measure.Endpoint{Path: peers.HookPath, Read: measure.Webhooks{}}, rows: 1, groups: 1},
			{peer: manyWay, sink: measure.Endpoint{Path: peers.HookPath, Read: measure.Webhooks{}}, rows: 1, groups: 1},
		}
	},
	measure: (*bench).measureIdle,
	columns: columns{peerColumn, runsColumn,
		figureColumn("polls/s", "polls (1/s)", "%.2f"),
		figureColumn("statements/s in all", "statements (1/s)", "%.2f"),
		figureColumn("% of a processor", "processor (%)", "%.2f"),
		figureColumn("start to first delivery, ms", "first delivery (ms)", "%.0f"),
		figureColumn("`outrider version`, ms", "version (ms)", "%.0f"),
		peakColumn,
	},
	remarks: func(results []result) []string {
		var out []string
		for _, r := range results {
			out = append(out, fmt.Sprintf("%s: %.2f polls per second (the aim is 1), %.2f%% of a processor (0.5), first delivery %.0f ms after the start (1000), "+
				"`outrider version` takes %.0f ms (100).", r.Peer, r.Figures["polls (1/s)"], r.Figures["processor (%)"], r.Figures["first delivery (ms)"], r.Figures["version (ms)"]))
		}
		return out
	},
}

// measureIdle starts a relay that has one message to deliver and then nothing.
func (b *bench) measureIdle(ctx context.Context, st *stage) (s sample, err error) {
	peer, ok := st.peer.(counted)
	if !ok {
		return s, fmt.Errorf("the statements of %s are not counted", st.peer.Name())
	}
	version, err := b.versionTime(ctx, st.build)
	if err != nil {
		return s, err
	}
	if err := st.reset(ctx); err != nil {
		return s, err
	}
	used, err := b.relayed(ctx, st, func(p *process, to measure.Receiver) error {
		first, err := b.watch(ctx, p, to, st.rows)
		if err != nil {
			return err
		}
		s.figure("first delivery (ms)", milliseconds(first.Sub(p.began)))
		return b.rest(ctx, st, peer, p, &s)
	})
	if err != nil {
		return s, err
	}
	s.peak = used.peak
	s.figure("version (ms)", milliseconds(version))
	return s, nil
}

// rest measures the relay while it is idle.
func (b *bench) rest(ctx context.Context, st *stage, peer counted, p *process, s *sample) error {
	if err := measure.Until(ctx, time.Now().Add(min(idleLead, b.options.duration))); err != nil {
		return err
	}
	var before []cost
	used, begin := measure.CPUTime(p.cmd.Process.Pid), time.Now()
	for _, k := range peer.kinds {
		c, err := k.ask(ctx, st.db)
		if err != nil {
			return err
		}
		before = append(before, c)
	}
	if err := measure.Until(ctx, begin.Add(2*b.options.duration)); err != nil {
		return err
	}
	seconds := time.Since(begin).Seconds()
	s.figure("processor (%)", 100*(measure.CPUTime(p.cmd.Process.Pid)-used).Seconds()/seconds)
	for i, k := range peer.kinds {
		c, err := k.ask(ctx, st.db)
		if err != nil {
			return err
		}
		s.figure(k.name+" (1/s)", float64(c.minus(before[i]).calls)/seconds)
	}
	return nil
}

// versionTime is the median time of `outrider version` of a build.
func (b *bench) versionTime(ctx context.Context, of build) (time.Duration, error) {
	if known, ok := b.versions[of.name]; ok {
		return known, nil // it does not change
	}
	folder, err := os.MkdirTemp("", "outrider-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }() // it is the system's folder for such things
	program := filepath.Join(folder, "outrider")
	if err := runIn(ctx, of.folder, "go", "build", "-o", program, "github.com/outriderhq/outrider/cmd/outrider"); err != nil {
		return 0, err
	}
	var took []time.Duration
	for range versionRuns {
		begin := time.Now()
		if err := exec.CommandContext(ctx, program, "version").Run(); err != nil { //nolint:gosec // what was just built
			return 0, fmt.Errorf("outrider version: %w", err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	if b.versions == nil {
		b.versions = map[string]time.Duration{}
	}
	b.versions[of.name] = took[len(took)/2]
	return b.versions[of.name], nil
}
