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
	neighbourRate = 1000        // messages per second when time is measured
	neighbourLead = time.Second // the beginning, which does not count
	poisonedGroup = 7           // whose messages the receiver refuses
	otherPath     = "/others"   // where the other route delivers to
	otherDigit    = 9           // groups whose number ends so go there
)

// twoRoutes is Outrider with a route for most groups and another one for a tenth
// of them, each to a destination of its own.
var twoRoutes = func() peers.Outrider {
	e := peers.ToWebhook
	e.Settings = "package outrider, own table, two routes to two webhooks with the default settings"
	e.Config = `
admin: {listen: "127.0.0.1:0"}
drain_timeout: 2s
sources: {app: {type: postgres, url: {postgres}}}
destinations:
  partner: {type: webhook, url: "{url}` + peers.HookPath + `", secrets: ["` + measure.WebhookSecret + `"], allow_private: true}
  other: {type: webhook, url: "{url}` + otherPath + `", secrets: ["` + measure.WebhookSecret + `"], allow_private: true}
routes:
  orders: {from: app, to: partner, start: beginning, match: {types: ["order.*"]}}
  others: {from: app, to: other, start: beginning, match: {types: ["other.*"]}}
`
	return e
}()

// mixedRows writes messages of both types.
var mixedRows = strings.Replace(ownRows, "'order.created'",
	fmt.Sprintf("CASE WHEN name LIKE '%%%d' THEN 'other.created' ELSE 'order.created' END", otherDigit), 1)

// trouble is a misbehaviour of the receiver, and the groups that it affects.
type trouble struct {
	name string
	measure.Manners
	affects func(group int) bool
}

// troubles must not slow unaffected groups down. The first is no trouble.
var troubles = []trouble{
	{"all well", measure.Manners{}, onOtherRoute},
	{"1 group poisoned", measure.Manners{Refuse: poisonedGroup}, func(group int) bool { return onOtherRoute(group) || group == poisonedGroup }},
	{"1 of 2 destinations hangs", measure.Manners{Hang: otherPath}, onOtherRoute},
}

func onOtherRoute(group int) bool { return group%10 == otherDigit }

// neighbourScenario measures unaffected groups during trouble (G6).
var neighbourScenario = &scenario{
	name:  "peers",
	about: "How a poisoned group, or one of two destinations that hangs, affects other messages.",
	title: func(o *options) string {
		return fmt.Sprintf("A poisoned group, and a destination that hangs: %d groups, a tenth of them on a route of its own; "+
			"%d messages per second for %v, and a backlog of %d; figures are those of the main route without the poisoned group",
			neighbourGroups(o), neighbourRate, o.duration, neighbourRows(o))
	},
	peers: []peers.Peer{twoRoutes},
	entries: func(o *options) []entry {
		var out []entry
		for _, rate := range []int{neighbourRate, 0} {
			for _, t := range troubles {
				e := entry{peer: twoRoutes, sink: measure.Endpoint{Path: peers.HookPath, Read: measure.Webhooks{}, Manners: t.Manners}, rows: neighbourRows(o), groups: neighbourGroups(o),
					with: "backlog, " + t.name, flow: &measure.FlowSpec{Per: measure.CommitRows, Insert: mixedRows, Uncounted: t.affects}}
				if rate > 0 {
					lead := min(neighbourLead, o.duration)
					e.rows, e.with = max(int(float64(rate)*(o.duration+lead).Seconds()), 1), fmt.Sprintf("%d msgs/s, %s", rate, t.name)
					e.flow = &measure.FlowSpec{Rate: rate, Per: 1, Insert: mixedRows, Lead: lead, Uncounted: t.affects}
				}
				out = append(out, e)
			}
		}
		return out
	},
	measure: (*bench).measureNeighbours,
	columns: columns{peerColumn, rowsColumn, withColumn, runsColumn,
		{"msgs/s (median)", func(r *result) string { return fmt.Sprintf("%.0f", r.Rate) }},
		{"p50 ms (median)", func(r *result) string { return timesOf(r, r.P50) }},
		{"p99 ms (median)", func(r *result) string { return timesOf(r, r.P99) }},
		cpuColumn, peakColumn,
	},
	remarks: compareNeighbours,
}

func neighbourRows(o *options) int   { return max(o.hooks/5, 1) }
func neighbourGroups(o *options) int { return max(o.groups, 10) }

// timesOf is empty for a backlog, whose messages wait for each other.
func timesOf(r *result, ms float64) string {
	if strings.HasPrefix(r.With, "backlog") {
		return ""
	}
	return fmt.Sprintf("%.2f", ms)
}

// compareNeighbours relates the results with trouble to those without.
func compareNeighbours(results []result) []string {
	var out []string
	for _, r := range results {
		kind, what, _ := strings.Cut(r.With, ", ")
		for _, well := range results {
			if what == troubles[0].name || well.With != kind+", "+troubles[0].name {
				continue
			}
			if kind == "backlog" {
				out = append(out, fmt.Sprintf("%s: the throughput of other messages is %.0f%% of that with no fault; the aim is 95%%.", what, 100*r.Rate/well.Rate))
			} else {
				out = append(out, fmt.Sprintf("%s: the p99 of other messages is %+.0f%% compared with no fault; the aim is below 10%%.", what, 100*(r.P99/well.P99-1)))
			}
		}
	}
	return out
}

// measureNeighbours delivers at a rate, or a backlog that is written before the relay
// starts, and counts the unaffected messages.
func (b *bench) measureNeighbours(ctx context.Context, st *stage) (s sample, err error) {
	f, to, err := b.openFlow(ctx, st)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	others := f.Expected()
	if st.flow.Rate == 0 {
		if err := f.Write(ctx, st.postgres); err != nil {
			return s, err
		}
	}
	p, err := b.launch(ctx, st, to)
	if err != nil {
		return s, err
	}
	elapsed, err := b.deliver(ctx, st, p, f, to, others)
	if err != nil {
		p.kill()
		return s, err
	}
	if h, ok := to.(interface{ Release() }); ok {
		h.Release()
	}
	used, err := p.stop()
	if err != nil {
		return s, err
	}
	if err := f.Verify(); err != nil {
		return s, fmt.Errorf("the run does not count: %w", err)
	}
	s = newSample(others, elapsed, used)
	s.timed(f.Delays())
	return s, nil
}

// deliver returns the time until the unaffected messages had arrived, for a backlog
// from the start of the relay.
func (b *bench) deliver(ctx context.Context, st *stage, p *process, f *measure.Flow, to measure.Receiver, others int) (time.Duration, error) {
	if st.flow.Rate > 0 {
		return b.through(ctx, st, p, f, to, others, sampling{})
	}
	last, err := b.watch(ctx, p, to, others)
	return last.Sub(p.began), err
}
