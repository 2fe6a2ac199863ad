package outrider

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// Operator is what people and scripts do with a relay's state, from any process
// that reaches its state store: list, redrive and skip parked messages, and
// look at the lanes. A running relay notices within a quarter of its lease.
type Operator struct {
	build  *builder
	parts  *parts
	stores []adapters.StateStore
}

// NewOperator opens the state stores that the configuration uses. The relay need
// not run. Close it afterwards.
func NewOperator(ctx context.Context, cfg *config.Config, opts ...option) (*Operator, error) {
	b := newBuilder(cfg, optionsOf(opts))
	for _, r := range cfg.Routes {
		if k, err := b.stateOf(r.From); err == nil {
			if err := k.exists(); err != nil {
				return nil, fmt.Errorf("state store of route %q: %w", r.Name, err)
			}
		}
	}
	return newOperator(ctx, b)
}

// newOperator is [NewOperator] without the check that there is something to
// operate on.
func newOperator(ctx context.Context, b *builder) (*Operator, error) {
	if err := errors.Join(b.options.checkPools(b.cfg)...); err != nil {
		return nil, err
	}
	op := &Operator{build: b, parts: &parts{}}
	for _, r := range b.cfg.Routes {
		s, err := b.openState(ctx, op.parts, r.From)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("route %q: %w", r.Name, err), op.parts.close())
		}
		if !slices.Contains(op.stores, s) {
			op.stores = append(op.stores, s)
		}
	}
	return op, nil
}

// Close frees the connections.
func (op *Operator) Close() error { return op.parts.close() }

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
