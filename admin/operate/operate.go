package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// Option is an option of a relay, such as outrider.WithPool or outrider.WithLogger. The
// functions of this package heed those that concern connections, destinations and the log.
type Option = assembly.Option

// Operator has the commands of people and scripts on a relay's state, from any process
// that reaches its state store: list, redrive and skip parked messages, and
// read the state of lanes. A running relay notices within a quarter of its lease.
type Operator struct {
	build  *assembly.Builder
	parts  *assembly.Parts
	stores []adapters.OperatorStore

	opening  sync.Mutex                        // held while a source is opened, once
	progress map[string]adapters.ProgressTable // by source; held by opening
}

// NewOperator opens the state stores that the configuration uses. The relay need
// not run. Close it afterwards.
func NewOperator(ctx context.Context, cfg *config.Config, opts ...Option) (*Operator, error) {
	return OperatorOf(ctx, assembly.NewBuilder(cfg, assembly.OptionsOf(opts)))
}

// OperatorOf is [NewOperator] for a builder.
func OperatorOf(ctx context.Context, b *assembly.Builder) (*Operator, error) {
	for _, r := range b.Config.Routes {
		if k, err := b.StateOf(r.From); err == nil {
			if err := k.Exists(); err != nil {
				return nil, fmt.Errorf("state store of route %q: %w", r.Name, err)
			}
		}
	}
	op, err := Connect(ctx, b)
	if err != nil {
		return nil, err
	}
	for _, s := range op.stores {
		// Another error concerns what is done next as well, and says more there.
		if _, _, err := s.StateVersion(ctx); errors.Is(err, adapters.ErrStateTooNew) {
			return nil, errors.Join(err, op.Close())
		}
	}
	return op, nil
}

// Connect is [OperatorOf] without the check that there is something to operate on.
func Connect(ctx context.Context, b *assembly.Builder) (*Operator, error) {
	if err := errors.Join(b.Options.CheckPools(b.Config)...); err != nil {
		return nil, err
	}
	op := &Operator{build: b, parts: &assembly.Parts{}}
	for _, r := range b.Config.Routes {
		s, err := b.OpenState(ctx, op.parts, r.From)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("route %q: %w", r.Name, err), op.parts.Close())
		}
		if !slices.Contains(op.stores, s) {
			op.stores = append(op.stores, s)
		}
	}
	return op, nil
}

// Close frees the connections.
func (op *Operator) Close() error {
	op.closeProgress()
	return op.parts.Close()
}

// Lanes returns who works which lane, how far it is and what is parked.
func (op *Operator) Lanes(ctx context.Context) ([]adapters.LaneStatus, error) {
	var out []adapters.LaneStatus
	for _, s := range op.stores {
		lanes, err := s.Lanes(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, lanes...)
	}
	return out, nil
}

// Instances returns the relays that have joined and not left: also dead ones,
// for a while.
func (op *Operator) Instances(ctx context.Context) ([]adapters.Instance, error) {
	var out []adapters.Instance
	for _, s := range op.stores {
		instances, err := s.Instances(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, instances...)
	}
	return out, nil
}

// Builder has the configuration, and the kinds of its sources and destinations.
func (op *Operator) Builder() *assembly.Builder { return op.build }

// Open opens and checks what routes of a source read, once.
func (op *Operator) Open(ctx context.Context, source string) (assembly.Feed, error) {
	op.opening.Lock()
	defer op.opening.Unlock()
	return op.build.CheckedFeed(ctx, op.parts, source)
}

// Feed is [Operator.Open] without the checks of a relay, which an operator's role would not pass.
func (op *Operator) Feed(ctx context.Context, source string) (assembly.Feed, error) {
	op.opening.Lock()
	defer op.opening.Unlock()
	return op.build.Feed(ctx, op.parts, source)
}

// RemoveInstance takes all lanes away from an instance and deletes its registration, so that others take the lanes. It
// returns false if there is no such instance. One that runs joins again.
func (op *Operator) RemoveInstance(ctx context.Context, id, by string) (removed bool, err error) {
	for _, s := range op.stores {
		here, failed := s.RemoveInstance(ctx, id, by)
		removed, err = removed || here, errors.Join(err, failed)
	}
	return removed, err
}

// Known refuses a route that neither the configuration nor the state has.
func (op *Operator) Known(ctx context.Context, route string) error {
	if op.configured(route) {
		return nil
	}
	lanes, err := op.Cursors(ctx, []string{route})
	if err == nil && len(lanes) == 0 {
		err = &UnknownRoute{Route: route}
	}
	return err
}
