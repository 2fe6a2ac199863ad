package statestore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// releaseSQL follows lockSQL, so that lanes are locked in the order in which all do.
const releaseSQL = `
UPDATE outrider_cursor AS c SET owner = NULL FROM unnest($1::text[], $2::smallint[]) AS s(route, slot)
WHERE c.route = s.route AND c.slot = s.slot AND c.owner = $3`

// Release implements [adapters.StateStore].
func (s *Store) Release(ctx context.Context, instance string, lanes []adapters.LaneRef) error {
	routes, slots := make([]string, len(lanes)), make([]int16, len(lanes))
	for i, l := range lanes {
		routes[i], slots[i] = l.Route, int16(l.Slot)
	}
	err := pg.RetryDeadlock(func() error {
		batch := &pgx.Batch{} // a transaction
		batch.Queue(lockSQL, routes, slots)
		batch.Queue(releaseSQL, routes, slots, instance)
		return s.pool.SendBatch(ctx, batch).Close()
	})
	return stateError(fmt.Sprintf("release lanes of %q", instance), err)
}
