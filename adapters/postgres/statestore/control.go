package statestore

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

const releaseSQL = `
WITH ours AS MATERIALIZED (
    SELECT c.route, c.slot FROM outrider_cursor c
    WHERE c.owner = $1 AND (c.route, c.slot) IN (SELECT * FROM unnest($2::text[], $3::smallint[]))
    ORDER BY c.route, c.slot FOR UPDATE
)
UPDATE outrider_cursor AS c SET owner = NULL FROM ours o WHERE c.route = o.route AND c.slot = o.slot`

// Release implements [adapters.StateStore].
func (s *Store) Release(ctx context.Context, instance string, lanes []adapters.LaneRef) error {
	routes, slots := make([]string, len(lanes)), make([]int16, len(lanes))
	for i, l := range lanes {
		routes[i], slots[i] = l.Route, int16(l.Slot)
	}
	err := pg.RetryDeadlock(func() error {
		_, err := s.pool.Exec(ctx, releaseSQL, instance, routes, slots)
		return err
	})
	return stateError(fmt.Sprintf("release lanes of %q", instance), err)
}
