package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// ErrNoProgress is the error where there are no rows of progress.
var ErrNoProgress = errors.New("no source has a table of progress: it belongs to layout crablet")

// PublisherLag is how far a publisher is behind the last event.
type PublisherLag struct {
	Topic, Publisher string
	Behind           int64 // positions; those of events that the topic does not have count
}

// progressTables opens the tables of progress of all sources, each once.
func (op *Operator) progressTables(ctx context.Context) ([]adapters.ProgressTable, error) {
	op.opening.Lock()
	defer op.opening.Unlock()
	if op.progress == nil {
		op.progress = map[string]adapters.ProgressTable{}
	}
	var out []adapters.ProgressTable
	for _, name := range op.ProgressSources() {
		if op.progress[name] == nil {
			t, err := op.build.Source(name).Progress(ctx)
			if err != nil {
				return nil, fmt.Errorf("source %q: %w", name, err)
			}
			op.progress[name] = t
		}
		out = append(out, op.progress[name])
	}
	if len(out) == 0 {
		return nil, ErrNoProgress
	}
	return out, nil
}

// ProgressSources are the sources with a table of progress, each table once.
func (op *Operator) ProgressSources() (names []string) {
	looked, seen := map[string]bool{}, map[string]bool{} // there may be hundreds of routes
	for _, r := range op.build.Config.Routes {
		if looked[r.From] {
			continue
		}
		looked[r.From] = true
		src, ok := op.build.Config.Sources[r.From].(*config.Postgres)
		if !ok || op.build.Source(r.From).Progress == nil {
			continue
		}
		if table := src.URL.Reveal() + " " + string(src.Progress); !seen[table] {
			seen[table], names = true, append(names, r.From)
		}
	}
	return names
}

// Publishers returns the rows of a topic in all tables of progress; an empty topic: of all.
func (op *Operator) Publishers(ctx context.Context, topic string) ([]adapters.Progress, error) {
	tables, err := op.progressTables(ctx)
	if err != nil {
		return nil, err
	}
	var out []adapters.Progress
	for _, t := range tables {
		rows, err := t.Rows(ctx, topic)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// OrderPublisher writes a status into a publisher's row, as an operator would by SQL; with reset no attempt has failed. Running relays notice it
// within a second. It reports whether there is such a row. By is the author in the audit log.
func (op *Operator) OrderPublisher(ctx context.Context, topic, publisher, status string, reset bool, by string) (found bool, err error) {
	tables, err := op.progressTables(ctx)
	if err != nil {
		return false, err
	}
	for _, t := range tables {
		ok, err := t.Order(ctx, topic, publisher, status, reset)
		if err != nil {
			return found, err
		}
		found = found || ok
	}
	if !found {
		return false, nil
	}
	action := "resume publisher"
	switch {
	case reset:
		action = "reset publisher"
	case status == adapters.ProgressPaused:
		action = "pause publisher"
	}
	return true, op.Record(ctx, by, action, 1, "topic", topic, "publisher", publisher)
}

// PublisherLags returns how far the publishers of a topic are behind the last event; an empty topic: all.
func (op *Operator) PublisherLags(ctx context.Context, topic string) ([]PublisherLag, error) {
	tables, err := op.progressTables(ctx)
	if err != nil {
		return nil, err
	}
	var out []PublisherLag
	for _, t := range tables {
		rows, err := t.Rows(ctx, topic) // before the last position, so that none is ahead of it
		if err != nil {
			return nil, err
		}
		last, err := t.Last(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range rows {
			out = append(out, PublisherLag{p.Topic, p.Publisher, max(last-p.Position, 0)})
		}
	}
	return out, nil
}

// closeProgress frees the connections.
func (op *Operator) closeProgress() {
	op.opening.Lock()
	defer op.opening.Unlock()
	for _, t := range op.progress {
		t.Close()
	}
	op.progress = nil
}
