package postgres

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
// (adapters.Read.AlignedTo) are read as one band: what is above the furthest behind of
// them and not above that place, in the order of the table's pages (see bandSQL). They
// are sorted here. (Handing over what has come part by part, while it is in the
// processor's caches, was tried: lanes then got so little at a time that it cost more.)
//
// What a cursor means is not touched: late rows are read as ever, by the same
// statement and so in the same snapshot, and a read that took all that it had in a
// band has seen everything of its slot up to the last row of any slot there.

const (
	// bandReads is how many reads make a band worth its bitmap.
	bandReads = 4

	// bandBytes bounds what is kept until it is sorted. After a band that was larger
	// there is none for bandRest fetches.
	bandBytes = 8 << 20
	bandRest  = 64
)

// band is a range of positions, above low and up to high, that is read for several
// slots at once.
type band struct {
	low, high int64
	reads     [adapters.Slots]int // by slot; -1: none
	rows      [adapters.Slots][]*adapters.Row
	bytes     int
	reach     int64           // the last position of any slot
	last      adapters.Anchor // of the row there
	cut       bool            // it was too large: rows are missing
}

// has reports whether a read's fresh rows come with the band.
func (b *band) has(slot, read int) bool { return b != nil && b.reads[slot] == read }

// planBand returns the band of a fetch; nil: there is none.
func (s *Source) planBand(reads []adapters.Read, plans []reader.Plan) *band {
	if s.bandRest > 0 {
		s.bandRest--
		return nil
	}
	b := &band{low: math.MaxInt64}
	for slot := range b.reads {
		b.reads[slot] = -1
	}
	n := 0
	for i := range plans {
		p := &plans[i]
		reach := reads[i].AlignedTo
		if reach <= p.Position || p.Limit == 0 || p.Target != "" || p.Position < p.Base || b.reads[p.Slot] >= 0 ||
			n > 0 && reach != b.high {
			continue
		}
		b.reads[p.Slot] = i
		b.low, b.high = min(b.low, p.Position), reach
		n++
	}
	if n < bandReads {
		return nil
	}
	return b
}

// bandOf returns the statement that reads a band. It is prepared when the first
// one is read: most sources rarely have a backlog.
func (s *Source) bandOf(ctx context.Context, r *reader.Conn) (*reader.Statement, error) {
	if s.band == nil {
		if _, err := r.Conn.PgConn().Exec(ctx, bandSettings).ReadAll(); err != nil {
			return nil, err
		}
		st, err := r.Prepare(ctx, "outrider_fetch_band", bandStatement(s.base.Quoted, s.limits))
		if err != nil {
			return nil, err
		}
		s.band = st
	}
	return s.band, nil
}

// runBand does what run does, with a band.
func (f *fetch) runBand(ctx context.Context, r *reader.Conn) (complete bool, err error) {
	st, err := f.source.bandOf(ctx, r)
	if err != nil {
		return false, err
	}
	complete, err = r.Stream(ctx, st, f.band.params(f.plans), f.row)
	if err == nil && !f.stopped && !f.band.cut {
		err = f.yieldBand()
	}
	return complete, err
}

// params writes the statement's parameters: those of the fetch, with no fresh rows
// for the reads of the band, and the band's.
func (b *band) params(plans []reader.Plan) [][]byte {
	plans = slices.Clone(plans)
	var slots wire.Array
	for slot, i := range b.reads {
		if i >= 0 {
			plans[i].Upto = plans[i].Position
			slots.Number(int64(slot))
		}
	}
	return append(fetchParams(plans), slots.End(), strconv.AppendInt(nil, b.low, 10), strconv.AppendInt(nil, b.high, 10))
}

// keep takes a row of the band, until they are too many.
func (b *band) keep(f *fetch, slot int, position int64, values [][]byte) (more bool) {
	last := position > b.reach
	b.reach = max(b.reach, position)
	if position <= f.plans[b.reads[slot]].Position {
		if last { // its read stands further on than others
			row := decodeRow(f.decoder, values)
			row.Slot = slot
			b.last = row.Anchor()
		}
		return true
	}
	b.bytes += wire.Size(values)
	if b.cut = b.bytes > bandBytes; b.cut {
		return false
	}
	row := decodeRow(f.decoder, values)
	row.Slot, row.Position = slot, position
	if last {
		b.last = row.Anchor()
	}
	b.rows[slot] = append(b.rows[slot], row)
	return true
}

// yieldBand hands the rows of the band over, read by read.
func (f *fetch) yieldBand() error {
	f.current = 0
	for i := range f.plans {
		p := &f.plans[i]
		if !f.band.has(p.Slot, i) {
			continue
		}
		rows := f.band.rows[p.Slot]
		slices.SortFunc(rows, func(a, b *adapters.Row) int { return cmp.Compare(a.Position, b.Position) })
		for _, row := range rows[:min(len(rows), p.Limit-f.done[i].Rows)] {
			if more, err := f.give(i, false, row.Position, row); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// finishBand says where a read of the band ended that had room for more. Nothing of
// its slot is between its last row and the last one of all.
func (f *fetch) finishBand(i int) adapters.ReadResult {
	from, done := f.reads[i].From, &f.done[i]
	switch {
	case !f.band.cut:
		next := adapters.Cursor{Position: from.Position, Snapshot: f.own, Base: from.Base, Anchor: from.Anchor}
		if f.band.reach > from.Position {
			next.Position, next.Anchor = f.band.reach, f.band.last
		}
		return adapters.ReadResult{Next: next}
	case done.Rows > 0:
		return adapters.ReadResult{Next: done.After()}
	}
	return adapters.ReadResult{Next: from}
}
