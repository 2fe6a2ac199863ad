package operate

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/outbox"
)

// Publish writes messages to the outbox table of a source, in a transaction of
// its own: for trying things out and for scripts. Applications publish in their
// own transactions, with outbox.Client. It connects by the source's url.
func Publish(ctx context.Context, cfg *config.Config, source string, messages ...outbox.Envelope) error {
	src := cfg.Sources[source]
	if src == nil {
		return fmt.Errorf("the configuration has no source %q; it has %v", source, assembly.SortedNames(cfg.Sources))
	}
	k := assembly.NewBuilder(cfg, assembly.OptionsOf(nil)).Source(source)
	if k.Publish == nil {
		return fmt.Errorf("source %q has type %s, which has no outbox table to write to", source, src.Kind())
	}
	if err := k.Publish(ctx, messages); err != nil {
		return fmt.Errorf("source %q: %w", source, err)
	}
	return nil
}

// RoutesFor returns the names of the routes that read a source and match a message,
// in the order of the configuration.
func RoutesFor(cfg *config.Config, source string, e *outbox.Envelope) []string {
	names := []string{}
	for _, r := range cfg.Routes {
		if r.From == source && r.Match.Matches(config.Event{Type: e.Type(), AggregateType: e.AggregateType(), Tenant: e.Tenant(), Tags: e.Tags()}) {
			names = append(names, r.Name)
		}
	}
	return names
}
