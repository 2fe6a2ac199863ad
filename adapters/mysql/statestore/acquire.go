package statestore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/internal/state"
)

const (
	// routeLock serialises those who change who has the lanes of a route.
	routeLock = `INSERT INTO outrider_route (route) VALUES (?) ON DUPLICATE KEY UPDATE route = VALUES(route)`

	// createLaneSQL begins epochs at the microsecond: those of a route that was
	// forgotten and comes back must not meet those of its former life.
	createLaneSQL = `INSERT IGNORE INTO outrider_cursor (route, slot, epoch, snapshot, window_snapshot, beyond, anchor) VALUES `
	createLane    = `(?, ?, ` + now + `, '', '', '[]', '')`

	takeSQL = `UPDATE outrider_cursor SET owner = ?, epoch = ?, acquired_at = ? WHERE route = ? AND slot IN {these} ORDER BY slot`

	// laneFields are the columns of [state.ScanLane].
	laneFields = `route, slot, updated_at IS NULL, position, snapshot, window_snapshot, paged, base,
    beyond, next_seq, epoch, revision, cluster, source, anchor, commands`
)

// takenSQL are the rows of a route with whether their owner lives. It locks nothing: who has a lane changes under the route's
// lock, except that an owner may give one up, or die.
var takenSQL = `
SELECT c.slot, coalesce(c.owner, ''), coalesce(` + aliveInstance + `, false)
FROM outrider_cursor c LEFT JOIN outrider_instance i ON i.id = c.owner WHERE c.route = ?`

// Acquire makes the instance the owner of the route's rows that have no living
// owner, of at most so many, and raises their epoch. Rows that it owns already
// are acquired again. Of more our own go first, then those without an owner.
func (s *Store) Acquire(ctx context.Context, instance, route string, slots []int, most int) (lanes []adapters.LaneState, err error) {
	if err := s.MayAcquire(instance, route, slots); err != nil {
		return nil, err
	}
	err = s.transact(ctx, func(tx *sql.Tx) error {
		lanes, err = acquire(ctx, tx, instance, route, slots, most)
		return err
	})
	return lanes, stateError(fmt.Sprintf("acquire lanes of route %q", route), err)
}

func acquire(ctx context.Context, tx *sql.Tx, instance, route string, slots []int, most int) ([]adapters.LaneState, error) {
	if _, err := tx.ExecContext(ctx, routeLock, route); err != nil {
		return nil, err
	}
	var paused bool
	var clock int64
	if err := tx.QueryRowContext(ctx, pausedSQL, route, hashOf("")).Scan(&paused, &clock); err != nil {
		return nil, err
	}
	if paused {
		return nil, adapters.ErrPaused
	}
	free, err := freeSlots(ctx, tx, instance, route, slots)
	if err != nil {
		return nil, err
	}
	free = free[:min(max(most, 0), len(free))]
	if len(free) == 0 {
		return nil, nil
	}
	lanes, err := lockLanes(ctx, tx, route, free)
	if err != nil {
		return nil, err
	}
	// Epochs follow the clock, so that none comes twice in a store that was put back to an earlier state.
	epoch := clock
	for i := range lanes {
		epoch = max(epoch, lanes[i].Epoch+1)
	}
	for i := range lanes {
		lanes[i].Epoch = epoch
	}
	in, args := state.List(free)
	_, err = tx.ExecContext(ctx, fill(takeSQL, in),
		append([]any{instance, epoch, clock, route}, args...)...)
	return lanes, err
}

// freeSlots returns those of the slots that have no living owner, creating rows that do not exist.
func freeSlots(ctx context.Context, tx *sql.Tx, instance, route string, slots []int) ([]int, error) {
	const other, dead, free, own = 0, 1, 2, 3
	rank := map[int]int{}
	err := state.Each(ctx, tx, takenSQL, []any{route}, func(scan func(...any) error) error {
		var slot int
		var owner string
		var alive bool
		err := scan(&slot, &owner, &alive)
		switch {
		case owner == instance:
			rank[slot] = own
		case owner == "":
			rank[slot] = free
		case !alive:
			rank[slot] = dead
		default:
			rank[slot] = other
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var missing []int
	for _, slot := range slots {
		if _, there := rank[slot]; !there {
			missing, rank[slot] = append(missing, slot), free
		}
	}
	if err := createLanes(ctx, state.SQLTx{DB: tx}, route, missing); err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(slices.Clone(slots), func(slot int) bool { return rank[slot] == other })
	slices.SortFunc(out, func(a, b int) int { return cmp.Or(cmp.Compare(rank[b], rank[a]), cmp.Compare(a, b)) })
	return slices.Compact(out), nil
}

// createLanes creates rows unless they exist.
func createLanes(ctx context.Context, tx state.Tx, route string, slots []int) error {
	if len(slots) == 0 {
		return nil
	}
	values, args := make([]string, len(slots)), make([]any, 0, 2*len(slots))
	for i, slot := range slices.Sorted(slices.Values(slots)) {
		values[i], args = createLane, append(args, route, slot)
	}
	_, err := tx.Exec(ctx, sqltext.Raw(createLaneSQL+strings.Join(values, ", "), args...))
	return err
}

// lockLanes locks rows, and returns what is committed of them.
func lockLanes(ctx context.Context, tx *sql.Tx, route string, slots []int) (lanes []adapters.LaneState, err error) {
	in, args := state.List(slots)
	err = state.Each(ctx, tx, `SELECT `+laneFields+` FROM outrider_cursor WHERE route = ? AND slot IN `+in+` ORDER BY slot FOR UPDATE`,
		append([]any{route}, args...), func(scan func(...any) error) error {
			l, err := state.ScanLane(scan)
			lanes = append(lanes, l)
			return err
		})
	return lanes, err
}
