package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// Announce records which routes the instance runs. No instance shares them with
// it here; status shows them.
func (s *State) Announce(ctx context.Context, instance string, routes []adapters.RunningRoute) error {
	if err := s.joined(instance); err != nil {
		return err
	}
	err := lite.RetryBusy(ctx, func() error {
		_, err := s.db.ExecContext(ctx, `UPDATE outrider_instance SET routes = ? WHERE id = ?`, staterow.EncodeRoutes(routes), instance)
		return err
	})
	if err != nil {
		return s.wrap(fmt.Sprintf("announce the routes of %q", instance), err)
	}
	return nil
}

// Instances returns the instance that has joined, or the last one if it ended
// without leaving.
func (s *State) Instances(ctx context.Context) ([]adapters.Instance, error) {
	instances, err := s.instances(ctx)
	if err != nil {
		return nil, s.wrap("read the instances", err)
	}
	return instances, nil
}

func (s *State) instances(ctx context.Context) ([]adapters.Instance, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id, lease_until, joined_at, renewed_at, routes FROM outrider_instance ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	var instances []adapters.Instance
	for rows.Next() {
		var i adapters.Instance
		var until, joined, renewed int64
		var routes string
		if err := rows.Scan(&i.ID, &until, &joined, &renewed, &routes); err != nil {
			return nil, err
		}
		i.Left = time.Until(time.UnixMicro(until))
		i.Alive = i.Left > 0
		i.JoinedAt, i.RenewedAt = time.UnixMicro(joined), time.UnixMicro(renewed)
		if i.Routes, err = staterow.DecodeRoutes(routes); err != nil {
			return nil, err
		}
		instances = append(instances, i)
	}
	return instances, rows.Err()
}
