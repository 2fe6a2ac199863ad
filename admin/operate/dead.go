package operate

import (
	"context"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// ParkedMessage is a message that was taken out of the stream, and where it is.
type ParkedMessage struct {
	adapters.Parked // of a dead row in a queue's table: Route is the first that matches it, or empty; no Seq

	Source string // the queue whose table has the row; empty: it is in the state store
	Table  string // that table, as configured

	At PageToken // in the list
}

// deadSource is a source whose table keeps its dead rows.
type deadSource struct {
	name   string
	source config.Source
	rows   adapters.OperatorQueue
	store  adapters.OperatorStore
	routes []config.Route // that read it, in the order of the configuration
}

// deadSources are the queues that may have dead rows which the filter selects, in the
// order of the first route of each.
func (op *Operator) deadSources(ctx context.Context, f adapters.ParkedFilter) (all []*deadSource, err error) {
	if f.Status != "" && f.Status != adapters.ParkedDead && f.Status != adapters.ParkedRetrying || f.Failure != 0 {
		return nil, nil
	}
	index := map[string]*deadSource{}
	for _, r := range op.build.Config.Routes {
		s := index[r.From]
		if s == nil {
			s = &deadSource{name: r.From, source: op.build.Config.Sources[r.From]}
			index[r.From] = s
			all = append(all, s)
		}
		s.routes = append(s.routes, r)
	}
	all = slices.DeleteFunc(all, func(s *deadSource) bool {
		return f.Route != "" && !slices.ContainsFunc(s.routes, func(r config.Route) bool { return r.Name == f.Route })
	})
	op.opening.Lock()
	defer op.opening.Unlock()
	for _, s := range all {
		if s.rows, err = op.build.DeadRows(ctx, op.parts, s.name); err != nil {
			return nil, fmt.Errorf("source %q: %w", s.name, err)
		}
		if s.rows != nil {
			s.store, err = op.build.OpenState(ctx, op.parts, s.name)
		}
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", s.name, err)
		}
	}
	return slices.DeleteFunc(all, func(s *deadSource) bool { return s.rows == nil }), nil
}

// route is the route that a row belongs to; empty: none.
func (s *deadSource) route(row *adapters.Row) string {
	for _, r := range s.routes {
		if assembly.Matcher(r.Match)(row) {
			return r.Name
		}
	}
	return ""
}

// deadPage has the dead rows of a page.
type deadPage struct {
	messages []ParkedMessage    // that the filter selects
	keys     []adapters.DeadKey // of those
	last     adapters.DeadKey   // of the page, whether it is selected or not; zero: there are no more rows
}

// page returns those rows of the page after a place that the filter selects. A page has at most so
// many rows.
func (s *deadSource) page(ctx context.Context, f adapters.ParkedFilter, after adapters.DeadKey, size int, payload bool) (p deadPage, err error) {
	rows, err := s.rows.Dead(ctx, adapters.DeadFilter{Group: f.Group, ID: f.ID, Error: f.Error, Before: f.Before, Limit: size, Payload: payload, After: after,
		Retrying: f.Status != adapters.ParkedDead})
	if err != nil || len(rows) == 0 {
		return p, tokenError(after, err)
	}
	p.last = rows[len(rows)-1].At
	for i := range rows {
		r := &rows[i]
		route := s.route(&r.Row)
		status, attempts := adapters.ParkedDead, config.DeadAttempts(s.source, r.Attempts)
		if r.At.Retrying {
			status, attempts = adapters.ParkedRetrying, r.Attempts
		}
		if f.Status != "" && f.Status != status || f.Route != "" && f.Route != route || f.Type != "" && f.Type != r.Row.Type {
			continue
		}
		p.keys = append(p.keys, r.At)
		var metadata map[string]string
		if payload {
			metadata = r.Row.Metadata(fmt.Sprintf("%s/%02d", route, r.Row.Slot))
		}
		p.messages = append(p.messages, ParkedMessage{Source: s.name, Table: r.At.Table, At: PageToken{Source: s.name, Dead: r.At}, Parked: adapters.Parked{
			LaneRef: adapters.LaneRef{Route: route, Slot: r.Row.Slot}, Group: r.Row.Group, Status: status, Attempts: attempts, NextAttemptAt: r.Due,
			LastError: r.Error, ParkedAt: r.Died, ID: r.Row.ID, Type: r.Row.Type, Position: r.Row.Position, Metadata: metadata, Payload: r.Row.Payload, Size: int64(len(r.Row.Payload))}})
	}
	return p, nil
}

// walk calls visit with those rows of each page behind a place that the filter selects, until visit
// says that it is enough. A page has at most so many rows.
func (s *deadSource) walk(ctx context.Context, f adapters.ParkedFilter, after adapters.DeadKey, size int, payload bool, visit func([]ParkedMessage, []adapters.DeadKey) (more bool, err error)) error {
	for {
		p, err := s.page(ctx, f, after, size, payload)
		if err != nil || p.last == (adapters.DeadKey{}) {
			return err
		}
		after = p.last
		if more, err := visit(p.messages, p.keys); err != nil || !more {
			return err
		}
	}
}

// deadIn lists dead rows of queues' tables behind a place, by source, table, creation and key.
func (op *Operator) deadIn(ctx context.Context, f adapters.ParkedFilter, behind PageToken, most int, payload bool) (out []ParkedMessage, err error) {
	if most <= 0 {
		return nil, nil
	}
	sources, err := op.deadSources(ctx, f)
	if err != nil {
		return nil, err
	}
	sources, after, err := behind.behind(sources)
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		err := s.walk(ctx, f, after, min(max(most, adapters.DefaultParkedList), adapters.DefaultParkedStep), payload, func(rows []ParkedMessage, _ []adapters.DeadKey) (bool, error) {
			out = append(out, rows[:min(len(rows), most-len(out))]...)
			return len(out) < most, nil
		})
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", s.name, err)
		}
		if after = (adapters.DeadKey{}); len(out) >= most {
			break
		}
	}
	return out, nil
}

// inTables is which rows of queues' tables a command changes; false: none. Only a redrive changes rows in backoff.
func inTables(c adapters.ParkedCommand) (f adapters.ParkedFilter, some bool) {
	f = c.Filter
	statuses := c.Action.Statuses(f)
	if c.Action != adapters.ParkedRedrive {
		f.Status = adapters.ParkedDead
	}
	return f, slices.Contains(statuses, adapters.ParkedDead) || c.Action == adapters.ParkedRedrive && slices.Contains(statuses, adapters.ParkedRetrying)
}

// countDead counts what a command would change in the tables of queues.
func (op *Operator) countDead(ctx context.Context, c adapters.ParkedCommand) (out []adapters.ParkedCount, err error) {
	f, some := inTables(c)
	if !some {
		return nil, nil
	}
	sources, err := op.deadSources(ctx, f)
	if err != nil {
		return nil, err
	}
	return countDeadIn(ctx, sources, f)
}

// countDeadIn counts the dead rows of sources that a filter selects.
func countDeadIn(ctx context.Context, sources []*deadSource, f adapters.ParkedFilter) (out []adapters.ParkedCount, err error) {
	for _, s := range sources {
		counts := map[adapters.ParkedStatus]map[string]int{adapters.ParkedDead: {}, adapters.ParkedRetrying: {}}
		err := s.walk(ctx, f, adapters.DeadKey{}, adapters.DefaultParkedStep, false, func(rows []ParkedMessage, _ []adapters.DeadKey) (bool, error) {
			for _, m := range rows {
				counts[m.Status][m.Route]++
			}
			return true, nil
		})
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", s.name, err)
		}
		for _, status := range []adapters.ParkedStatus{adapters.ParkedDead, adapters.ParkedRetrying} {
			for _, route := range assembly.SortedNames(counts[status]) {
				out = append(out, adapters.ParkedCount{Route: route, Status: status, Count: counts[status][route]})
			}
		}
	}
	return out, nil
}

// changeDead carries a command out in the tables of queues, a step for each page. take
// waits for the rate and returns how many rows may be changed, done counts.
func (op *Operator) changeDead(ctx context.Context, c adapters.ParkedCommand, size int, take func(int) (int, error), done func(int)) error {
	f, some := inTables(c)
	if !some {
		return nil
	}
	sources, err := op.deadSources(ctx, f)
	if err != nil {
		return err
	}
	for _, s := range sources {
		err := s.walk(ctx, f, adapters.DeadKey{}, size, false, func(_ []ParkedMessage, keys []adapters.DeadKey) (bool, error) {
			if len(keys) == 0 {
				return true, nil
			}
			n, err := take(len(keys))
			if err != nil || n == 0 {
				return false, err
			}
			// Never cut off: whether the step counts must be known.
			whole := context.WithoutCancel(ctx)
			changed, err := s.rows.ChangeDead(whole, c.Action, keys[:n], func(ctx context.Context, changed int) error {
				return s.store.Audit(ctx, c.By, c.Action, c.Filter, keys[0].Table, changed)
			})
			done(changed)
			return err == nil, err
		})
		if err != nil {
			return fmt.Errorf("source %q: %w", s.name, err)
		}
	}
	return nil
}
