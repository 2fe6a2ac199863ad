package assembly

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
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
				if text, _, unreachable := ConnectionProblem(err); unreachable {
					err = errors.New(text)
				}
				b.log.Warn("destination is not ready; its messages wait", "destination", name, "error", err)
			}
			return nil
		})
	}
	return d, nil
}

// statusKinds are the configuration's words for what a status means.
var statusKinds = map[config.StatusAction]outbox.Kind{
	config.StatusSkip:        outbox.KindSkip,
	config.StatusTransient:   outbox.KindTransient,
	config.StatusUnavailable: outbox.KindUnavailable,
	config.StatusGone:        outbox.KindGone,
	config.StatusPermanent:   outbox.KindPermanent,
}

// parseNetworks reads lists of networks.
func parseNetworks(lists ...[]string) ([][]netip.Prefix, error) {
	out := make([][]netip.Prefix, len(lists))
	for i, list := range lists {
		for _, text := range list {
			network, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, fmt.Errorf("networks: %w", err)
			}
			out[i] = append(out[i], network)
		}
	}
	return out, nil
}

// statusTable turns the configuration's table into the kinds of statuses and
// those that are successes like 2xx.
func statusTable(table map[config.StatusCode]config.StatusAction) (kinds map[int]outbox.Kind, accept []int, err error) {
	kinds = map[int]outbox.Kind{}
	for status, action := range table {
		if action == config.StatusDelivered {
			accept = append(accept, int(status))
			continue
		}
		kind, ok := statusKinds[action]
		if !ok {
			return nil, nil, errors.New("status " + status.String() + ": " + action.String() + " is not known to this program")
		}
		kinds[int(status)] = kind
	}
	return kinds, accept, nil
}

// Reveal returns the texts of secrets.
func Reveal(secrets []config.Secret) []string {
	out := make([]string, len(secrets))
	for i, s := range secrets {
		out[i] = s.Reveal()
	}
	return out
}

func revealMap(secrets map[string]config.Secret) map[string]string {
	out := make(map[string]string, len(secrets))
	for name, s := range secrets {
		out[name] = s.Reveal()
	}
	return out
}

// allowed returns which addresses the rows of a destination at a broker may choose; nil: any.
func allowed(d config.Destination) func(name string) bool {
	t, _ := config.TopicsOf(d)
	return t.Allowed()
}
