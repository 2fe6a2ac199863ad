package state

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

// Pauses returns the pauses of a route, or all.
func (o *Operators) Pauses(ctx context.Context, route string) (pauses []adapters.Pause, err error) {
	s := o.db.query("SELECT route, address, message_group, reason, {by}, " + o.db.known("at") + " FROM outrider_pause")
	if route != "" {
		s.And(" WHERE route = ?", route)
	}
	err = o.db.Pool.Each(ctx, s.And(" ORDER BY route, address"), func(scan func(...any) error) error {
		var p adapters.Pause
		var at int64
		err := scan(&p.Route, &p.Address, &p.Group, &p.Reason, &p.By, &at)
		p.At = instant(at)
		UnpackPause(&p)
		pauses = append(pauses, p)
		return err
	})
	return pauses, o.db.Wrap("read the pauses", err)
}

// Pause implements [adapters.StateStore].
func (o *Operators) Pause(ctx context.Context, p adapters.Pause) (bool, error) {
	text, args := o.db.Pause(p.Route, PauseAddress(p), PackGroup(p.Group), Clean(p.Reason), Clean(p.By))
	changed, err := o.control(ctx, p.Route, o.db.query(text, args...), p.By, "pause", "route", p.Route, "address", p.Address, "group", p.Group, "reason", p.Reason)
	return changed, o.db.Wrap(fmt.Sprintf("pause route %q", p.Route), err)
}

// Resume implements [adapters.StateStore].
func (o *Operators) Resume(ctx context.Context, p adapters.Pause) (bool, error) {
	at, args := o.db.PauseOf(PauseAddress(p))
	s := o.db.query("DELETE FROM outrider_pause WHERE route = ? AND message_group = ?", p.Route, PackGroup(p.Group)).And(" AND "+at, args...)
	changed, err := o.control(ctx, p.Route, s, p.By, "resume", "route", p.Route, "address", p.Address, "group", p.Group)
	return changed, o.db.Wrap(fmt.Sprintf("resume route %q", p.Route), err)
}

// control changes a pause and, if that changed anything, notifies the owner and
// writes it down.
func (o *Operators) control(ctx context.Context, route string, change *sqltext.Statement, by, action string, fields ...string) (changed bool, err error) {
	bySlot := ""
	if o.db.OrderedUpdate {
		bySlot = " ORDER BY slot"
	}
	err = o.db.Transact(ctx, func(tx Tx) error {
		if err := o.db.lockRoute(ctx, tx, route); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, change)
		if changed = n > 0; err != nil || !changed {
			return err
		}
		if _, err := o.db.exec(ctx, tx, "UPDATE outrider_cursor SET commands = commands + 1 WHERE route = ?"+bySlot, route); err != nil {
			return err
		}
		return o.db.audit(ctx, tx, by, action, FieldsJSON(fields...), 1)
	})
	return changed, err
}

func (db *Database) lockRoute(ctx context.Context, tx Tx, route string) error {
	if db.LockRoute == nil {
		return nil
	}
	return db.LockRoute(ctx, tx, route)
}

// Move implements [adapters.StateStore].
func (o *Operators) Move(ctx context.Context, m adapters.Move) error {
	err := o.db.Transact(ctx, func(tx Tx) error { return o.db.MoveIn(ctx, tx, m) })
	return o.db.Wrap(fmt.Sprintf("move the cursors of route %q", m.Route), err)
}

// MoveIn is [Operators.Move] in a transaction.
func (db *Database) MoveIn(ctx context.Context, tx Tx, m adapters.Move) error {
	if err := db.lockRoute(ctx, tx, m.Route); err != nil {
		return err
	}
	if err := db.Move(ctx, tx, m); err != nil {
		return err
	}
	return db.audit(ctx, tx, m.By, m.Action, FieldsJSON("route", m.Route, "to", m.Detail), len(m.Cursors))
}

// Forget implements [adapters.StateStore].
func (o *Operators) Forget(ctx context.Context, route string, force bool, by string) (gone adapters.DeletedRoute, err error) {
	err = o.db.Transact(ctx, func(tx Tx) error {
		gone = adapters.DeletedRoute{}
		if err := o.db.lockRoute(ctx, tx, route); err != nil {
			return err
		}
		var owner string
		alive := o.db.query("SELECT coalesce(min(i.id), '') FROM outrider_cursor c JOIN outrider_instance i ON i.id = c.owner WHERE c.route = ? AND i.lease_until > {now}", route)
		if err := tx.Each(ctx, alive, func(scan func(...any) error) error { return scan(&owner) }); err != nil {
			return err
		}
		if owner != "" && !force {
			return fmt.Errorf("%w: %s", adapters.ErrAlive, owner)
		}
		rows := map[string]*int{"outrider_cursor": &gone.Lanes, "outrider_parked": &gone.Parked, "outrider_pause": &gone.Pauses}
		for _, table := range append([]string{"outrider_cursor", "outrider_parked", "outrider_pause"}, o.db.RouteTables...) {
			n, err := o.db.exec(ctx, tx, "DELETE FROM "+table+" WHERE route = ?", route)
			if err != nil {
				return err
			}
			if rows[table] != nil {
				*rows[table] = int(n)
			}
		}
		return o.db.audit(ctx, tx, by, "forget", FieldsJSON("route", route), gone.Lanes+gone.Parked+gone.Pauses)
	})
	if err != nil {
		return adapters.DeletedRoute{}, o.db.Wrap(fmt.Sprintf("forget route %q", route), err)
	}
	return gone, nil
}

// RemoveInstance implements [adapters.OperatorStore].
func (o *Operators) RemoveInstance(ctx context.Context, id, by string) (removed bool, err error) {
	if o.db.EndSession != nil {
		err = o.db.EndSession(ctx, id)
	}
	if err == nil {
		err = o.db.Transact(ctx, func(tx Tx) error {
			lanes, n, err := o.db.leave(ctx, tx, id)
			if removed = n > 0; err != nil || n+lanes == 0 {
				return err
			}
			return o.db.audit(ctx, tx, by, "remove instance", FieldsJSON("instance", id), int(lanes))
		})
	}
	return removed && err == nil, o.db.Wrap(fmt.Sprintf("remove instance %q", id), err)
}

// leave takes all lanes away from an instance and deletes its row. It returns how many lanes and rows there were.
func (db *Database) leave(ctx context.Context, tx Tx, id string) (lanes, rows int64, err error) {
	if lanes, err = db.exec(ctx, tx, "UPDATE outrider_cursor SET owner = NULL WHERE owner = ?"+db.inOrder(), id); err == nil {
		rows, err = db.exec(ctx, tx, "DELETE FROM outrider_instance WHERE id = ?", id)
	}
	return lanes, rows, err
}
