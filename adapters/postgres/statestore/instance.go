package statestore

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
)

const (
	// aliveInstance reports whether the instance of a row i lives: its lease is
	// running, and its advisory lock is not free. The look at the lock is
	// shared, so that two who look at once do not take each other for its holder.
	aliveInstance = `(i.lease_until > clock_timestamp() AND NOT pg_try_advisory_xact_lock_shared(` +
		instanceKey + `i.id` + keyEnd + `))`

	announceSQL = `UPDATE outrider_instance SET routes = $2::text::jsonb WHERE id = $1`
)

// Announce writes down which routes the instance runs.
func (s *Store) Announce(ctx context.Context, instance string, routes []adapters.RunningRoute) error {
	s.mu.Lock()
	err := s.joined(instance)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, announceSQL, instance, state.EncodeRoutes(routes))
	return stateError(fmt.Sprintf("announce the routes of %q", instance), err)
}
