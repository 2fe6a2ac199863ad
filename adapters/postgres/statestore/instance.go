package statestore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

const (
	// aliveInstance reports whether the instance of a row i lives: its lease is
	// running, and its advisory lock is not free. The look at the lock is
	// shared, so that two who look at once do not take each other for its holder.
	aliveInstance = `(i.lease_until > clock_timestamp() AND NOT pg_try_advisory_xact_lock_shared(` +
		instanceKey + `i.id` + keyEnd + `))`

	instancesSQL = `SELECT i.id, ` + aliveInstance + `, extract(epoch FROM i.lease_until - clock_timestamp())::float8, i.joined_at, i.renewed_at, i.routes::text
FROM outrider_instance i ORDER BY i.id`

	announceSQL = `UPDATE outrider_instance SET routes = $2::text::jsonb WHERE id = $1`
)

// announced is what instances have said that they run, by instance, as it was last read: it is long where there are hundreds of routes, and changes
// when instances come and go.
type announced map[string]announcement

type announcement struct {
	text   string
	routes []adapters.RunningRoute
}

// of returns what an instance has said; a is nil before the first read.
func (a *announced) of(instance string) announcement {
	if a == nil {
		return announcement{}
	}
	return (*a)[instance]
}

// Announce writes down which routes the instance runs.
func (s *Store) Announce(ctx context.Context, instance string, routes []adapters.RunningRoute) error {
	s.mu.Lock()
	err := s.joined(instance)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, announceSQL, instance, staterow.EncodeRoutes(routes)); err != nil {
		return stateError(fmt.Sprintf("announce the routes of %q", instance), err)
	}
	return nil
}

// Instances returns all instances, by id. The dead are forgotten a day after
// their lease has ended, when the next one joins.
func (s *Store) Instances(ctx context.Context) ([]adapters.Instance, error) {
	rows, err := s.pool.Query(ctx, instancesSQL)
	if err != nil {
		return nil, stateError("read the instances", err)
	}
	known, now := s.announced.Load(), announced{}
	instances, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i adapters.Instance, err error) {
		var routes string
		var left float64
		if err = row.Scan(&i.ID, &i.Alive, &left, &i.JoinedAt, &i.RenewedAt, &routes); err == nil {
			i.Left = time.Duration(left * float64(time.Second))
			a := known.of(i.ID)
			if a.text != routes {
				a.text = routes
				a.routes, err = staterow.DecodeRoutes(routes)
			}
			i.Routes, now[i.ID] = slices.Clone(a.routes), a
		}
		return i, err
	})
	if err == nil {
		s.announced.Store(&now)
	}
	return instances, stateError("read the instances", err)
}
