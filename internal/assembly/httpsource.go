package assembly

import (
	"context"

	"github.com/outriderhq/outrider/adapters/http"
	"github.com/outriderhq/outrider/config"
)

// httpSource is what can be done with a source that messages are posted to.
func httpSource(at site, s *config.HTTPSource) SourceKind {
	return SourceKind{Leader: s.Leader, Open: func(context.Context) (Feed, error) {
		sub, err := http.NewSubscriber(httpSubscriber(at, s))
		if err != nil {
			return Feed{}, err
		}
		return Feed{subscriber: sub, topic: s.Path, maxRow: int64(s.MaxRow), close: sub.Close}, nil
	}}
}

func httpSubscriber(at site, s *config.HTTPSource) http.SubscriberConfig {
	return http.SubscriberConfig{Listen: s.Listen, Tokens: Reveal(s.Tokens), MaxBody: int64(s.MaxRow), MaxRequests: s.MaxRequests,
		Logger: at.log.With("source", at.name)}
}
