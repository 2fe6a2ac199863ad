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

// The retention of the scenario sustained, and how it writes.
const (
	sustainedKeep = 10 * time.Second
	sustainedPer  = 20 // messages of a transaction
	sustainedLead = 5 * time.Second
	partitionRows = 100_000
)

// retaining is Outrider that removes delivered rows.
var retaining = func() peers.Outrider {
	e := peers.ToKafka
	e.Settings += fmt.Sprintf("; retention: {mode: partitions, keep: %v, every: 1s, partition_rows: %d}", sustainedKeep, partitionRows)
	e.Config = strings.Replace(e.Config, "url: {postgres}", fmt.Sprintf("url: {postgres}, retention: {mode: partitions, keep: %v, every: 1s, partition_rows: %d}",
		sustainedKeep, partitionRows), 1)
	return e
}()

// sustainedScenario writes and delivers for a long time.
var sustainedScenario = &scenario{
	name:  "sustained",
	about: "How long messages take, and how large the table gets, when as many go out as come in for a long time.",
	title: func(o *options) string {
		return fmt.Sprintf("In and out at the same time: %d messages per second of %d bytes of JSON for %v, in transactions of %d on %d connections; "+
			"with retention and autovacuum; the first %v do not count", o.rate, o.payload, o.sustain, sustainedPer, measure.FlowWriters, sustainedLead)
	},
	peers: []peers.Peer{retaining},
	entries: func(o *options) []entry {
		spec := &measure.FlowSpec{Rate: o.rate, Per: sustainedPer, Insert: ownRows, Lead: min(sustainedLead, o.sustain/4)}
		return []entry{{peer: retaining, sink: measure.Tap{}, rows: max(int(float64(o.rate)*o.sustain.Seconds()), 1), groups: o.groups,
			with: fmt.Sprintf("%d msgs/s wanted", o.rate), flow: spec}}
	},
	measure: (*bench).measureSustained,
	columns: columns{peerColumn, rowsColumn, withColumn,
		{"msgs/s out", func(r *result) string { return fmt.Sprintf("%.0f", r.Rate) }},
		{"p50 ms", func(r *result) string { return fmt.Sprintf("%.2f", r.P50) }},
		{"p99 ms", func(r *result) string { return fmt.Sprintf("%.2f", r.P99) }},
		figureColumn("worst p99 of a second, ms", "worst p99 of a second (ms)", "%.2f"),
		figureColumn("largest size MiB", "largest size (MiB)", "%.0f"),
		figureColumn("size at the end MiB", "size at the end (MiB)", "%.0f"),
		cpuColumn, peakColumn,
	},
	remarks: func(results []result) []string {
		var out []string
		for _, r := range results {
			out = append(out, fmt.Sprintf("99%% of the messages arrived within %.1f ms of their commit (the aim is 25), at %.0f per second with %s; "+
				"table and indexes took %.0f MiB at most and %.0f at the end.",
				r.P99, r.Rate, r.With, r.Figures["largest size (MiB)"], r.Figures["size at the end (MiB)"]))
		}
		return out
	},
	plots: func(results []result) []plot {
		times := plot{file: "sustained.svg", title: "From commit to consumer at a steady rate", x: "seconds", y: "milliseconds", log: true}
		sizes := plot{file: "sustained-size.svg", title: "Size of the table at a steady rate", x: "seconds", y: "MiB"}
		for _, r := range results {
			for _, c := range r.Curves {
				if c.Name == "table" || c.Name == "indexes" {
					sizes.lines = append(sizes.lines, c)
				} else {
					times.lines = append(times.lines, c)
				}
			}
		}
		return []plot{times, sizes}
	},
	once: true,
}

// sizeQuery asks for the bytes of the outbox table and of its indexes, with all
// partitions.
const sizeQuery = `SELECT coalesce(sum(pg_table_size(relid)), 0)::bigint, coalesce(sum(pg_indexes_size(relid)), 0)::bigint
	FROM pg_partition_tree('outrider_outbox')`

// measureSustained writes and delivers messages for the time of -sustain.
func (b *bench) measureSustained(ctx context.Context, st *stage) (s sample, err error) {
	f, to, err := b.openFlow(ctx, st)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	table, indexes := curve{Name: "table"}, curve{Name: "indexes"}
	var most, now float64
	s, err = b.runFlow(ctx, st, f, to, sampling{every: time.Second, take: func(ctx context.Context, at time.Duration) error {
		var rows, index int64
		if err := st.db.QueryRow(ctx, sizeQuery).Scan(&rows, &index); err != nil {
			return err
		}
		table.Points = append(table.Points, point{at.Seconds(), float64(rows) / (1 << 20)})
		indexes.Points = append(indexes.Points, point{at.Seconds(), float64(index) / (1 << 20)})
		now = float64(rows+index) / (1 << 20)
		most = max(most, now)
		return nil
	}})
	if err != nil {
		return s, err
	}
	delays := f.Delays()
	half, tail := overTime("p50", delays, 0.5), overTime("p99", delays, 0.99)
	worst := 0.0
	for _, p := range tail.Points {
		worst = max(worst, p[1])
	}
	s.figure("worst p99 of a second (ms)", worst)
	s.figure("largest size (MiB)", most)
	s.figure("size at the end (MiB)", now)
	s.curves = []curve{half, tail, table, indexes}
	return s, nil
}

// overTime is the curve of a quantile of the delays, for each second with commits.
func overTime(name string, delays measure.DelayTimes, share float64) curve {
	c := curve{Name: name}
	delays.OverTime(share, time.Second, func(since, took time.Duration) {
		c.Points = append(c.Points, point{since.Seconds(), milliseconds(took)})
	})
	return c
}
