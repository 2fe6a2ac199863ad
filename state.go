package outrider

import (
	"context"
	"errors"

	"github.com/outriderhq/outrider/adapters"
)

// errNoState is the error for a source beside which no state can stand.
var errNoState = errors.New("a source without a database of its own needs `state: {url: ...}` for its parked messages")

// stateLocation is the URL or path of the state store for a source: the configured
// one, or the source's own database.
func (b *builder) stateLocation(source string) (string, error) {
	if !b.cfg.State.URL.IsZero() {
		return b.cfg.State.URL.Reveal(), nil
	}
	if location := b.source(source).state; location != "" {
		return location, nil
	}
	return "", errNoState
}

// stateOf is what can be done with the state store of a source.
func (b *builder) stateOf(source string) (k stateKind, err error) {
	location, err := b.stateLocation(source)
	if err != nil {
		return k, err
	}
	return b.stateAt(location), nil
}

// openState opens the state store of a source, once. Routes at one location share it.
func (b *builder) openState(ctx context.Context, p *parts, source string) (adapters.StateStore, error) {
	k, err := b.stateOf(source)
	if err != nil {
		return nil, err
	}
	if s := p.states[k.key]; s != nil {
		return s, nil
	}
	if err := p.away[k.key]; err != nil {
		return nil, err
	}
	s, err := k.open(ctx)
	if err != nil {
		if p.away == nil {
			p.away = map[string]error{}
		}
		p.away[k.key] = err
		return nil, err
	}
	if p.states == nil {
		p.states = map[string]adapters.StateStore{}
	}
	p.states[k.key] = s
	return s, nil
}
