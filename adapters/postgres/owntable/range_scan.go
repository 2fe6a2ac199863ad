package owntable

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// A page of the table has rows of all slots, so reading a backlog slot by slot
// visits each page once per slot, for two or three rows at a time. That was most of
// what such a read cost. So the fresh rows of reads that come to the same place
// (adapters.Read.AlignedTo) are read by one range scan: what is above the furthest behind of
// them and not above that place, in the order of the table's pages (see rangeScanSQL). They
// are sorted here. (Handing over what has come part by part, while it is in the
// processor's caches, was tried: lanes then got so little at a time that it cost more.)
//
// The meaning of a cursor stays: late rows are read as ever, by the same
// statement and so in the same snapshot, and a read that took all that it had in a
// range scan has seen everything of its slot up to the last row of any slot there.

const (
	// rangeScanReads is how many reads make a range scan worth its bitmap.
	rangeScanReads = 4

	// rangeScanBytes bounds what is kept until it is sorted. After a range scan that was larger
	// there is none for rangeScanPause fetches.
	rangeScanBytes = 8 << 20
	rangeScanPause = 64
)

// rangeScan is a range of positions, above low and up to high, that is read for several
// slots at once.
type rangeScan struct {
	low, high int64
	reads     [adapters.Slots]int // by slot; -1: none
	rows      [adapters.Slots][]*adapters.Row
	bytes     int
	end       int64           // the last position of any slot
	last      *adapters.Row   // there
	anchor    adapters.Anchor // of last, when all rows have come
	cut       bool            // it was too large: rows are missing
}

// has reports whether a read's fresh rows come with the range scan.
func (rs *rangeScan) has(slot, read int) bool { return rs != nil && rs.reads[slot] == read }

// planRangeScan returns the range scan of a fetch; nil: there is none.
func (s *Source) planRangeScan(reads []adapters.Read, plans []reader.Plan) *rangeScan {
	if s.rangeScanPause > 0 {
		s.rangeScanPause--
		return nil
	}
	rs := &rangeScan{low: math.MaxInt64}
	for slot := range rs.reads {
		rs.reads[slot] = -1
	}
	n := 0
	for i := range plans {
		p := &plans[i]
		alignedTo := reads[i].AlignedTo
		if alignedTo <= p.Position || p.Limit == 0 || p.Target != "" || p.Position < p.Base || rs.reads[p.Slot] >= 0 ||
			n > 0 && alignedTo != rs.high {
			continue
		}
		rs.reads[p.Slot] = i
		rs.low, rs.high = min(rs.low, p.Position), alignedTo
		n++
	}
	if n < rangeScanReads {
		return nil
	}
	return rs
}

// rangeScanOf returns the statement that reads a range scan. It is prepared when the first
// one is read: most sources rarely have a backlog.
func (s *Source) rangeScanOf(ctx context.Context, r *reader.Conn) (*reader.Statement, error) {
	if s.rangeScan == nil {
		if _, err := r.Conn.PgConn().Exec(ctx, rangeScanSettings).ReadAll(); err != nil {
			return nil, err
		}
		st, err := r.Prepare(ctx, "outrider_fetch_range", rangeScanStatement(s.base.Quoted, s.limits))
		if err != nil {
			return nil, err
		}
		s.rangeScan = st
	}
	return s.rangeScan, nil
}

// runRangeScan does what run does, with a range scan.
func (f *fetch) runRangeScan(ctx context.Context, r *reader.Conn) (complete bool, err error) {
	st, err := f.source.rangeScanOf(ctx, r)
	if err != nil {
		return false, err
	}
	complete, err = r.Stream(ctx, st, f.rangeScan.params(f.plans), f.row)
	if last := f.rangeScan.last; last != nil {
		f.rangeScan.anchor = last.Anchor() // now, because a row that was handed over is no longer ours
	}
	if err == nil && !f.stopped && !f.rangeScan.cut {
		err = f.yieldRangeScan()
	}
	return complete, err
}

// params writes the statement's parameters: those of the fetch, with no fresh rows
// for the reads of the range scan, and the range scan's.
func (rs *rangeScan) params(plans []reader.Plan) [][]byte {
	plans = slices.Clone(plans)
	var slots wire.Array
	for slot, i := range rs.reads {
		if i >= 0 {
			plans[i].Upto = plans[i].Position
			slots.Number(int64(slot))
		}
	}
	return append(fetchParams(plans), slots.End(), strconv.AppendInt(nil, rs.low, 10), strconv.AppendInt(nil, rs.high, 10))
}

// keep takes a row of the range scan, until they are too many.
func (rs *rangeScan) keep(f *fetch, slot int, position int64, values [][]byte) (more bool) {
	last := position > rs.end
	rs.end = max(rs.end, position)
	if position <= f.plans[rs.reads[slot]].Position {
		if last { // its read is further on than others
			row := decodeRow(f.decoder, values)
			row.Slot = slot
			rs.last = row
		}
		return true
	}
	rs.bytes += wire.Size(values)
	if rs.cut = rs.bytes > rangeScanBytes; rs.cut {
		return false
	}
	row := decodeRow(f.decoder, values)
	row.Slot, row.Position = slot, position
	if last {
		rs.last = row
	}
	rs.rows[slot] = append(rs.rows[slot], row)
	return true
}

// yieldRangeScan hands the rows of the range scan over, read by read.
func (f *fetch) yieldRangeScan() error {
	f.current = 0
	for i := range f.plans {
		p := &f.plans[i]
		if !f.rangeScan.has(p.Slot, i) {
			continue
		}
		rows := f.rangeScan.rows[p.Slot]
		slices.SortFunc(rows, func(a, b *adapters.Row) int { return cmp.Compare(a.Position, b.Position) })
		for _, row := range rows[:min(len(rows), p.Limit-f.done[i].Rows)] {
			if more, err := f.give(i, false, row.Position, row); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// finishRangeScan says where a read of the range scan ended that had room for more. Nothing of
// its slot is between its last row and the last one of all.
func (f *fetch) finishRangeScan(i int) adapters.ReadResult {
	from, done := f.reads[i].From, &f.done[i]
	switch {
	case !f.rangeScan.cut:
		next := adapters.Cursor{Position: from.Position, Snapshot: f.own, Base: from.Base, Anchor: from.Anchor}
		if f.rangeScan.end > from.Position {
			next.Position, next.Anchor = f.rangeScan.end, f.rangeScan.anchor
		}
		return adapters.ReadResult{Next: next}
	case done.Rows > 0:
		return adapters.ReadResult{Next: done.After()}
	}
	return adapters.ReadResult{Next: from}
}
