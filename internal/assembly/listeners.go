package assembly

import (
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// listenersDestination is what can be done with functions that the program supplies.
func listenersDestination(at site, d *config.Listeners) DestinationKind {
	k := DestinationKind{Supplied: "WithListeners"}
	if supplied := at.Options.Listeners[at.name]; supplied != nil {
		k.Open = func() (adapters.Destination, error) { return supplied(d.Workers) }
	}
	return k
}
