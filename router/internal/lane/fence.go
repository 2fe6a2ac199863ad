package lane

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
)

// through is what the session delivers through: the route's destination or, if
// that fences former owners, what it gives this session.
func (s *Session) through() adapters.Destination {
	d := s.route.Destination
	if f, ok := d.(adapters.Fencer); ok {
		if own := f.Fence(s.lane.Name, s.owned); own != nil {
			s.fenced = own
			d = own
		}
	}
	return s.route.gateDestination(d)
}

// owned asks the state store whether all of the lane is still this session's.
func (s *Session) owned(ctx context.Context) (bool, error) {
	return s.route.Lease.StillOwned(ctx, s)
}

// closeFenced ends what the session delivered through. Nothing is under way.
func (s *Session) closeFenced() {
	if s.fenced == nil {
		return
	}
	if err := s.fenced.Close(); err != nil {
		s.route.Log().Debug("closing what a lane delivered through", "lane", s.lane.Name, "error", err)
	}
}
