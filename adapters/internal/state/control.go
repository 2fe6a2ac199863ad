package state

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/adapters"
)

// Pauses returns the pauses of a route, or all.
func (o *Operators) Pauses(ctx context.Context, route string) (pauses []adapters.Pause, err error) {
	s := o.query("SELECT route, address, message_group, reason, " + o.db.by() + ", " + o.db.known("at") + " FROM outrider_pause")
	if route != "" {
		s.add(" WHERE route = %", route)
	}
	s.add(" ORDER BY route, address")
	err = o.db.Pool.Each(ctx, s, func(scan func(...any) error) error {
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
	changed, err := o.control(ctx, p.Route, o.query(text, args...), p.By, "pause", "route", p.Route, "address", p.Address, "group", p.Group, "reason", p.Reason)
	return changed, o.db.Wrap(fmt.Sprintf("pause route %q", p.Route), err)
}

// Resume implements [adapters.StateStore].
func (o *Operators) Resume(ctx context.Context, p adapters.Pause) (bool, error) {
	at, args := o.db.PauseOf(PauseAddress(p))
	s := o.query("DELETE FROM outrider_pause WHERE route = % AND message_group = %", p.Route, PackGroup(p.Group))
	s.add(" AND "+at, args...)
	changed, err := o.control(ctx, p.Route, s, p.By, "resume", "route", p.Route, "address", p.Address, "group", p.Group)
	return changed, o.db.Wrap(fmt.Sprintf("resume route %q", p.Route), err)
}

// control changes a pause and, if that changed anything, notifies the owner and
// writes it down.
func (o *Operators) control(ctx context.Context, route string, change *Statement, by, action string, fields ...string) (changed bool, err error) {
	err = o.db.Transact(ctx, func(tx Tx) error {
		if err := o.db.lockRoute(ctx, tx, route); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, change)
		if changed = n > 0; err != nil || !changed {
			return err
		}
		if _, err := tx.Exec(ctx, o.query("UPDATE outrider_cursor SET commands = commands + 1 WHERE route = %"+o.db.BySlot, route)); err != nil {
			return err
		}
		return o.db.audit(ctx, tx, by, action, 1, fields...)
	})
	return changed, err
}

func (db *Database) lockRoute(ctx context.Context, tx Tx, route string) error {
	if db.LockRoute == nil {
		return nil
	}
	return db.LockRoute(ctx, tx, route)
}

// audit writes an audit record; fields are names and values.
func (db *Database) audit(ctx context.Context, tx Tx, by, action string, changed int, fields ...string) error {
	return audit(ctx, db.Dialect, tx, by, action, FieldsJSON(fields...), changed)
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
	return db.audit(ctx, tx, m.By, m.Action, len(m.Cursors), "route", m.Route, "to", m.Detail)
}

// Forget implements [adapters.StateStore].
func (o *Operators) Forget(ctx context.Context, route string, force bool, by string) (gone adapters.DeletedRoute, err error) {
	err = o.db.Transact(ctx, func(tx Tx) error {
		gone = adapters.DeletedRoute{}
		if err := o.db.lockRoute(ctx, tx, route); err != nil {
			return err
		}
		var owner string
		alive := o.query("SELECT coalesce(min(i.id), '') FROM outrider_cursor c JOIN outrider_instance i ON i.id = c.owner WHERE c.route = % AND i.lease_until > "+o.db.Now, route)
		if err := tx.Each(ctx, alive, func(scan func(...any) error) error { return scan(&owner) }); err != nil {
			return err
		}
		if owner != "" && !force {
			return fmt.Errorf("%w: %s", adapters.ErrAlive, owner)
		}
		rows := map[string]*int{"outrider_cursor": &gone.Lanes, "outrider_parked": &gone.Parked, "outrider_pause": &gone.Pauses}
		for _, table := range append([]string{"outrider_cursor", "outrider_parked", "outrider_pause"}, o.db.RouteTables...) {
			n, err := tx.Exec(ctx, o.query("DELETE FROM "+table+" WHERE route = %", route))
			if err != nil {
				return err
			}
			if rows[table] != nil {
				*rows[table] = int(n)
			}
		}
		return o.db.audit(ctx, tx, by, "forget", gone.Lanes+gone.Parked+gone.Pauses, "route", route)
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
			order := ""
			if o.db.MySQL { // rows are locked as a settle locks them
				order = " ORDER BY route, slot"
			}
			lanes, err := tx.Exec(ctx, o.query("UPDATE outrider_cursor SET owner = NULL WHERE owner = %"+order, id))
			if err != nil {
				return err
			}
			n, err := tx.Exec(ctx, o.query("DELETE FROM outrider_instance WHERE id = %", id))
			if removed = n > 0; err != nil || n+lanes == 0 {
				return err
			}
			return o.db.audit(ctx, tx, by, "remove instance", int(lanes), "instance", id)
		})
	}
	return removed && err == nil, o.db.Wrap(fmt.Sprintf("remove instance %q", id), err)
}

// Lanes returns all cursor rows, by route and slot. Cursors and parked messages are read in one snapshot.
func (o *Operators) Lanes(ctx context.Context) ([]adapters.LaneStatus, error) {
	return o.lanes(ctx, "coalesce(n.retrying, 0), coalesce(n.waiting, 0), coalesce(n.held, 0), coalesce(n.dead, 0)", `
LEFT JOIN (
    SELECT route, slot, sum(retrying) AS retrying, sum(waiting) AS waiting, sum(held) AS held, sum(dead) AS dead FROM (`+o.db.CountLanes+`) AS k GROUP BY route, slot
) AS n ON n.route = c.route AND n.slot = c.slot`)
}

// Cursors implements [adapters.OperatorStore].
func (o *Operators) Cursors(ctx context.Context, routes []string) ([]adapters.LaneStatus, error) {
	switch {
	case routes == nil:
		return o.lanes(ctx, "0, 0, 0, 0", "")
	case len(routes) == 0:
		return nil, nil
	}
	args := make([]any, len(routes))
	for i, route := range routes {
		args[i] = route
	}
	return o.lanes(ctx, "0, 0, 0, 0", "\nWHERE c.route IN (%"+strings.Repeat(", %", len(args)-1)+")", args...)
}

func (o *Operators) lanes(ctx context.Context, counts, counted string, args ...any) (lanes []adapters.LaneStatus, err error) {
	d := &o.db.Dialect
	with, instances, alive := "", "outrider_instance i", d.AliveInstance
	if d.LooksOnce {
		with, instances, alive = "WITH i AS MATERIALIZED (SELECT i.id, "+d.AliveInstance+" AS alive FROM outrider_instance i)\n", "i", "i.alive"
	}
	s := o.query(with+"SELECT c.route, c.slot, coalesce(c.owner, ''), coalesce("+alive+", false), CASE WHEN c.owner IS NOT NULL THEN "+d.known("c.acquired_at")+" ELSE 0 END, c.epoch,\n"+
		"    c.position, c.snapshot, c.window_snapshot, c.paged, c.base, "+d.Beyond+", c.cluster, c.source, c.anchor, c.former, "+d.known("c.updated_at")+",\n    "+counts+
		"\nFROM outrider_cursor c\nLEFT JOIN "+instances+" ON i.id = c.owner"+counted+"\nORDER BY c.route, c.slot", args...)
	err = o.db.Pool.Each(ctx, s, func(scan func(...any) error) error {
		var l adapters.LaneStatus
		var since, updated int64
		var beyond, anchor string
		c := &l.Cursor
		err := scan(&l.Route, &l.Slot, &l.Owner, &l.Alive, &since, &l.Epoch, &c.Position, &c.Snapshot, &c.Window,
			&c.Paged, &c.Base, &beyond, &l.Table.Cluster, &l.Table.Name, &anchor, &l.Former, &updated, &l.Retrying, &l.Waiting, &l.Held, &l.Dead)
		if err == nil {
			err = ReadAnchorText(anchor, c, &l.Table)
		}
		if err == nil {
			l.Beyond, err = ParseBeyond(l.LaneRef, beyond)
		}
		l.Since, l.UpdatedAt = instant(since), instant(updated)
		lanes = append(lanes, l)
		return err
	})
	return lanes, o.db.Wrap("read the lanes", err)
}

// CountLanes implements [adapters.OperatorStore].
func (o *Operators) CountLanes(ctx context.Context) (map[adapters.LaneRef]adapters.LaneCounts, error) {
	out := map[adapters.LaneRef]adapters.LaneCounts{}
	err := o.db.Pool.Each(ctx, o.query(o.db.CountLanes), func(scan func(...any) error) error {
		var l adapters.LaneRef
		var n adapters.LaneCounts
		err := scan(&l.Route, &l.Slot, &n.Retrying, &n.Waiting, &n.Held, &n.Dead)
		all := out[l]
		out[l] = adapters.LaneCounts{Retrying: all.Retrying + n.Retrying, Waiting: all.Waiting + n.Waiting, Held: all.Held + n.Held, Dead: all.Dead + n.Dead}
		return err
	})
	return out, o.db.Wrap("count parked messages", err)
}

// noneBeyond is the text of no positions.
const noneBeyond = "[]"

// ParseBeyond reads the positions that are settled behind a cursor.
func ParseBeyond(lane adapters.LaneRef, text string) (positions []int64, err error) {
	if text == noneBeyond { // most of thousands
		return []int64{}, nil
	}
	if err := json.Unmarshal([]byte(text), &positions); err != nil {
		return nil, fmt.Errorf("outrider_cursor %s/%02d: beyond is not an array of positions: %w", lane.Route, lane.Slot, err)
	}
	return positions, nil
}

// BeyondText writes them.
func BeyondText(positions []int64) string {
	if len(positions) == 0 {
		return noneBeyond
	}
	text, _ := json.Marshal(positions) // integers cannot fail to encode
	return string(text)
}
