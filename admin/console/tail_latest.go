package console

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// latestSpan is how many positions before the end of a table [Console.Latest] reads.
const latestSpan = 1000

// Latest returns the latest rows of a source, or of those of a route's source that the
// route matches, the newest first: of the last 1,000 positions those that the options
// select, opts.Max at most. From is disregarded. It reads without any state.
func (c *Console) Latest(ctx context.Context, name string, opts TailOptions) (rows []*adapters.Row, err error) {
	source, match, err := tailed(c.relay.Config(), name)
	if err != nil {
		return nil, err
	}
	if opts.Types != "" {
		if _, err := config.ParseGlob(opts.Types); err != nil {
			return nil, operate.Mistake{Err: fmt.Errorf("pattern of types: %w", err)}
		}
	}
	err = c.Use(ctx, func(op *operate.Operator) error {
		f, err := op.Open(ctx, source)
		if err != nil {
			return fmt.Errorf("source %q: %w", source, err)
		}
		if f.Source == nil {
			return operate.Mistake{Err: fmt.Errorf("source %q has no log table that could be followed", source)}
		}
		end, err := f.Source.Start(ctx, adapters.Start{Kind: adapters.StartEnd})
		if err != nil {
			return err
		}
		t := tail{source: f.Source, opts: opts, match: match}
		t.opts.From = operate.Target{Position: max(end.Position-latestSpan, 0) + 1}
		if err := t.begin(ctx); err != nil {
			return err
		}
		c.fetching.Lock() // a source has one reader
		defer c.fetching.Unlock()
		rows, err = t.latest(ctx)
		return err
	})
	return rows, err
}

// latest reads to the end and returns the last rows, newest first.
func (t *tail) latest(ctx context.Context) (rows []*adapters.Row, err error) {
	_, err = t.readOn(ctx, func(row *adapters.Row) (bool, error) {
		if t.wants(row) {
			row.ID, row.Type, row.Group = strings.Clone(row.ID), strings.Clone(row.Type), strings.Clone(row.Group)
			rows = append(rows, row)
		}
		return true, nil
	})
	slices.Reverse(rows)
	if t.opts.Max > 0 && len(rows) > t.opts.Max {
		rows = rows[:t.opts.Max]
	}
	return rows, err
}
