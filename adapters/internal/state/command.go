package state

import (
	"cmp"
	"context"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
)

// Tx is a transaction of whatever driver a store uses, or for reading alone its
// pool.
type Tx interface {
	// Each runs a query and calls row for each of its rows, with the function
	// that scans it.
	Each(ctx context.Context, s *Statement, row func(scan func(...any) error) error) error

	// Exec returns how many rows were changed.
	Exec(ctx context.Context, s *Statement) (int64, error)
}

// CountParked counts what the command would change.
func CountParked(ctx context.Context, d Dialect, tx Tx, c adapters.ParkedCommand) ([]adapters.ParkedCount, error) {
	statuses := c.Action.Statuses(c.Filter)
	if err := CheckCommand(c); err != nil || len(statuses) == 0 {
		return nil, err
	}
	s := &Statement{dialect: d}
	s.add("SELECT route, status, count(*) FROM outrider_parked WHERE ")
	s.where(c.Filter, statuses)
	s.add(" GROUP BY route, status ORDER BY route, status")
	var out []adapters.ParkedCount
	err := tx.Each(ctx, s, func(scan func(...any) error) error {
		var n adapters.ParkedCount
		var status string
		err := scan(&n.Route, &status, &n.Count)
		n.Status = adapters.ParkedStatus(status)
		out = append(out, n)
		return err
	})
	return out, err
}

// ChangeParked carries out one step of a command, with its audit record.
func ChangeParked(ctx context.Context, d Dialect, tx Tx, c adapters.ParkedCommand) (step adapters.ParkedStep, err error) {
	if step, err = changeParked(ctx, d, tx, c); err != nil {
		return step, err
	}
	return step, audit(ctx, d, tx, c.By, string(c.Action), FilterJSON(c.Filter), step.Changed)
}

// changeParked is [ChangeParked] without the audit record. Rows are locked as a settle
// locks them: the cursors of the lanes first.
func changeParked(ctx context.Context, d Dialect, tx Tx, c adapters.ParkedCommand) (step adapters.ParkedStep, err error) {
	statuses := c.Action.Statuses(c.Filter)
	lanes, err := chosen(ctx, d, tx, c.Filter, statuses, &step)
	if err != nil {
		return step, err
	}
	if len(lanes) > 0 {
		// Running instances do not use dead messages.
		if c.Action != adapters.ParkedPurge {
			if err := raise(ctx, d, tx, lanes); err != nil {
				return step, err
			}
		}
		// Rows of those lanes only: others may have parked more meanwhile, and
		// their owners would not notice.
		s := &Statement{dialect: d}
		if err := s.change(c.Action); err != nil {
			return step, err
		}
		s.add(" WHERE ")
		within := c.Filter
		within.After = adapters.ParkedKey{}
		s.where(within, statuses)
		s.between(lanes, c.Filter.After, step.Last)
		changed, err := tx.Exec(ctx, s)
		if err != nil {
			return step, err
		}
		step.Changed = int(changed)
	}
	return step, nil
}

// chosen finds the lanes of the next rows to change, and where the step ends.
func chosen(ctx context.Context, d Dialect, tx Tx, f adapters.ParkedFilter, statuses []adapters.ParkedStatus,
	step *adapters.ParkedStep,
) (lanes []adapters.LaneRef, err error) {
	if len(statuses) == 0 {
		return nil, nil
	}
	limit, found := cmp.Or(f.Limit, adapters.DefaultParkedStep), 0
	s := &Statement{dialect: d}
	s.add("SELECT route, slot, max(seq), count(*) FROM (SELECT route, slot, seq FROM outrider_parked WHERE ")
	s.where(f, statuses)
	s.add(" ORDER BY route, slot, seq LIMIT %) AS k GROUP BY route, slot ORDER BY route, slot", limit)
	err = tx.Each(ctx, s, func(scan func(...any) error) error {
		n, last := 0, &step.Last
		err := scan(&last.Route, &last.Slot, &last.Seq, &n)
		lanes = append(lanes, last.LaneRef)
		found += n
		return err
	})
	step.More = found >= limit
	return lanes, err
}

// raise locks the cursor rows of lanes, in the order of their keys, and raises
// their counters, which makes their owners load again.
func raise(ctx context.Context, d Dialect, tx Tx, lanes []adapters.LaneRef) error {
	s := &Statement{dialect: d}
	before, after := "(route, slot) IN (SELECT route, slot FROM outrider_cursor WHERE ", d.ForUpdate+")"
	if d.MySQL {
		before, after = "", ""
	}
	s.add("UPDATE outrider_cursor SET commands = commands + 1 WHERE " + before)
	s.lanes(lanes)
	s.add(" ORDER BY route, slot" + after)
	_, err := tx.Exec(ctx, s)
	return err
}

// audit writes down who did what; filter is a JSON object.
func audit(ctx context.Context, d Dialect, tx Tx, by, action, filter string, changed int) error {
	s := &Statement{dialect: d}
	into, values := d.by()+", action, filter, changed", "%, %, %, %"
	if d.AuditTime {
		into, values = "at, "+into, d.Now+", "+values
	}
	s.add("INSERT INTO outrider_audit ("+into+") VALUES ("+values+")",
		Clean(by), action, filter, changed)
	if _, err := tx.Exec(ctx, s); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
