package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/adapters"
)

// OperationOrder is an operator's order for many messages or routes.
type OperationOrder struct {
	Kind adapters.OperationKind

	// Of a redrive, skip or purge: which messages. The filter's limit bounds the whole
	// operation in each state store.
	Filter adapters.ParkedFilter
	All    bool // required when the filter selects everything

	// Of a seek: names or patterns of routes, such as eu-*, and where they go.
	Routes []string
	To     Target

	Rate float64 // messages or routes a second; 0: no limit
	By   string  // author
}

// OperationPlan has the changes of an order: one operation for each state store that has some
// of it. Nothing is written down yet.
type OperationPlan struct {
	Matching []adapters.ParkedCount // of a redrive, skip or purge: messages by route and status
	Routes   []string               // of a seek
	Total    int                    // messages or routes

	operations []planned
}

type planned struct {
	store     adapters.OperatorStore
	operation adapters.Operation
}

// PlanOperation counts what an order would change.
func (op *Operator) PlanOperation(ctx context.Context, order OperationOrder) (*OperationPlan, error) {
	plan := &OperationPlan{}
	for _, s := range op.stores {
		o := adapters.Operation{Kind: order.Kind, Filter: order.Filter, All: order.All, Rate: order.Rate, By: order.By}
		var err error
		if order.Kind == adapters.OperationSeek {
			err = op.planRoutes(ctx, plan, &o, s, order)
		} else {
			err = op.planMessages(ctx, plan, &o, s)
		}
		if err != nil {
			return nil, err
		}
		if o.Total > 0 {
			plan.operations = append(plan.operations, planned{s, o})
			plan.Total += o.Total
		}
	}
	if order.Kind == adapters.OperationSeek && plan.Total == 0 {
		return nil, &UnknownRoute{Route: strings.Join(order.Routes, " "), Known: op.routes()}
	}
	return plan, nil
}

// planMessages adds what a store, and the queues that it is the state of, have of an order.
func (op *Operator) planMessages(ctx context.Context, plan *OperationPlan, o *adapters.Operation, s adapters.OperatorStore) error {
	counts, err := s.CountParked(ctx, o.Command())
	if err != nil {
		return err
	}
	sources, err := op.deadSourcesOf(ctx, s, o)
	if err != nil {
		return err
	}
	for _, source := range sources {
		o.Sources = append(o.Sources, source.name)
	}
	f, _ := inTables(adapters.ParkedCommand{Action: adapters.ParkedAction(o.Kind), Filter: o.Filter})
	dead, err := countDeadIn(ctx, sources, f)
	if err != nil {
		return err
	}
	for _, n := range append(counts, dead...) {
		plan.Matching = append(plan.Matching, n)
		o.Total += n.Count
	}
	if o.Filter.Limit > 0 {
		o.Total = min(o.Total, o.Filter.Limit)
	}
	return nil
}

// deadSourcesOf are the queues with dead rows that an operation of a store is about.
func (op *Operator) deadSourcesOf(ctx context.Context, s adapters.OperatorStore, o *adapters.Operation) ([]*deadSource, error) {
	f, some := inTables(adapters.ParkedCommand{Action: adapters.ParkedAction(o.Kind), Filter: o.Filter})
	if !some {
		return nil, nil
	}
	sources, err := op.deadSources(ctx, f)
	return slices.DeleteFunc(sources, func(d *deadSource) bool { return d.store != s }), err
}

// planRoutes adds the routes of a seek whose cursors a store has.
func (op *Operator) planRoutes(ctx context.Context, plan *OperationPlan, o *adapters.Operation, s adapters.OperatorStore, order OperationOrder) error {
	for _, r := range op.build.Config.Routes {
		wanted := false
		for _, pattern := range order.Routes {
			matches, err := path.Match(pattern, r.Name)
			if err != nil {
				return fmt.Errorf("pattern %q of routes: %w", pattern, err)
			}
			wanted = wanted || matches
		}
		if of, err := op.Store(ctx, r.Name); err != nil {
			return err
		} else if wanted && of == s {
			o.Routes = append(o.Routes, r.Name)
		}
	}
	o.Total, o.To = len(o.Routes), order.To.canonical()
	plan.Routes = append(plan.Routes, o.Routes...)
	return nil
}

// canonical is the place as [ParseTarget] reads it, whenever that is.
func (p Target) canonical() string {
	switch {
	case p.Position > 0:
		return strconv.FormatInt(p.Position, 10)
	case p.Start.Kind == adapters.StartTime:
		return p.Start.Time.UTC().Format(time.RFC3339Nano)
	}
	return string(p.Start.Kind)
}

// StartOperation orders what was planned. A running relay works it, or [Operator.WorkOperation].
func (op *Operator) StartOperation(ctx context.Context, plan *OperationPlan) ([]adapters.Operation, error) {
	var out []adapters.Operation
	for _, p := range plan.operations {
		id, err := ulid.New(ulid.Now(), rand.Reader)
		if err != nil {
			return out, fmt.Errorf("name an operation: %w", err)
		}
		p.operation.ID, p.operation.By = id.String(), cmp.Or(p.operation.By, "unknown")
		o, err := p.store.CreateOperation(ctx, p.operation)
		if err != nil {
			return out, err
		}
		out = append(out, o)
	}
	return out, nil
}

// WorkOperation works an operation until it has ended or was stopped, as a relay does; while another process has
// it, it looks on. told receives what it has come to, again and again; optional. When ctx ends the
// operation is given up after the current step, and the error is that of ctx.
func (op *Operator) WorkOperation(ctx context.Context, id, worker string, told func(adapters.Operation)) (adapters.Operation, error) {
	var store adapters.OperatorStore
	if _, err := op.onOperation(id, func(s adapters.OperatorStore) (bool, error) {
		found, err := s.ListOperations(ctx, adapters.OperationFilter{ID: id, Limit: 1})
		if err == nil && len(found) == 0 {
			err = adapters.ErrNoOperation
		} else if err == nil {
			store = s
		}
		return false, err
	}); err != nil {
		return adapters.Operation{}, err
	}
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for {
		if worked, err := op.work(ctx, store, id, worker, told); err != nil {
			return adapters.Operation{}, err
		} else if worked != nil && !worked.State.Active() {
			return *worked, nil
		}
		o, err := op.Operation(context.WithoutCancel(ctx), id)
		if err != nil || !o.State.Active() || ctx.Err() != nil {
			return o, cmp.Or(err, ctx.Err())
		}
		if told != nil {
			told(o)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// watchPause is how often a command reads the state of an operation that another process works.
const watchPause = 250 * time.Millisecond

// Operations returns operations, the newest first.
func (op *Operator) Operations(ctx context.Context, f adapters.OperationFilter) ([]adapters.Operation, error) {
	var out []adapters.Operation
	err := op.eachOperations(func(s adapters.OperatorStore) error {
		found, err := s.ListOperations(ctx, f)
		out = append(out, found...)
		return err
	})
	slices.SortFunc(out, func(a, b adapters.Operation) int { return cmp.Compare(b.ID, a.ID) })
	return out[:min(len(out), cmp.Or(f.Limit, adapters.DefaultParkedList))], err
}

// Operation returns one; the error is [adapters.ErrNoOperation] when there is none.
func (op *Operator) Operation(ctx context.Context, id string) (adapters.Operation, error) {
	found, err := op.Operations(ctx, adapters.OperationFilter{ID: id, Limit: 1})
	if err == nil && (len(found) == 0 || id == "") {
		err = fmt.Errorf("operation %q: %w", id, adapters.ErrNoOperation)
	}
	if err != nil {
		return adapters.Operation{}, err
	}
	return found[0], nil
}

// StopOperation stops an operation between two steps; it returns false when it has ended
// or was stopped already.
func (op *Operator) StopOperation(ctx context.Context, id, by string) (bool, error) {
	return op.onOperation(id, func(s adapters.OperatorStore) (bool, error) { return s.StopOperation(ctx, id, by) })
}

// ResumeOperation continues an operation that was stopped, or failed; it returns false when it is active or done.
func (op *Operator) ResumeOperation(ctx context.Context, id, by string) (bool, error) {
	return op.onOperation(id, func(s adapters.OperatorStore) (bool, error) { return s.ResumeOperation(ctx, id, by) })
}

// onOperation calls f with the store that has an operation.
func (op *Operator) onOperation(id string, f func(adapters.OperatorStore) (bool, error)) (changed bool, err error) {
	found := false
	err = op.eachOperations(func(s adapters.OperatorStore) error {
		did, err := f(s)
		if errors.Is(err, adapters.ErrNoOperation) {
			return nil
		}
		found, changed = true, did
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("operation %q: %w", id, adapters.ErrNoOperation)
	}
	return changed, err
}

// eachOperations calls f with the stores until it fails or finds.
func (op *Operator) eachOperations(f func(adapters.OperatorStore) error) error {
	for _, s := range op.stores {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}
