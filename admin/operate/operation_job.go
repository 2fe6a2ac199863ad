package operate

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// OperationsJob works the operations of a relay's state stores, while its routes run and with its
// connections.
type OperationsJob struct {
	op       *Operator
	instance string
	log      *slog.Logger

	working sync.WaitGroup
	mu      sync.Mutex
	busy    map[string]bool // ids
	failing map[adapters.OperatorStore]bool
}

// operationLease is for how long an operation stays its worker's after a sign of life, unless that is an
// instance which is known to be dead.
const operationLease = 10 * time.Second

// operationsMost is how many operations one relay works at a time.
const operationsMost = 8

// NewOperationsJob makes the job of a relay. Stores are opened, and closed, by whoever made the parts.
func NewOperationsJob(b *assembly.Builder, p *assembly.Parts, instance string) *OperationsJob {
	op := &Operator{build: b, parts: p}
	for _, name := range assembly.SortedNames(p.States) {
		op.stores = append(op.stores, p.States[name])
	}
	return &OperationsJob{op: op, instance: instance, log: b.Options.Logger, busy: map[string]bool{}, failing: map[adapters.OperatorStore]bool{}}
}

// operationsPause is how often a relay looks for operations.
const operationsPause = 2 * time.Second

// Run looks for operations every two seconds, until ctx ends; then it gives up those that it works.
func (j *OperationsJob) Run(ctx context.Context) {
	defer j.working.Wait()
	tick := time.NewTicker(operationsPause)
	defer tick.Stop()
	for {
		for _, s := range j.op.stores {
			j.takeFree(ctx, s)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// takeFree begins to work what is free in a store.
func (j *OperationsJob) takeFree(ctx context.Context, store adapters.OperatorStore) {
	limited, cancel := context.WithTimeout(ctx, operationLease)
	defer cancel()
	active, err := store.ListOperations(limited, adapters.OperationFilter{Active: true})
	if err != nil {
		if ctx.Err() == nil && !j.failing[store] {
			j.failing[store] = true
			j.log.Warn("cannot look for operations, trying again", "error", err)
		}
		return
	}
	j.failing[store] = false
	for _, o := range slices.Backward(active) { // the oldest first
		if j.able(store, &o) && j.begin(o.ID) { // whether it is free the store knows
			j.working.Go(func() { j.work(ctx, store, o.ID) })
		}
	}
}

// able reports whether the configuration has what an operation of the store is about.
func (j *OperationsJob) able(s adapters.OperatorStore, o *adapters.Operation) bool {
	reads := func(route string, from func(config.Route) string) bool {
		return slices.ContainsFunc(j.op.build.Config.Routes, func(r config.Route) bool {
			k, err := j.op.build.StateOf(r.From)
			return from(r) == route && err == nil && j.op.parts.States[k.Key] == s
		})
	}
	for _, source := range o.Sources {
		if !reads(source, func(r config.Route) string { return r.From }) {
			return false
		}
	}
	for _, route := range o.Routes {
		if !reads(route, func(r config.Route) string { return r.Name }) {
			return false
		}
	}
	return true
}

// begin reports whether an operation may be worked now, which is not under way here already.
func (j *OperationsJob) begin(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.busy[id] || len(j.busy) >= operationsMost {
		return false
	}
	j.busy[id] = true
	return true
}

func (j *OperationsJob) work(ctx context.Context, store adapters.OperatorStore, id string) {
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.busy, id)
	}()
	o, err := j.op.work(ctx, store, id, j.instance, nil)
	switch {
	case err != nil && ctx.Err() == nil:
		j.log.Warn("an operation was interrupted, it is taken again", "operation", id, "error", err)
	case o == nil || o.State.Active():
	case o.State == adapters.OperationFailed:
		j.log.Error("an operation failed; resume it with: outrider operations resume "+id, "operation", id, "kind", string(o.Kind), "done", o.Done, "total", o.Total, "error", o.Error)
	default:
		j.log.Info("an operation ended", "operation", id, "kind", string(o.Kind), "state", string(o.State), "done", o.Done, "failed", o.Failed, "total", o.Total)
	}
}
