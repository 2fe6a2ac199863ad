package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"

	"github.com/jackc/pgx/v5"
)

const (
	heldRate   = 1000            // messages per second while a snapshot is held
	heldLead   = 5 * time.Second // without one, for comparison
	heldSample = time.Second     // how often the server's counters are asked
)

// The tables whose cost is shown while a snapshot is held.
var (
	heldLog   = counted{peers.ToKafka.As("kafka"), logStatements}
	heldQueue = counted{peers.FastItems.As("flowcatalyst"), queueStatements}
)

// snapshotScenario holds a snapshot open, so that no dead row can be removed (G5).
var snapshotScenario = &scenario{
	name:  "snapshot",
	about: "What settling, reading and claiming cost PostgreSQL while a snapshot is held open in the same database.",
	title: func(o *options) string {
		return fmt.Sprintf("A snapshot that is held open in the same database for %v: %d messages per second of %d bytes of JSON meanwhile; "+
			"%v before it, for comparison", o.hold, heldRate, o.payload, heldLead)
	},
	peers: []peers.Peer{heldLog, heldQueue},
	entries: func(o *options) []entry {
		lead := min(heldLead, o.hold/4)
		rows := max(int(heldRate*(o.hold+lead).Seconds()), 1)
		spec := func(insert string) *measure.FlowSpec {
			return &measure.FlowSpec{Rate: heldRate, Per: 1, Insert: insert, Lead: lead}
		}
		return []entry{
			{peer: heldLog, sink: measure.Tap{}, rows: rows, groups: o.groups, flow: spec(ownRows)},
			{peer: heldQueue, sink: measure.Endpoint{Path: peers.ItemPath, Read: measure.Batches{}}, rows: rows, groups: peers.ItemGroups, flow: spec(itemRows)},
		}
	},
	measure: (*bench).measureSnapshot,
	columns: columns{peerColumn, rowsColumn,
		figureColumn("settle before, ms", "settle before (ms)", "%.2f"),
		figureColumn("settle at the end, ms", "settle at the end (ms)", "%.2f"),
		figureColumn("settling before, us/msg", "settle before (us/msg)", "%.1f"),
		figureColumn("settling at the end, us/msg", "settle at the end (us/msg)", "%.1f"),
		figureColumn("WAL bytes of settling per msg", "settle WAL (bytes/msg)", "%.0f"),
		figureColumn("reading before, us/msg", "read before (us/msg)", "%.1f"),
		figureColumn("reading at the end, us/msg", "read at the end (us/msg)", "%.1f"),
		figureColumn("claiming before, us/msg", "claim before (us/msg)", "%.1f"),
		figureColumn("claiming at the end, us/msg", "claim at the end (us/msg)", "%.1f"),
		{"p50 ms", func(r *result) string { return fmt.Sprintf("%.2f", r.P50) }},
		{"p99 ms", func(r *result) string { return fmt.Sprintf("%.2f", r.P99) }},
	},
	remarks: func(results []result) []string {
		var out []string
		for _, r := range results {
			out = append(out, fmt.Sprintf("%s: settling costs PostgreSQL %.1f us for each message before the snapshot and %.1f us at its end (%.2f and %.2f ms for one settle), "+
				"and writes %.0f bytes of log for each message.",
				r.Peer, r.Figures["settle before (us/msg)"], r.Figures["settle at the end (us/msg)"],
				r.Figures["settle before (ms)"], r.Figures["settle at the end (ms)"], r.Figures["settle WAL (bytes/msg)"]))
		}
		return out
	},
	plots: func(results []result) []plot {
		each := plot{file: "snapshot.svg", title: "Cost of a settle while a snapshot is held open", x: "seconds since the snapshot", y: "milliseconds of PostgreSQL's time"}
		all := plot{file: "snapshot-messages.svg", title: "Cost for each message while a snapshot is held open", x: "seconds since the snapshot",
			y: "microseconds of PostgreSQL's time"}
		for _, r := range results {
			for _, c := range r.Curves {
				c.Name = r.Peer + ": " + c.Name
				if strings.HasSuffix(c.Name, eachSettle) {
					each.lines = append(each.lines, c)
				} else {
					all.lines = append(all.lines, c)
				}
			}
		}
		return []plot{each, all}
	},
	once: true,
}

// eachSettle names the curve of the cost of one settle.
const eachSettle = "a settle"

// costs are samples of the cost of kinds of statements.
type costs struct {
	kinds   []statements
	db      *pgx.Conn
	flow    *measure.Flow
	samples []costSample
}

// costSample is the cost until a time, by kind, and the number of arrived messages.
type costSample struct {
	at    time.Duration
	came  int
	spent []cost
}

func (c *costs) take(ctx context.Context, at time.Duration) error {
	l := costSample{at: at, spent: make([]cost, len(c.kinds))}
	l.came, _ = c.flow.Received()
	for i, k := range c.kinds {
		var err error
		if l.spent[i], err = k.ask(ctx, c.db); err != nil {
			return err
		}
	}
	c.samples = append(c.samples, l)
	return nil
}

// between returns the cost of a kind between two samples, and the number of messages.
func (c *costs) between(kind, from, to int) (cost, float64) {
	a, b := c.samples[from], c.samples[to]
	return b.spent[kind].minus(a.spent[kind]), max(float64(b.came-a.came), 1)
}

// measureSnapshot holds a snapshot and a transaction id after the lead.
func (b *bench) measureSnapshot(ctx context.Context, st *stage) (s sample, err error) {
	peer, ok := st.peer.(counted)
	if !ok {
		return s, fmt.Errorf("the statements of %s are not counted", st.peer.Name())
	}
	f, to, err := b.openFlow(ctx, st)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	holder, err := pgx.Connect(ctx, st.postgres)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, holder.Close(context.WithoutCancel(ctx))) }()
	c := &costs{kinds: peer.kinds, db: st.db, flow: f}
	held := -1 // the sample at which the snapshot was taken
	s, err = b.runFlow(ctx, st, f, to, sampling{every: min(heldSample, st.flow.Lead/4), take: func(ctx context.Context, at time.Duration) error {
		if err := c.take(ctx, at); err != nil || held >= 0 || at < st.flow.Lead {
			return err
		}
		held = len(c.samples) - 1
		_, err := holder.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()")
		return err
	}})
	if err != nil {
		return s, err
	}
	// Once more after the relay has ended: reading and settling the last messages also
	// counts.
	if err := c.take(ctx, f.Elapsed()); err != nil {
		return s, err
	}
	if held < 1 || held+2 > len(c.samples)-1 {
		return s, errors.New("too little time to see anything: raise -hold")
	}
	c.summarise(&s, held)
	return s, nil
}

// summarise compares the cost before the snapshot with that of the last quarter of
// the time.
func (c *costs) summarise(s *sample, held int) {
	last := len(c.samples) - 1
	late := last - max((last-held)/4, 1)
	for i, k := range c.kinds {
		before, ofBefore := c.between(i, 0, held)
		end, ofEnd := c.between(i, late, last)
		s.figure(k.name+" before (us/msg)", 1000*before.milliseconds/ofBefore)
		s.figure(k.name+" at the end (us/msg)", 1000*end.milliseconds/ofEnd)
		each, all := curve{Name: eachSettle}, curve{Name: k.name}
		for n := 1; n <= last; n++ {
			spent, messages := c.between(i, n-1, n)
			at := (c.samples[n].at - c.samples[held].at).Seconds()
			all.Points = append(all.Points, point{at, 1000 * spent.milliseconds / messages})
			if spent.calls > 0 {
				each.Points = append(each.Points, point{at, spent.each()})
			}
		}
		s.curves = append(s.curves, all)
		if i == 0 {
			during, messages := c.between(i, held, last)
			s.curves = append(s.curves, each)
			s.figure("settle before (ms)", before.each())
			s.figure("settle at the end (ms)", end.each())
			s.figure("settle WAL (bytes/msg)", float64(during.wal)/messages)
		}
	}
}
