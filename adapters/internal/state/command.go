package state

import (
	"cmp"
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

// CountParked counts what the command would change, by route and status.
func (o *Operators) CountParked(ctx context.Context, c adapters.ParkedCommand) (counts []adapters.ParkedCount, err error) {
	statuses := c.Action.Statuses(c.Filter)
	if err = CheckCommand(c); err == nil && len(statuses) > 0 {
		s := o.db.query("SELECT route, status, count(*) FROM outrider_parked WHERE ")
		o.db.where(s, c.Filter, statuses)
		err = o.db.Pool.Each(ctx, s.And(" GROUP BY route, status ORDER BY route, status"), func(scan func(...any) error) error {
			var n adapters.ParkedCount
			var status string
			err := scan(&n.Route, &status, &n.Count)
			n.Status = adapters.ParkedStatus(status)
			counts = append(counts, n)
			return err
		})
	}
	return counts, o.db.Wrap("count parked messages", err)
}

// ChangeParked carries out one step of a command, in one transaction.
func (o *Operators) ChangeParked(ctx context.Context, c adapters.ParkedCommand) (step adapters.ParkedStep, err error) {
	if err = CheckCommand(c); err == nil {
		err = o.db.Transact(ctx, func(tx Tx) error {
			if step, err = o.db.changeParked(ctx, tx, c); err != nil {
				return err
			}
			return o.db.audit(ctx, tx, c.By, string(c.Action), FilterJSON(c.Filter), step.Changed)
		})
	}
	if err != nil {
		return adapters.ParkedStep{}, o.db.Wrap(string(c.Action), err)
	}
	return step, nil
}

// changeParked carries out a step without its audit record. Rows are locked as a settle
// locks them: the cursors of the lanes first.
func (db *Database) changeParked(ctx context.Context, tx Tx, c adapters.ParkedCommand) (step adapters.ParkedStep, err error) {
	statuses := c.Action.Statuses(c.Filter)
	lanes, err := db.chosen(ctx, tx, c.Filter, statuses, &step)
	if err != nil || len(lanes) == 0 {
		return step, err
	}
	// Running instances do not use dead messages.
	if c.Action != adapters.ParkedPurge {
		if err := db.raise(ctx, tx, lanes); err != nil {
			return step, err
		}
	}
	// Rows of those lanes only: others may have parked more meanwhile, and
	// their owners would not notice.
	s := db.query("DELETE FROM outrider_parked")
	if c.Action == adapters.ParkedRedrive {
		s = db.query("UPDATE outrider_parked SET status = 'retrying', attempts = 0, next_attempt_at = {now}")
	}
	within := c.Filter
	within.After = adapters.ParkedKey{}
	db.where(s.And(" WHERE "), within, statuses)
	between(s, lanes, c.Filter.After, step.Last)
	changed, err := tx.Exec(ctx, s)
	step.Changed = int(changed)
	return step, err
}

// chosen finds the lanes of the next rows to change, and where the step ends.
func (db *Database) chosen(ctx context.Context, tx Tx, f adapters.ParkedFilter, statuses []adapters.ParkedStatus, step *adapters.ParkedStep) (lanes []adapters.LaneRef, err error) {
	if len(statuses) == 0 {
		return nil, nil
	}
	limit, found := cmp.Or(f.Limit, adapters.DefaultParkedStep), 0
	s := db.query("SELECT route, slot, max(seq), count(*) FROM (SELECT route, slot, seq FROM outrider_parked WHERE ")
	db.where(s, f, statuses)
	s.And(" ORDER BY route, slot, seq LIMIT ?) AS k GROUP BY route, slot ORDER BY route, slot", limit)
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
func (db *Database) raise(ctx context.Context, tx Tx, lanes []adapters.LaneRef) error {
	s := db.query("UPDATE outrider_cursor SET commands = commands + 1 WHERE ")
	if !db.OrderedUpdate {
		s.And("(route, slot) IN (SELECT route, slot FROM outrider_cursor WHERE ")
	}
	eachLane(s.And("("), lanes, func(adapters.LaneRef) {})
	s.And(") ORDER BY route, slot")
	if !db.OrderedUpdate {
		s.And("{lock})")
	}
	_, err := tx.Exec(ctx, s)
	return err
}

// eachLane adds the condition that a row is of one of the lanes; more adds to that of a lane.
func eachLane(s *sqltext.Statement, lanes []adapters.LaneRef, more func(adapters.LaneRef)) {
	or := ""
	for _, l := range lanes {
		s.And(or+"route = ? AND slot = ?", l.Route, l.Slot)
		more(l)
		or = " OR "
	}
}

// between adds the condition that a row is of one of the lanes, after one place and up to another: lane by lane,
// because an index on the whole key would be read from the beginning of a lane otherwise.
func between(s *sqltext.Statement, lanes []adapters.LaneRef, after, last adapters.ParkedKey) {
	eachLane(s.And(" AND ("), lanes, func(l adapters.LaneRef) {
		if l == after.LaneRef {
			s.And(" AND seq > ?", after.Seq)
		}
		if l == last.LaneRef {
			s.And(" AND seq <= ?", last.Seq)
		}
	})
	s.And(")")
}
