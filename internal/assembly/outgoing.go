package assembly

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
)

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
// those that are successes beside 2xx.
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
