package statestore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// lockOf names the lock of an instance whose id is an expression.
func lockOf(id string) string { return strings.ReplaceAll(instanceLock, "%", id) }

// aliveInstance reports whether the instance of a row i lives: its lease is
// running, and its lock is held, as far as this server can know.
var aliveInstance = `(i.lease_until > ` + now + ` AND (i.server <> ` + thisServer + ` OR is_used_lock(` + lockOf("i.id") + `) IS NOT NULL))`

var instancesSQL = `SELECT i.id, ` + aliveInstance + `, i.lease_until - ` + now + `, i.joined_at, i.renewed_at, i.routes
FROM outrider_instance i ORDER BY i.id`

// Announce records which routes the instance runs.
func (s *Store) Announce(ctx context.Context, instance string, routes []adapters.RunningRoute) error {
	s.mu.Lock()
	err := s.joined(instance)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	err = my.RetryConflict(ctx, func() error {
		_, err := s.db.ExecContext(ctx, `UPDATE outrider_instance SET routes = ? WHERE id = ?`, staterow.EncodeRoutes(routes), instance)
		return err
	})
	return stateError(fmt.Sprintf("announce the routes of %q", instance), err)
}

// Instances returns all instances, by id. The dead are forgotten a day after
// their lease has ended, when the next one joins.
func (s *Store) Instances(ctx context.Context) (instances []adapters.Instance, err error) {
	err = each(ctx, s.db, instancesSQL, nil, func(scan func(...any) error) error {
		var i adapters.Instance
		var left, joined, renewed int64
		var routes string
		if err := scan(&i.ID, &i.Alive, &left, &joined, &renewed, &routes); err != nil {
			return err
		}
		i.Left = time.Duration(left) * time.Microsecond
		i.JoinedAt, i.RenewedAt = time.UnixMicro(joined), time.UnixMicro(renewed)
		i.Routes, err = staterow.DecodeRoutes(routes)
		instances = append(instances, i)
		return err
	})
	return instances, stateError("read the instances", err)
}
