package outrider

import (
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// publisherDestination is what can be done with a destination that the program
// supplies, as a Watermill publisher or as one of Outrider's own kind.
func publisherDestination(at site, d *config.Publisher) destinationKind {
	k := destinationKind{supplied: true}
	if supplied := at.options.destinations[at.name]; supplied != nil {
		k.open = func() (adapters.Destination, error) { return supplied(d) }
	}
	return k
}
