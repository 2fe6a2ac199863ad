package router

import (
	"context"

	"github.com/outriderhq/outrider/outbox"
)

// through is what the session delivers through: the route's destination or, if
// that fences former owners, what it gives this session.
func (s *session) through() outbox.Destination {
	d := s.route.Destination
	if f, ok := d.(outbox.Fencer); ok {
		if own := f.Fence(s.lane.name, s.owned); own != nil {
			s.fenced = own
			d = own
		}
	}
	return s.route.gateDestination(d)
}

// owned asks the state store whether all of the lane is still this session's.
func (s *session) owned(ctx context.Context) (bool, error) {
	return s.route.keeper.owns(ctx, s)
}

// owns is a renewal for its answer only: what may be sent until when is for the
// heartbeat to say, which first ends the sessions of lanes that are lost. Like
// there, the query is not cancelled on the way.
func (k *keeper) owns(ctx context.Context, s *session) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.lease/2)
	defer cancel()
	owned, err := k.store.Renew(ctx, k.instance, k.lease)
	if err != nil {
		return false, err
	}
	for _, ref := range s.lane.rows() {
		if _, ours := owned[ref]; !ours {
			return false, nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lost, nil
}

// closeFenced ends what the session delivered through. Nothing is under way.
func (s *session) closeFenced() {
	if s.fenced == nil {
		return
	}
	if err := s.fenced.Close(); err != nil {
		s.route.router.log.Debug("closing what a lane delivered through", "lane", s.lane.name, "error", err)
	}
}
