package assembly

import (
	"context"
	"errors"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// errNoState is the error for a source whose database cannot hold state, or that has none.
var errNoState = errors.New("a source without a database of its own needs `state: {url: ...}` for its parked messages")

// stateLocation is the URL or path of the state store for a source: the configured
// one, or the source's own database.
func (b *Builder) stateLocation(source string) (string, error) {
	if !b.Config.State.URL.IsZero() {
		return b.Config.State.URL.Reveal(), nil
	}
	if src := b.Config.Sources[source]; src != nil {
		if location := config.StateBeside(src); location != "" {
			return location, nil
		}
	}
	return "", errNoState
}

// StateOf returns the state store of a source.
func (b *Builder) StateOf(source string) (k StateKind, err error) {
	location, err := b.stateLocation(source)
	if err != nil {
		return k, err
	}
	return b.stateAt(location), nil
}

// OpenState opens the state store of a source, once. Routes at one location share it.
func (b *Builder) OpenState(ctx context.Context, p *Parts, source string) (adapters.OperatorStore, error) {
	k, err := b.StateOf(source)
	if err != nil {
		return nil, err
	}
	if s := p.States[k.Key]; s != nil {
		return s, nil
	}
	if err := p.unopened[k.Key]; err != nil {
		return nil, err
	}
	s, err := k.Open(ctx)
	if err != nil {
		if p.unopened == nil {
			p.unopened = map[string]error{}
		}
		p.unopened[k.Key] = err
		return nil, err
	}
	if p.States == nil {
		p.States = map[string]adapters.OperatorStore{}
	}
	p.States[k.Key] = s
	return s, nil
}
