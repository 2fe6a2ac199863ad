package statestore

import (
	"context"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// lockOf names the lock of an instance whose id is an expression.
func lockOf(id string) string { return strings.ReplaceAll(instanceLock, "%", id) }

// aliveInstance reports whether the instance of a row i lives: its lease is
// running, and its lock is held, as far as this server can know.
var aliveInstance = `(i.lease_until > ` + now + ` AND (i.server <> ` + thisServer + ` OR is_used_lock(` + lockOf("i.id") + `) IS NOT NULL))`

// Announce records which routes the instance runs.
func (s *Store) Announce(ctx context.Context, instance string, routes []adapters.RunningRoute) error {
	s.mu.Lock()
	err := s.joined(instance)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	err = my.RetryConflict(ctx, func() error {
		_, err := s.db.ExecContext(ctx, `UPDATE outrider_instance SET routes = ? WHERE id = ?`, state.EncodeRoutes(routes), instance)
		return err
	})
	return stateError(fmt.Sprintf("announce the routes of %q", instance), err)
}
