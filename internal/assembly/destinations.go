package assembly

import (
	"context"
	"errors"

	"github.com/outriderhq/outrider/adapters"
)

// buildDestination makes a destination and begins to check it; routes to one name
// share it.
func (b *Builder) buildDestination(ctx context.Context, p *Parts, name string) (adapters.Destination, error) {
	if d := p.destinations[name]; d != nil {
		return d, nil
	}
	k := b.Destination(name)
	if k.Open == nil {
		return nil, NotBuiltIn(b.Config.Destinations[name])
	}
	d, err := k.Open()
	if err != nil {
		return nil, err
	}
	p.destinations[name] = d
	if c, ok := d.(adapters.Checker); ok {
		p.checks.start(func() error {
			if err := c.Check(ctx); err != nil {
				// Not a failed start: what is down comes back, and what is missing
				// is created. Until then its messages wait.
				if text, _, away := ConnectionProblem(err); away {
					err = errors.New(text)
				}
				b.log.Warn("destination is not ready; its messages wait", "destination", name, "error", err)
			}
			return nil
		})
	}
	return d, nil
}
