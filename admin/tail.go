package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// TailOptions say which rows [Tail] shows. The zero value shows all that come.
type TailOptions struct {
	From  Place  // the zero value: the end
	Types string // pattern of event types, as in `match`; empty: all
	Group string // only this group; empty: all

	// Max ends it after so many rows; 0: when the context does.
	Max int

	// Begun is called once it is known that the rows can be followed; optional.
	Begun func()
}

// tailPause is how often a table is looked at while nothing comes.
const tailPause = 250 * time.Millisecond

// tailBatch is how many rows of a slot are read at once.
const tailBatch = 100

// Tail calls show for the rows of a source, or for those of a route's source
// that the route matches, in the order in which they become visible. It only
// reads, with a cursor of its own that is nowhere kept. It returns nil when ctx
// ends.
func Tail(ctx context.Context, cfg *config.Config, name string, opts TailOptions, show func(*adapters.Row) error, with ...Option) (err error) {
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
	return "", nil, &unknownSource{name, assembly.SortedNames(cfg.Sources)}
}

// unknownSource is the error for a name that is neither a route's nor a source's.
type unknownSource struct {
	name  string
	known []string // sources
}

func (e *unknownSource) Error() string {
	return fmt.Sprintf("there is no route and no source %q; the configuration has the sources %v", e.name, e.known)
}

// tail is a reader of its own.
type tail struct {
	source  adapters.Source
	opts    TailOptions
	match   func(*adapters.Row) bool
	show    func(*adapters.Row) error
	cursors []adapters.Cursor
	shown   int
}

func (t *tail) begin(ctx context.Context) error {
	start := t.opts.From.Start
	switch {
	case t.opts.From.Position > 0:
		start.Kind = adapters.StartBeginning
	case start.Kind == "":
		start.Kind = adapters.StartEnd
	}
	c, err := t.source.Start(ctx, start)
	if err != nil {
		return err
	}
	if t.opts.From.Position > 0 {
		c.Position = t.opts.From.Position - 1
	}
	t.cursors = make([]adapters.Cursor, adapters.Slots)
	for slot := range t.cursors {
		t.cursors[slot] = c
	}
	return nil
}

func (t *tail) follow(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		rows, drained, err := t.read(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if !t.wants(row) {
				continue
			}
			if err := t.show(row); err != nil {
				return err
			}
			if t.shown++; t.shown == t.opts.Max {
				return nil
			}
		}
		if !drained {
			continue
		}
		timer.Reset(tailPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// read reads on in all slots. Rows are shown by position, as far as they come
// from one read: those that a slot has more of are shown later.
func (t *tail) read(ctx context.Context) (rows []*adapters.Row, drained bool, err error) {
	reads := make([]adapters.Read, len(t.cursors))
	for slot, c := range t.cursors {
		reads[slot] = adapters.Read{Slot: slot, From: c, Limit: tailBatch}
	}
	results, err := t.source.Fetch(ctx, reads, func(_ int, row *adapters.Row) bool {
		kept := *row // the source may use the memory of a row again
		rows = append(rows, &kept)
		return true
	})
	if err != nil {
		return nil, false, err
	}
	drained = true
	for slot, r := range results {
		t.cursors[slot] = r.Next
		drained = drained && r.Drained
	}
	slices.SortStableFunc(rows, func(a, b *adapters.Row) int { return cmp.Compare(a.Position, b.Position) })
	return rows, drained, nil
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
