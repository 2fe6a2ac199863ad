package statestore

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// Announce records which routes the instance runs. No instance shares them with
// it here; status shows them.
func (s *Store) Announce(ctx context.Context, instance string, routes []adapters.RunningRoute) error {
	if err := s.joined(instance); err != nil {
		return err
	}
	err := lite.RetryBusy(ctx, func() error {
		_, err := s.db.ExecContext(ctx, `UPDATE outrider_instance SET routes = ? WHERE id = ?`, state.EncodeRoutes(routes), instance)
		return err
	})
	return s.wrap(fmt.Sprintf("announce the routes of %q", instance), err)
}
