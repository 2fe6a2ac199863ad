package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// TailOptions say which rows [Tail] shows. The zero value shows all that come.
type TailOptions struct {
	From  operate.Target // the zero value: the end
	Types string         // pattern of event types, as in `match`; empty: all
	Group string         // only this group; empty: all

	// Max ends it after so many rows; 0: when the context does.
	Max int

	// Begun is called once it is known that the rows can be followed; optional.
	Begun func()
}

// tailPause is how often a table is read while no row comes.
const tailPause = 250 * time.Millisecond

// Tail calls show for the rows of a source, or for those of a route's source
// that the route matches, in the order in which they become visible. It only
// reads, with a cursor of its own that is nowhere kept. It returns nil when ctx
// ends.
func Tail(ctx context.Context, cfg *config.Config, name string, opts TailOptions, show func(*adapters.Row) error, with ...operate.Option) (err error) {
	source, match, err := tailed(cfg, name)
	if err != nil {
		return err
	}
	if opts.Types != "" {
		if _, err := config.ParseGlob(opts.Types); err != nil {
			return fmt.Errorf("pattern of types: %w", err)
		}
	}
	b := assembly.NewBuilder(cfg, assembly.OptionsOf(with))
	p := &assembly.Parts{}
	defer func() { _ = p.Close() }() // nothing was written
	f, err := b.CheckedFeed(ctx, p, source)
	if err != nil {
		return unlessEnded(ctx, fmt.Errorf("source %q: %w", source, err))
	}
	defer func() { err = unlessEnded(ctx, err) }()
	if f.Source == nil {
		return fmt.Errorf("source %q has no log table that could be followed", source)
	}
	t := tail{source: f.Source, opts: opts, match: match, show: show}
	if err := t.begin(ctx); err != nil {
		return err
	}
	if opts.Begun != nil {
		opts.Begun()
	}
	return t.follow(ctx)
}

// unlessEnded is an error, or none when the work was asked to end.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// tailed returns what a name means: a source, or a route's source and match.
func tailed(cfg *config.Config, name string) (string, func(*adapters.Row) bool, error) {
	for _, r := range cfg.Routes {
		if r.Name == name {
			return r.From, assembly.Matcher(r.Match), nil
		}
	}
	if _, ok := cfg.Sources[name]; ok {
		return name, func(*adapters.Row) bool { return true }, nil
	}
	return "", nil, &operate.UnknownSource{Name: name, Known: assembly.SortedNames(cfg.Sources)}
}

// tail is a reader of its own.
type tail struct {
	source adapters.OperatorSource
	opts   TailOptions
	match  func(*adapters.Row) bool
	show   func(*adapters.Row) error
	at     adapters.Cursor // of all slots
	parts  map[int]int64   // of a topic: by partition
	shown  int
}

func (t *tail) begin(ctx context.Context) (err error) {
	start := t.opts.From.Start
	switch {
	case t.opts.From.Position > 0:
		start.Kind = adapters.StartBeginning
	case start.Kind == "":
		start.Kind = adapters.StartEnd
	}
	if p, ok := t.source.(adapters.PartitionedSource); ok {
		if t.opts.From.Position > 0 {
			return operate.Mistake{Err: errors.New("each partition of a topic has offsets of its own: start from the beginning, the end or a time")}
		}
		t.parts, err = p.Starts(ctx, start)
		return err
	}
	if t.at, err = t.source.Start(ctx, start); err != nil {
		return err
	}
	if t.opts.From.Position > 0 {
		t.at.Position = t.opts.From.Position - 1
	}
	return nil
}

func (t *tail) follow(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if more, err := t.readOn(ctx, t.take); err != nil || !more {
			return err
		}
		timer.Reset(tailPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// take shows a row; more is false when it was the last one to show.
func (t *tail) take(row *adapters.Row) (more bool, err error) {
	if !t.wants(row) {
		return true, nil
	}
	t.shown++
	return t.shown != t.opts.Max, t.show(row)
}

// readOn passes on what has become visible since the last call, in order, and moves to its end; take returns false, or an
// error, to stop it.
func (t *tail) readOn(ctx context.Context, take func(*adapters.Row) (more bool, err error)) (more bool, err error) {
	if p, ok := t.source.(adapters.PartitionedSource); ok {
		return t.readParts(ctx, p, take)
	}
	end, err := t.source.Start(ctx, adapters.Start{Kind: adapters.StartEnd})
	if err != nil {
		return false, err
	}
	if end.Position <= t.at.Position { // nothing was written, or the newest rows were removed
		end.Position, end.Anchor = t.at.Position, t.at.Anchor
	}
	if end.SamePlace(t.at) {
		return true, nil
	}
	m := newMerge(t.source, t.at, end)
	for !m.over() {
		if err := m.fill(ctx); err != nil {
			return false, err
		}
		for row := m.next(); row != nil; row = m.next() {
			if more, err := take(row); err != nil || !more {
				return false, err
			}
		}
	}
	t.at = end
	return true, nil
}

// readParts is readOn for a topic: it reads one partition after the other, each in its order.
func (t *tail) readParts(ctx context.Context, src adapters.PartitionedSource, take func(*adapters.Row) (more bool, err error)) (more bool, err error) {
	ends, err := src.Starts(ctx, adapters.Start{Kind: adapters.StartEnd})
	if err != nil {
		return false, err
	}
	more = true
	for _, slot := range slices.Sorted(maps.Keys(ends)) {
		at, known := t.parts[slot]
		if !known { // the partition was added
			at = -1
		}
		end := &adapters.Cursor{Position: ends[slot]}
		for at < end.Position {
			var failed error
			read := adapters.Read{Slot: slot, From: adapters.Cursor{Position: at}, Until: end, Limit: tailBatch}
			results, err := src.Fetch(ctx, []adapters.Read{read}, func(_ int, row *adapters.Row) bool {
				more, failed = take(row)
				return more && failed == nil
			})
			if err = errors.Join(err, failed); err != nil || !more {
				return false, err
			}
			if results[0].Next.Position == at { // it has no records up to its end
				break
			}
			at = results[0].Next.Position
		}
		t.parts[slot] = at
	}
	return true, nil
}

func (t *tail) wants(row *adapters.Row) bool {
	if t.opts.Group != "" && row.Group != t.opts.Group {
		return false
	}
	if t.opts.Types != "" && !(config.Match{Types: []config.Glob{config.Glob(t.opts.Types)}}).Matches(config.Event{Type: row.Type}) {
		return false
	}
	return t.match(row)
}
