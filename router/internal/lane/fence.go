package lane

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
)

// fence returns what the session delivers through instead of the route's destination, if that
// fences former owners; otherwise nil.
func fence(s *Session) adapters.Destination {
	if f, ok := s.Route.Destination.(adapters.Fencer); ok {
		return f.Fence(s.Lane.Name, func(ctx context.Context) (bool, error) { return s.Route.Lease.StillOwned(ctx, s) })
	}
	return nil
}

// closeFenced ends what a session delivered through. Nothing is in flight.
func closeFenced(s *Session) {
	if s.fenced == nil {
		return
	}
	if err := s.fenced.Close(); err != nil {
		s.Route.Log().Debug("closing what a lane delivered through", "lane", s.Lane.Name, "error", err)
	}
}
