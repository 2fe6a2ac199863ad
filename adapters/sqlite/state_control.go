package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

const (
	pausedSQL = `SELECT EXISTS (SELECT 1 FROM outrider_pause WHERE route = ? AND address = '')`

	pausesSQL = `SELECT route, address, message_group, reason, by, at FROM outrider_pause
WHERE ?1 = '' OR route = ?1 ORDER BY route, address`

	pauseSQL = `INSERT INTO outrider_pause (route, address, message_group, reason, by, at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

	resumeSQL = `DELETE FROM outrider_pause WHERE route = ? AND address = ? AND message_group = ?`

	raiseSQL = `UPDATE outrider_cursor SET commands = commands + 1 WHERE route = ?`

	moveSQL = `UPDATE outrider_cursor
SET position = ?1, snapshot = ?2, window_snapshot = ?3, paged = ?4, base = ?5, anchor = ?6, beyond = ?13,
    former = CASE WHEN NOT ?9 THEN '' WHEN cluster <> ?7 THEN cluster ELSE former END,
    cluster = ?7, source = coalesce(nullif(?8, ''), source), updated_at = ?10,
    epoch = epoch + 1, commands = commands + 1, owner = NULL
WHERE route = ?11 AND slot = ?12`

	aliveSQL = `SELECT coalesce(min(i.id), '') FROM outrider_cursor c JOIN outrider_instance i ON i.id = c.owner
WHERE c.route = ? AND i.lease_until > ?`
)

// Pauses returns the pauses of a route, or all.
func (s *State) Pauses(ctx context.Context, route string) ([]adapters.Pause, error) {
	pauses, err := s.pauses(ctx, route)
	if err != nil {
		return nil, s.wrap("read the pauses", err)
	}
	return pauses, nil
}

func (s *State) pauses(ctx context.Context, route string) ([]adapters.Pause, error) {
	rows, err := s.db.QueryContext(ctx, pausesSQL, route)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	var pauses []adapters.Pause
	for rows.Next() {
		var p adapters.Pause
		var at int64
		if err := rows.Scan(&p.Route, &p.Address, &p.Group, &p.Reason, &p.By, &at); err != nil {
			return nil, err
		}
		p.At = time.UnixMicro(at)
		staterow.UnpackPause(&p)
		pauses = append(pauses, p)
	}
	return pauses, rows.Err()
}

// Pause implements [adapters.Controls].
func (s *State) Pause(ctx context.Context, p adapters.Pause) (bool, error) {
	changed, err := s.control(ctx, p.Route, pauseSQL,
		[]any{p.Route, staterow.PauseAddress(p), staterow.PackGroup(p.Group), staterow.Clean(p.Reason), staterow.Clean(p.By), time.Now().UnixMicro()},
		p.By, "pause", "route", p.Route, "address", p.Address, "group", p.Group, "reason", p.Reason)
	if err != nil {
		return false, s.wrap(fmt.Sprintf("pause route %q", p.Route), err)
	}
	return changed, nil
}

// Resume implements [adapters.Controls].
func (s *State) Resume(ctx context.Context, p adapters.Pause) (bool, error) {
	changed, err := s.control(ctx, p.Route, resumeSQL, []any{p.Route, staterow.PauseAddress(p), staterow.PackGroup(p.Group)},
		p.By, "resume", "route", p.Route, "address", p.Address, "group", p.Group)
	if err != nil {
		return false, s.wrap(fmt.Sprintf("resume route %q", p.Route), err)
	}
	return changed, nil
}

// control changes a pause and, if that changed anything, notifies the owner and
// writes it down.
func (s *State) control(ctx context.Context, route, query string, args []any, by, action string, fields ...string) (changed bool, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
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

// audit writes an audit record; fields are names and values.
func audit(ctx context.Context, tx *sql.Tx, by, action string, changed int, fields ...string) error {
	_, err := tx.ExecContext(ctx, auditSQL, time.Now().UnixMicro(), staterow.Clean(by), action, staterow.FieldsJSON(fields...), changed)
	return err
}

// affected is how many rows a statement changed.
func affected(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// Release implements [adapters.Controls].
func (s *State) Release(ctx context.Context, instance string, lanes []adapters.LaneRef) error {
	err := s.transact(ctx, func(tx *sql.Tx) error {
		for _, l := range lanes {
			if _, err := tx.ExecContext(ctx, `UPDATE outrider_cursor SET owner = NULL WHERE owner = ? AND route = ? AND slot = ?`,
				instance, l.Route, l.Slot); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return s.wrap(fmt.Sprintf("release lanes of %q", instance), err)
	}
	return nil
}

// Move implements [adapters.Controls].
func (s *State) Move(ctx context.Context, m adapters.Move) error {
	if err := s.transact(ctx, func(tx *sql.Tx) error { return moveIn(ctx, tx, m) }); err != nil {
		return s.wrap(fmt.Sprintf("move the cursors of route %q", m.Route), err)
	}
	return nil
}

// moveIn is [State.Move] in a transaction.
func moveIn(ctx context.Context, tx *sql.Tx, m adapters.Move) error {
	now := time.Now().UnixMicro()
	for slot, c := range m.Cursors {
		if _, err := tx.ExecContext(ctx, createLaneSQL, m.Route, slot, now); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, moveSQL, c.Position, c.Snapshot, c.Window, c.Paged, c.Base, c.Anchor.String(),
			m.Table.Cluster, m.Table.Name, m.Same, now, m.Route, slot, beyondText(m.Beyond[slot])); err != nil {
			return err
		}
	}
	return audit(ctx, tx, m.By, m.Action, len(m.Cursors), "route", m.Route, "to", m.Detail)
}

// Forget implements [adapters.Controls].
func (s *State) Forget(ctx context.Context, route string, force bool, by string) (adapters.Forgotten, error) {
	var gone adapters.Forgotten
	err := s.transact(ctx, func(tx *sql.Tx) error {
		gone = adapters.Forgotten{}
		var owner string
		if err := tx.QueryRowContext(ctx, aliveSQL, route, time.Now().UnixMicro()).Scan(&owner); err != nil {
			return err
		}
		if owner != "" && !force {
			return fmt.Errorf("%w: %s", adapters.ErrAlive, owner)
		}
		for _, d := range []struct {
			query string
			rows  *int
		}{
			{`DELETE FROM outrider_cursor WHERE route = ?`, &gone.Lanes},
			{`DELETE FROM outrider_parked WHERE route = ?`, &gone.Parked},
			{`DELETE FROM outrider_pause WHERE route = ?`, &gone.Pauses},
		} {
			var err error
			if *d.rows, err = affected(tx.ExecContext(ctx, d.query, route)); err != nil {
				return err
			}
		}
		return audit(ctx, tx, by, "forget", gone.Lanes+gone.Parked+gone.Pauses, "route", route)
	})
	if err != nil {
		return adapters.Forgotten{}, s.wrap(fmt.Sprintf("forget route %q", route), err)
	}
	return gone, nil
}
