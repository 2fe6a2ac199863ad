package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/admin/operate"
)

// flatRows is the backlog with which the other backlogs are compared.
const flatRows = 100_000

// flatScenario drains backlogs of different depths (G8).
var flatScenario = &scenario{
	name:  "flat",
	about: "Whether the rate depends on the backlog, or on delivered rows that are retained.",
	title: func(o *options) string {
		return fmt.Sprintf("The same rate whatever the backlog: %d and %d rows of %d bytes of JSON, and %d rows behind %d that are delivered and retained; "+
			"the rate of the last nine tenths, so that starting does not count", flatShallow(o), o.backlog, o.payload, flatShallow(o), o.backlog)
	},
	peers: []peers.Peer{laden{Outrider: peers.ToKafka}},
	entries: func(o *options) []entry {
		return []entry{
			{peer: laden{Outrider: peers.ToKafka}, sink: measure.Topic{}, rows: flatShallow(o), groups: o.groups},
			{peer: laden{Outrider: peers.ToKafka}, sink: measure.Topic{}, rows: o.backlog, groups: o.groups},
			{peer: laden{peers.ToKafka, o.backlog}, sink: measure.Topic{}, rows: flatShallow(o), groups: o.groups,
				with: fmt.Sprintf("%d delivered rows before them", o.backlog)},
		}
	},
	measure: (*bench).measureFlat,
	columns: drainColumns,
	remarks: func(results []result) []string {
		var out []string
		for i := 1; i < len(results); i++ {
			line := fmt.Sprintf("With a backlog of %d rows", results[i].Rows)
			if with := results[i].With; with != "" {
				line += " and " + with
			}
			out = append(out, fmt.Sprintf("%s outrider reaches %.0f%% of its rate with %d; the aim is within 10%%.",
				line, 100*results[i].Rate/results[0].Rate, results[0].Rows))
		}
		return out
	},
	plots: func(results []result) []plot {
		p := plot{file: "flat.svg", title: "Throughput by backlog", y: "messages per second"}
		for _, r := range results {
			name := fmt.Sprintf("%d rows", r.Rows)
			if r.With != "" {
				name += ",\n" + r.With
			}
			p.bars = append(p.bars, bar{name, r.Rate})
		}
		return []plot{p}
	},
}

func flatShallow(o *options) int { return min(flatRows, o.backlog) }

// laden is Outrider on a table that retains delivered rows.
type laden struct {
	peers.Outrider
	retained int
}

// load copies the retained rows and those of the backlog into the table.
func (l laden) load(ctx context.Context, db *pgx.Conn, e entry, size int) error {
	source := measure.NewEvents(e.rows, e.groups, size)
	columns := []string{"id", "type", "message_group", "payload", "occurred_at"}
	for n, all := 0, l.retained+e.rows; n < all; {
		end := min(n+measure.CommitRows, all)
		_, err := db.CopyFrom(ctx, pgx.Identifier{"outrider_outbox"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
			if n == end {
				return nil, nil
			}
			n++
			group, body := source.Event(n)
			return []any{uuid.NewString(), "order.created", group, body, time.Now()}, nil
		}))
		if err != nil {
			return fmt.Errorf("fill the table: %w", err)
		}
	}
	return nil
}

func (l laden) Backlog() string {
	return fmt.Sprintf("SELECT message_group, payload::text FROM outrider_outbox WHERE position > %d ORDER BY position", l.retained)
}

// Rewind moves the cursor to the first row after the retained ones, like `outrider seek`.
func (l laden) Rewind(ctx context.Context, db *pgx.Conn) (err error) {
	if err := l.Outrider.Rewind(ctx, db); err != nil || l.retained == 0 {
		return err
	}
	cfg, err := l.ParseFor(db)
	if err != nil {
		return err
	}
	op, err := operate.NewOperator(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, op.Close()) }()
	move, err := op.PlanSeek(ctx, "orders", operate.Target{Position: int64(l.retained) + 1})
	if err != nil {
		return err
	}
	return op.Relocate(ctx, move, "bench")
}

// measureFlat is [bench.measureDrain] with the rate of the last nine tenths.
func (b *bench) measureFlat(ctx context.Context, st *stage) (s sample, err error) {
	if err := st.reset(ctx); err != nil {
		return s, err
	}
	var steady float64
	used, err := b.relayed(ctx, st, func(p *process, to measure.Receiver) (err error) {
		steady, err = b.steady(ctx, st, p, to)
		return err
	})
	if err != nil {
		return s, err
	}
	s = newSample(st.rows, time.Second, used)
	s.rate = steady
	return s, nil
}

// steady returns the rate from when a tenth has arrived.
func (b *bench) steady(ctx context.Context, st *stage, p *process, to measure.Receiver) (float64, error) {
	if _, err := b.watch(ctx, p, to, (st.rows+9)/10); err != nil {
		return 0, err
	}
	n, from, err := to.Received(ctx)
	if err != nil {
		return 0, err
	}
	last, err := b.watch(ctx, p, to, st.rows)
	// A tiny backlog may arrive all at once, without a rate.
	return float64(max(st.rows-n, 1)) / max(last.Sub(from), measure.WatchInterval).Seconds(), err
}
