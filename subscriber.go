package outrider

import (
	"context"

	"github.com/outriderhq/outrider/config"
)

// subscriberSource is what can be done with a Watermill subscriber that the program
// supplies. It is the program's to close.
func subscriberSource(at site, s *config.Subscriber) sourceKind {
	return sourceKind{supplied: true, leader: s.Leader, open: func(context.Context) (feed, error) {
		return feed{subscriber: at.options.subscribers[at.name], topic: s.Topic, maxRow: int64(s.MaxRow)}, nil
	}}
}
