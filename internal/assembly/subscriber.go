package assembly

import (
	"context"

	"github.com/outriderhq/outrider/config"
)

// subscriberSource is what can be done with a Watermill subscriber that the program
// supplies. It is the program's to close.
func subscriberSource(at site, s *config.Subscriber) SourceKind {
	return SourceKind{Supplied: true, Leader: s.Leader, Open: func(context.Context) (Feed, error) {
		return Feed{subscriber: at.Options.Subscribers[at.name], topic: s.Topic, maxRow: int64(s.MaxRow)}, nil
	}}
}
