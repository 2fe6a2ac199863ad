package statestore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

const (
	// pausedSQL reports whether a route is paused, and returns the clock.
	pausedSQL = `SELECT EXISTS (SELECT 1 FROM outrider_pause WHERE route = ? AND target = ?), ` + now

	pausesSQL = "SELECT route, address, message_group, reason, `by`, at FROM outrider_pause WHERE ? = '' OR route = ? ORDER BY route, address"

	pauseSQL = "INSERT IGNORE INTO outrider_pause (route, target, address, message_group, reason, `by`, at) VALUES (?, ?, ?, ?, ?, ?, " + now + ")"

	resumeSQL = `DELETE FROM outrider_pause WHERE route = ? AND target = ? AND message_group = ?`

	releaseSQL = `UPDATE outrider_cursor SET owner = NULL WHERE owner = ? AND (%) ORDER BY route, slot`

	raiseSQL = `UPDATE outrider_cursor SET commands = commands + 1 WHERE route = ? ORDER BY slot`

	// moveSQL names former before cluster: MySQL assigns from left to right, and what is read after an assignment is new.
	moveSQL = `UPDATE outrider_cursor
SET position = ?, snapshot = ?, window_snapshot = ?, paged = ?, base = ?, anchor = ?, beyond = ?,
    former = CASE WHEN NOT ? THEN '' WHEN cluster <> ? THEN cluster ELSE former END,
    cluster = ?, source = coalesce(nullif(?, ''), source), updated_at = ` + now + `,
    epoch = epoch + 1, commands = commands + 1, owner = NULL
WHERE route = ? AND slot = ?`

	aliveSQL = `SELECT coalesce(min(i.id), '') FROM outrider_cursor c JOIN outrider_instance i ON i.id = c.owner
WHERE c.route = ? AND i.lease_until > ` + now
)

// targetOf is the key of a pause, of its address as it is kept.
func targetOf(address string) []byte { return hashOf(address) }

// replace puts a text where the % is.
func replace(query, text string) string { return strings.Replace(query, "%", text, 1) }

// Pauses returns the pauses of a route, or all.
func (s *Store) Pauses(ctx context.Context, route string) (pauses []adapters.Pause, err error) {
	err = each(ctx, s.db, pausesSQL, []any{route, route}, func(scan func(...any) error) error {
		var p adapters.Pause
		var at sql.NullInt64
		err := scan(&p.Route, &p.Address, &p.Group, &p.Reason, &p.By, &at)
		p.At = instantOf(at)
		staterow.UnpackPause(&p)
		pauses = append(pauses, p)
		return err
	})
	return pauses, stateError("read the pauses", err)
}

// Pause implements [adapters.Controls].
func (s *Store) Pause(ctx context.Context, p adapters.Pause) (bool, error) {
	address := staterow.PauseAddress(p)
	changed, err := s.control(ctx, p.Route, pauseSQL,
		[]any{p.Route, targetOf(address), address, staterow.PackGroup(p.Group), staterow.Clean(p.Reason), staterow.Clean(p.By)},
		p.By, "pause", "route", p.Route, "address", p.Address, "group", p.Group, "reason", p.Reason)
	return changed, stateError(fmt.Sprintf("pause route %q", p.Route), err)
}

// Resume implements [adapters.Controls].
func (s *Store) Resume(ctx context.Context, p adapters.Pause) (bool, error) {
	changed, err := s.control(ctx, p.Route, resumeSQL, []any{p.Route, targetOf(staterow.PauseAddress(p)), staterow.PackGroup(p.Group)},
		p.By, "resume", "route", p.Route, "address", p.Address, "group", p.Group)
	return changed, stateError(fmt.Sprintf("resume route %q", p.Route), err)
}

// control changes a pause and, if that changed anything, notifies the owner and
// writes it down.
func (s *Store) control(ctx context.Context, route, query string, args []any, by, action string, fields ...string) (changed bool, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		if err := lockRoute(ctx, tx, route); err != nil {
			return err
		}
		n, err := affected(tx.ExecContext(ctx, query, args...))
		if changed = n > 0; err != nil || !changed {
			return err
		}
		if _, err := tx.ExecContext(ctx, raiseSQL, route); err != nil {
			return err
		}
		return audit(ctx, tx, by, action, 1, fields...)
	})
	return changed, err
}

// lockRoute keeps acquirers of a route and settles of its lanes away until the
// transaction ends.
func lockRoute(ctx context.Context, tx *sql.Tx, route string) error {
	if _, err := tx.ExecContext(ctx, routeLock, route); err != nil {
		return err
	}
	return each(ctx, tx, `SELECT slot FROM outrider_cursor WHERE route = ? ORDER BY slot FOR UPDATE`, []any{route}, func(scan func(...any) error) error {
		var slot int
		return scan(&slot)
	})
}

// audit writes an audit record; fields are names and values.
func audit(ctx context.Context, tx *sql.Tx, by, action string, changed int, fields ...string) error {
	_, err := tx.ExecContext(ctx, auditSQL, staterow.Clean(by), action, staterow.FieldsJSON(fields...), changed)
	return err
}

// Release implements [adapters.Controls].
func (s *Store) Release(ctx context.Context, instance string, lanes []adapters.LaneRef) error {
	sorted := slices.SortedFunc(slices.Values(lanes), staterow.CompareLanes)
	err := s.transact(ctx, func(tx *sql.Tx) error {
		for chunk := range slices.Chunk(sorted, keysAtOnce) {
			conditions, args := make([]string, len(chunk)), []any{instance}
			for i, l := range chunk {
				conditions[i], args = "route = ? AND slot = ?", append(args, l.Route, l.Slot)
			}
			if _, err := tx.ExecContext(ctx, replace(releaseSQL, strings.Join(conditions, " OR ")), args...); err != nil {
				return err
			}
		}
		return nil
	})
	return stateError(fmt.Sprintf("release lanes of %q", instance), err)
}

// Move implements [adapters.Controls].
func (s *Store) Move(ctx context.Context, m adapters.Move) error {
	err := s.transact(ctx, func(tx *sql.Tx) error { return moveIn(ctx, tx, m) })
	return stateError(fmt.Sprintf("move the cursors of route %q", m.Route), err)
}

// moveIn is [Store.Move] in a transaction.
func moveIn(ctx context.Context, tx *sql.Tx, m adapters.Move) error {
	if err := lockRoute(ctx, tx, m.Route); err != nil {
		return err
	}
	slots := slices.Sorted(maps.Keys(m.Cursors))
	if err := createLanes(ctx, tx, m.Route, slots); err != nil {
		return err
	}
	for _, slot := range slots {
		c := m.Cursors[slot]
		if _, err := tx.ExecContext(ctx, moveSQL, c.Position, c.Snapshot, c.Window, c.Paged, c.Base, c.Anchor.String(), beyondText(m.Beyond[slot]),
			m.Same, m.Table.Cluster, m.Table.Cluster, m.Table.Name, m.Route, slot); err != nil {
			return err
		}
	}
	return audit(ctx, tx, m.By, m.Action, len(slots), "route", m.Route, "to", m.Detail)
}

// Forget implements [adapters.Controls].
func (s *Store) Forget(ctx context.Context, route string, force bool, by string) (gone adapters.Forgotten, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		gone = adapters.Forgotten{}
		if err := lockRoute(ctx, tx, route); err != nil {
			return err
		}
		var owner string
		if err := tx.QueryRowContext(ctx, aliveSQL, route).Scan(&owner); err != nil {
			return err
		}
		if owner != "" && !force {
			return fmt.Errorf("%w: %s", adapters.ErrAlive, owner)
		}
		for _, d := range []struct {
			table string
			rows  *int
		}{{"outrider_cursor", &gone.Lanes}, {"outrider_parked", &gone.Parked}, {"outrider_pause", &gone.Pauses}, {"outrider_route", new(int)}} {
			if *d.rows, err = affected(tx.ExecContext(ctx, "DELETE FROM "+d.table+" WHERE route = ?", route)); err != nil {
				return err
			}
		}
		return audit(ctx, tx, by, "forget", gone.Lanes+gone.Parked+gone.Pauses, "route", route)
	})
	return gone, stateError(fmt.Sprintf("forget route %q", route), err)
}
