package console

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// Probe tries an address of a route that is down at once. It reports whether this instance does.
func (c *Console) Probe(route, address string) bool {
	return c.relay.Probe != nil && c.relay.Probe(route, address)
}

// CreateTopic is [operate.Operator.CreateTopic]; then the routes that wait for the topic try it at once.
func (c *Console) CreateTopic(ctx context.Context, destination string, topic adapters.NewTopic, by string) (created bool, err error) {
	err = c.Use(ctx, func(op *operate.Operator) (err error) {
		created, err = op.CreateTopic(ctx, destination, topic, by)
		return err
	})
	if topic.DryRun {
		return created, err
	}
	for _, r := range c.Config().Routes {
		if r.To == destination {
			c.Probe(r.Name, topic.Name)
		}
	}
	return created, err
}
