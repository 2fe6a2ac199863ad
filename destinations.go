package outrider

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
)

// buildDestination makes a destination and begins to check it; routes to one name
// share it.
func (b *builder) buildDestination(ctx context.Context, p *parts, name string) (adapters.Destination, error) {
	if d := p.destinations[name]; d != nil {
		return d, nil
	}
	k := b.destination(name)
	if k.open == nil {
		return nil, notBuiltIn(b.cfg.Destinations[name])
	}
	d, err := k.open()
	if err != nil {
		return nil, err
	}
	p.destinations[name] = d
	if c, ok := d.(adapters.Checker); ok {
		p.checks.start(func() error {
			if err := c.Check(ctx); err != nil {
				// Not an error of ours: what is down comes back, and what is missing
				// is created. Until then its messages wait.
				b.log.Warn("destination is not reachable yet; its messages wait", "destination", name, "error", err)
			}
			return nil
		})
	}
	return d, nil
}
