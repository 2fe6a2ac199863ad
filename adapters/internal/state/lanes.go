package state

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

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
	list, args := List(routes)
	return o.lanes(ctx, "0, 0, 0, 0", "\nWHERE c.route IN "+list, args...)
}

func (o *Operators) lanes(ctx context.Context, counts, counted string, args ...any) (lanes []adapters.LaneStatus, err error) {
	d := &o.db.Dialect
	with, instances, alive := "", "outrider_instance i", "{alive}"
	if d.AliveOnce {
		with, instances, alive = "WITH i AS MATERIALIZED (SELECT i.id, {alive} AS alive FROM outrider_instance i)\n", "i", "i.alive"
	}
	s := o.db.query(with+"SELECT c.route, c.slot, coalesce(c.owner, ''), coalesce("+alive+", false), CASE WHEN c.owner IS NOT NULL THEN "+d.known("c.acquired_at")+" ELSE 0 END, c.epoch,\n"+
		"    c.position, c.snapshot, c.window_snapshot, c.paged, c.base, {beyond}, c.cluster, c.source, c.anchor, c.former, "+d.known("c.updated_at")+",\n    "+counts+
		"\nFROM {cursors} c\nLEFT JOIN "+instances+" ON i.id = c.owner"+counted+"\nORDER BY c.route, c.slot", args...)
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
	err := o.db.Pool.Each(ctx, o.db.query(o.db.CountLanes), func(scan func(...any) error) error {
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

// SortSettlements returns the settlements by route and slot, so that every
// writer locks the rows in the same order. Two for one lane are an error:
// which of them holds would be chance.
func SortSettlements(settlements []adapters.Settlement) ([]adapters.Settlement, error) {
	sorted := slices.Clone(settlements)
	slices.SortFunc(sorted, func(a, b adapters.Settlement) int { return CompareLanes(a.LaneRef, b.LaneRef) })
	for i := 1; i < len(sorted); i++ {
		if sorted[i].LaneRef == sorted[i-1].LaneRef {
			return nil, fmt.Errorf("settle: lane %s/%02d is settled twice in one call", sorted[i].Route, sorted[i].Slot)
		}
	}
	return sorted, nil
}

// CompareLanes orders lanes by route and slot.
func CompareLanes(a, b adapters.LaneRef) int {
	return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Slot, b.Slot))
}
