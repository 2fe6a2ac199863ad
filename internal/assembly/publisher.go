package assembly

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/watermill"
	"github.com/outriderhq/outrider/config"
)

// publisherDestination is what can be done with a destination that the program
// supplies, as a Watermill publisher or as one of Outrider's own kind.
func publisherDestination(at site, d *config.Publisher) DestinationKind {
	k := DestinationKind{Supplied: "WithDestination"}
	if supplied := at.Options.Destinations[at.name]; supplied != nil {
		k.Open = func() (adapters.Destination, error) { return supplied(d) }
	}
	return k
}

// Supply has a Watermill publisher be the destination of a name, to the topic that the
// configuration gives it.
func (o *Options) Supply(name string, p message.Publisher) {
	o.Destinations[name] = func(d *config.Publisher) (adapters.Destination, error) {
		return watermill.New(p, watermill.Config{Topic: string(d.Topic), Logger: o.Logger})
	}
}
