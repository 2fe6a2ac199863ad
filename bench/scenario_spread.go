package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

const (
	// spreadRequests is the number of requests in flight of one instance. With a
	// receiver that takes 5 ms it delivers at most 1,600 messages per second, far
	// less than the processors allow three instances.
	spreadRequests = 8
	spreadDelay    = 5 * time.Millisecond

	spreadInstances = 3

	// spreadPart is the part of the messages that counts for the rate. Lanes have
	// unequal parts of the groups, and 16 lanes cannot be divided by three, so one
	// instance runs dry after about nine tenths. On a busy route none does.
	spreadPart = 3. / 4
	spreadPer  = 1000 // messages in a transaction

	// spreadLimit limits the wait for an equal spread of lanes; then the run
	// continues.
	spreadLimit = 10 * time.Second
)

// toSlow is Outrider with few requests in flight and a slow receiver.
var toSlow = func() peers.Outrider {
	e := peers.ToWebhook
	e.Settings = strings.Replace(e.Settings, fmt.Sprint("max_requests ", peers.HookRequests), fmt.Sprint("max_requests ", spreadRequests), 1)
	e.Settings = strings.Replace(e.Settings, "the default settings: ", "", 1)
	e.Config = strings.Replace(e.Config, "allow_private: true", fmt.Sprint("allow_private: true, max_requests: ", spreadRequests), 1)
	return e
}()

// several is Outrider with several instances.
type several struct {
	peers.Outrider
	instances int
}

// spreadScenario has several instances share one route.
var spreadScenario = &scenario{
	name:  "spread",
	about: "How much faster one hot route is with three instances, when the receiver is slow.",
	title: func(o *options) string {
		return fmt.Sprintf("One route, one and %d instances, a receiver that answers after %v, %d requests at a time per instance: %d rows of %d bytes of JSON, "+
			"written when the lanes are spread; the rate is that of the first %.0f%%, while no instance has run dry", spreadInstances, spreadDelay, spreadRequests, spreadRows(o), o.payload, 100*spreadPart)
	},
	peers: []peers.Peer{several{Outrider: toSlow}},
	entries: func(o *options) []entry {
		var out []entry
		for _, n := range []int{1, spreadInstances} {
			e := entry{peer: several{toSlow, n}, sink: measure.Endpoint{Path: peers.HookPath, Delay: spreadDelay, Read: measure.Webhooks{}}, rows: spreadRows(o), groups: o.groups,
				with: fmt.Sprint(n, " instances"), flow: &measure.FlowSpec{Per: spreadPer, Insert: ownRows}}
			if n == 1 {
				e.with = "1 instance"
			}
			out = append(out, e)
		}
		return out
	},
	measure: (*bench).measureSpread,
	columns: columns{peerColumn, rowsColumn, withColumn, runsColumn,
		{"msgs/s (median)", func(r *result) string { return fmt.Sprintf("%.0f", r.Rate) }},
		figureColumn("instances with lanes", "instances with lanes", "%.0f"),
		figureColumn("spread within ms", "spread within (ms)", "%.0f"),
		cpuColumn, peakColumn,
	},
	remarks: func(results []result) []string {
		if len(results) < 2 {
			return nil
		}
		return []string{fmt.Sprintf("%s deliver %.2f times as many messages per second as %s; the aim is 2.5.",
			results[1].With, results[1].Rate/results[0].Rate, results[0].With)}
	},
}

func spreadRows(o *options) int { return max(o.hooks/5, 1) }

// measureSpread starts the instances, waits until each has its share of the
// lanes, and then writes.
func (b *bench) measureSpread(ctx context.Context, st *stage) (s sample, err error) {
	peer, ok := st.peer.(several)
	if !ok {
		return s, fmt.Errorf("there is only one %s", st.peer.Name())
	}
	f, to, err := b.openFlow(ctx, st)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	var relays []*process
	defer func() {
		for _, p := range relays {
			p.kill() // a no-op for stopped ones
		}
	}()
	begin := time.Now()
	for range peer.instances {
		p, err := b.launch(ctx, st, to)
		if err != nil {
			return s, err
		}
		relays = append(relays, p)
	}
	owners, err := st.awaitSpread(ctx, peer.instances)
	if err != nil {
		return s, err
	}
	s.figure("instances with lanes", float64(owners))
	s.figure("spread within (ms)", milliseconds(time.Since(begin)))
	part := int(spreadPart * float64(st.rows))
	elapsed, err := b.through(ctx, st, relays[0], f, to, part, sampling{})
	if err != nil {
		return s, err
	}
	if _, err := b.watch(ctx, relays[0], to, st.rows); err != nil {
		return s, err
	}
	var used usage
	for _, p := range relays {
		one, err := p.stop()
		if err != nil {
			return s, err
		}
		used.cpu, used.peak = used.cpu+one.cpu, max(used.peak, one.peak)
	}
	if err := f.Verify(); err != nil {
		return s, fmt.Errorf("the run does not count: %w", err)
	}
	whole := newSample(st.rows, elapsed, used)
	whole.rate = float64(part) / elapsed.Seconds()
	whole.figures = s.figures
	return whole, nil
}

// awaitSpread waits until all instances have an equal share, or for [spreadLimit],
// and returns how many have lanes.
func (st *stage) awaitSpread(ctx context.Context, instances int) (owners int, err error) {
	limit := time.Now().Add(spreadLimit)
	err = measure.Poll(ctx, 2*spreadLimit, "no instance has taken the route's lanes", func() (bool, error) {
		var lanes, most, least int
		err := st.db.QueryRow(ctx, `SELECT count(*), coalesce(sum(n), 0), coalesce(max(n), 0), coalesce(min(n), 0)
			FROM (SELECT count(*) AS n FROM outrider_cursor WHERE owner IS NOT NULL GROUP BY owner) o`).Scan(&owners, &lanes, &most, &least)
		spread := lanes == laneCount && (owners == instances && most-least <= 1 || time.Now().After(limit))
		return spread, err
	})
	return owners, err
}

// laneCount is the number of lanes of a route.
const laneCount = 16
