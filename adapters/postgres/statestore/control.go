package statestore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

const (
	// pausedRoute reports whether route $1 is paused.
	pausedRoute = `EXISTS (SELECT FROM outrider_pause u WHERE u.route = $1 AND md5(u.address) = md5('') AND u.address = '')`

	pausedSQL = `SELECT ` + pausedRoute

	pausesSQL = `SELECT route, address, message_group, reason, by, at FROM outrider_pause
WHERE $1 = '' OR route = $1 ORDER BY route, address`

	pauseSQL = `INSERT INTO outrider_pause (route, address, message_group, reason, by) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (route, md5(address)) DO NOTHING`

	resumeSQL = `DELETE FROM outrider_pause WHERE route = $1 AND md5(address) = md5($2) AND address = $2 AND message_group = $3`

	// lockLanesSQL locks the cursor rows of a route in the order in which a
	// settle does.
	lockLanesSQL = `SELECT FROM outrider_cursor WHERE route = $1 ORDER BY slot FOR UPDATE`

	raiseSQL = `UPDATE outrider_cursor SET commands = commands + 1 WHERE route = $1`

	releaseSQL = `
WITH ours AS MATERIALIZED (
    SELECT c.route, c.slot FROM outrider_cursor c
    WHERE c.owner = $1 AND (c.route, c.slot) IN (SELECT * FROM unnest($2::text[], $3::smallint[]))
    ORDER BY c.route, c.slot FOR UPDATE
)
UPDATE outrider_cursor AS c SET owner = NULL FROM ours o WHERE c.route = o.route AND c.slot = o.slot`

	moveSQL = `
UPDATE outrider_cursor AS c
SET position = m.position, snapshot = m.snapshot, window_snapshot = m.window_snapshot, paged = m.paged, base = m.base,
    anchor = m.anchor, beyond = m.beyond::bigint[], epoch = c.epoch + 1, commands = c.commands + 1, owner = NULL, updated_at = clock_timestamp(),
    cluster = $10, source = coalesce(nullif($11, ''), c.source),
    former = CASE WHEN NOT $12 THEN '' WHEN c.cluster <> $10 THEN c.cluster ELSE c.former END
FROM unnest($2::smallint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::text[])
    AS m(slot, position, snapshot, window_snapshot, paged, base, anchor, beyond)
WHERE c.route = $1 AND c.slot = m.slot`

	aliveSQL = `SELECT coalesce(min(i.id), '') FROM outrider_cursor c JOIN outrider_instance i ON i.id = c.owner
WHERE c.route = $1 AND i.lease_until > clock_timestamp()`
)

// Pauses returns the pauses of a route, or all.
func (s *Store) Pauses(ctx context.Context, route string) ([]adapters.Pause, error) {
	rows, err := s.pool.Query(ctx, pausesSQL, route)
	if err != nil {
		return nil, stateError("read the pauses", err)
	}
	pauses, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p adapters.Pause, err error) {
		err = row.Scan(&p.Route, &p.Address, &p.Group, &p.Reason, &p.By, &p.At)
		staterow.UnpackPause(&p)
		return p, err
	})
	return pauses, stateError("read the pauses", err)
}

// Pause implements [adapters.Controls].
func (s *Store) Pause(ctx context.Context, p adapters.Pause) (changed bool, err error) {
	err = s.control(ctx, p.Route, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, pauseSQL, p.Route, staterow.PauseAddress(p), staterow.PackGroup(p.Group), staterow.Clean(p.Reason), staterow.Clean(p.By))
		if changed = tag.RowsAffected() > 0; err != nil || !changed {
			return err
		}
		if _, err := tx.Exec(ctx, raiseSQL, p.Route); err != nil {
			return err
		}
		return audit(ctx, tx, p.By, "pause", 1, "route", p.Route, "address", p.Address, "group", p.Group, "reason", p.Reason)
	})
	return changed, stateError(fmt.Sprintf("pause route %q", p.Route), err)
}

// Resume implements [adapters.Controls].
func (s *Store) Resume(ctx context.Context, p adapters.Pause) (changed bool, err error) {
	err = s.control(ctx, p.Route, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, resumeSQL, p.Route, staterow.PauseAddress(p), staterow.PackGroup(p.Group))
		if changed = tag.RowsAffected() > 0; err != nil || !changed {
			return err
		}
		if _, err := tx.Exec(ctx, raiseSQL, p.Route); err != nil {
			return err
		}
		return audit(ctx, tx, p.By, "resume", 1, "route", p.Route, "address", p.Address, "group", p.Group)
	})
	return changed, stateError(fmt.Sprintf("resume route %q", p.Route), err)
}

// control runs f in a transaction that no acquirer of the route and no settle
// of its lanes gets in between.
func (s *Store) control(ctx context.Context, route string, f func(pgx.Tx) error) error {
	return pg.RetryDeadlock(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if err := lockRoute(ctx, tx, route); err != nil {
				return err
			}
			return f(tx)
		})
	})
}

// lockRoute keeps acquirers of a route and settles of its lanes away until the
// transaction ends.
func lockRoute(ctx context.Context, tx pgx.Tx, route string) error {
	if _, err := tx.Exec(ctx, routeLock, route); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, lockLanesSQL, route)
	return err
}

// audit writes an audit record; fields are names and values.
func audit(ctx context.Context, tx pgx.Tx, by, action string, changed int, fields ...string) error {
	_, err := tx.Exec(ctx, auditSQL, staterow.Clean(by), action, staterow.FieldsJSON(fields...), changed)
	return err
}

// Release implements [adapters.Controls].
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

// Move implements [adapters.Controls].
func (s *Store) Move(ctx context.Context, m adapters.Move) error {
	err := pg.RetryDeadlock(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return moveIn(ctx, tx, m) })
	})
	return stateError(fmt.Sprintf("move the cursors of route %q", m.Route), err)
}

// moveIn is [Store.Move] in a transaction.
func moveIn(ctx context.Context, tx pgx.Tx, m adapters.Move) error {
	n := len(m.Cursors)
	slots, positions, paged, bases := make([]int16, n), make([]int64, n), make([]int64, n), make([]int64, n)
	snapshots, windows, anchors, beyond := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, slot := range slices.Sorted(maps.Keys(m.Cursors)) {
		c := m.Cursors[slot]
		slots[i], positions[i], snapshots[i] = int16(slot), c.Position, c.Snapshot
		windows[i], paged[i], bases[i] = c.Window, c.Paged, c.Base
		anchors[i], beyond[i] = c.Anchor.String(), wire.Numbers(m.Beyond[slot])
	}
	if err := lockRoute(ctx, tx, m.Route); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, createLanesSQL, m.Route, slots); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, moveSQL, m.Route, slots, positions, snapshots, windows, paged, bases, anchors, beyond,
		m.Table.Cluster, m.Table.Name, m.Same); err != nil {
		return err
	}
	return audit(ctx, tx, m.By, m.Action, n, "route", m.Route, "to", m.Detail)
}

// Forget implements [adapters.Controls].
func (s *Store) Forget(ctx context.Context, route string, force bool, by string) (gone adapters.Forgotten, err error) {
	err = s.control(ctx, route, func(tx pgx.Tx) error {
		var owner string
		if err := tx.QueryRow(ctx, aliveSQL, route).Scan(&owner); err != nil {
			return err
		}
		if owner != "" && !force {
			return fmt.Errorf("%w: %s", adapters.ErrAlive, owner)
		}
		for _, d := range []struct {
			table string
			rows  *int
		}{{"outrider_cursor", &gone.Lanes}, {"outrider_parked", &gone.Parked}, {"outrider_pause", &gone.Pauses}, {"outrider_progress", new(int)}} {
			tag, err := tx.Exec(ctx, "DELETE FROM "+d.table+" WHERE route = $1", route)
			if err != nil {
				return err
			}
			*d.rows = int(tag.RowsAffected())
		}
		return audit(ctx, tx, by, "forget", gone.Lanes+gone.Parked+gone.Pauses, "route", route)
	})
	return gone, stateError(fmt.Sprintf("forget route %q", route), err)
}
