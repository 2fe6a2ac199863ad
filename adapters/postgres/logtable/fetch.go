package logtable

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// fetchXID is the column of logSQL's result behind those of fetchSQL.
const fetchXID = reader.FetchStored + 1

// Fetch implements [adapters.Source] by one scan for all reads; see logPlan. Drained
// is true for a read that took everything there was for it, up to now or to its bound. It keeps the rows of one call in memory,
// up to 8 MiB, because they come by position and are wanted by read.
func (s *Source) Fetch(ctx context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) ([]adapters.ReadResult, error) {
	s.base.Mu.Lock()
	defer s.base.Mu.Unlock()
	l, err := planLog(reads, s.rowBytes)
	if err != nil {
		return nil, s.explain("read", err)
	}
	r, err := s.base.Connected(ctx, reads)
	if err != nil {
		return nil, err
	}
	f := s.newFetch(l, len(reads), &s.base.Decoder, &s.rowBytes)
	complete, err := r.Stream(ctx, r.Fetch, l.params(), f.row)
	if err == nil && f.own == "" {
		err = reader.ErrNoSnapshot
	}
	if err != nil || !complete {
		s.base.Drop()
	}
	if err != nil {
		return nil, s.explain("read", err)
	}
	return f.yield(take), nil
}

// newFetch returns a fetch, with the state that it uses of fetches before it.
func (s *Source) newFetch(l *logPlan, reads int, d *wire.Decoder, rowBytes *float64) *logFetch {
	return &logFetch{logPlan: l, source: s, decoder: d, rowBytes: rowBytes,
		rows: make([][]*adapters.Row, reads), pages: make([]*adapters.Page, reads)}
}

// logFetch is one call of Fetch.
type logFetch struct {
	*logPlan
	source   *Source
	decoder  *wire.Decoder
	rowBytes *float64          // running estimate of a row's size
	rows     [][]*adapters.Row // by read
	pages    []*adapters.Page  // by read
	own      string            // the snapshot at which the statement runs
	horizon  uint64            // its xmax
	kept     int               // bytes
	fresh    bool              // the late rows are over
	part     int               // number of the part whose rows are coming
	open     int               // cohorts that begin before this segment were ended by one that was truncated
}

// row takes one row of the result.
func (f *logFetch) row(values [][]byte) (more bool, err error) {
	part := int(wire.Int32FromBinary(values[reader.FetchRead])) - 1
	if part < 0 {
		return true, f.begin(string(values[reader.FetchID]))
	}
	late, position := values[reader.FetchLate][0] != 0, wire.Int64FromBinary(values[reader.FetchPosition])
	if err := f.count(part, late, position); err != nil {
		return false, err
	}
	m := f.source.mapping
	*f.rowBytes += (float64(wire.Size(values)) - *f.rowBytes) / 64
	h := m.head(f.decoder, values)
	var row *adapters.Row
	for _, i := range f.bySlot[h.slot] {
		if !f.wants(i, part, late, position, values[fetchXID]) {
			continue
		}
		if row == nil {
			row = m.row(f.decoder, h, values)
			f.kept += row.Size()
		} else {
			again := *row // the page differs by read; what the row points to is shared
			row = &again
		}
		f.give(i, row, late, position)
	}
	if !late { // a cursor may end here, whichever read the row is for
		if row == nil {
			row = m.row(f.decoder, h, values)
			row.Slot = h.slot
		}
		f.segments[part].anchor = row.Anchor()
	}
	if f.kept > logBytes {
		f.cut(part, late)
		return false, nil
	}
	return true, nil
}

// anchorAt is the anchor of a position to which a segment has come, or at which
// another read began.
func (f *logFetch) anchorAt(position int64) (a adapters.Anchor) {
	for k := range f.segments {
		if s := &f.segments[k]; s.rows > 0 && s.last == position {
			return s.anchor
		}
	}
	for i := range f.reads {
		if from := &f.reads[i].From; from.Position == position && !from.Anchor.IsZero() {
			return from.Anchor
		}
	}
	return a
}

// begin learns what every read sees.
func (f *logFetch) begin(own string) error {
	f.own = own
	seen := map[string]reader.Snapshot{}
	for i := range f.cohorts {
		text := f.cohorts[i].SeenBy(own)
		if _, ok := seen[text]; !ok {
			snap, err := reader.ParseSnapshot(text)
			if err != nil {
				return err
			}
			seen[text] = snap
		}
		f.cohorts[i].sees = seen[text]
	}
	now, err := reader.ParseSnapshot(own)
	f.horizon = now.Xmax
	return err
}

// count notes a row of a part, and checks what the statement's plan promises. A
// result in another order would invert groups.
func (f *logFetch) count(part int, late bool, position int64) error {
	known := len(f.segments)
	if late {
		known = len(f.cohorts)
	}
	if part < known && f.own != "" {
		e := f.extent(part, late)
		follows := late == f.fresh || part >= f.part
		if position > e.last && follows && (!late || !f.fresh) {
			if f.fresh && part > f.part && f.segments[f.part].truncated() {
				f.open = f.part + 1
			}
			f.fresh, f.part = !late, part
			e.rows++
			e.last = position
			return nil
		}
	}
	return fmt.Errorf("the server returned position %d out of order, or twice; two rows with one position cannot be distinguished: "+
		"make the column %s unique", position, f.source.mapping.quoted(rolePosition))
}

func (f *logFetch) extent(part int, late bool) *extent {
	if late {
		return &f.cohorts[part].late
	}
	return &f.segments[part].extent
}

// wants reports whether a row that came with a part is for a read of its slot.
func (f *logFetch) wants(i, part int, late bool, position int64, xid []byte) bool {
	if len(f.rows[i]) >= f.plans[i].Limit {
		return false
	}
	c := &f.cohorts[f.of[i]]
	if late {
		return f.of[i] == part
	}
	if position <= c.Position || position > c.Upto || c.segment < f.open || c.late.truncated() {
		return false
	}
	if xid == nil || position <= c.Base {
		return true
	}
	id := binary.BigEndian.Uint64(xid)
	return id >= f.horizon || c.sees.Visible(id)
}

// give keeps a row for a read.
func (f *logFetch) give(i int, row *adapters.Row, late bool, position int64) {
	if f.pages[i] == nil {
		f.pages[i] = &adapters.Page{From: f.reads[i].From, Snapshot: f.plans[i].SeenBy(f.own), At: time.Now()}
	}
	row.Position, row.Late, row.Page = position, late, f.pages[i]
	f.rows[i] = append(f.rows[i], row)
}

// cut ends the parts whose rows have not all come. The one that was coming ends
// behind its last row, those after it before their first.
func (f *logFetch) cut(part int, late bool) {
	if late {
		for i := part; i < len(f.cohorts); i++ {
			f.cohorts[i].late.cut = f.cohorts[i].late.limit > 0
		}
		part = 0
	}
	for k := part; k < len(f.segments); k++ {
		f.segments[k].cut = true
	}
}

// yield hands the rows over, read by read, and says where each read ended.
func (f *logFetch) yield(take func(int, *adapters.Row) bool) []adapters.ReadResult {
	results := make([]adapters.ReadResult, len(f.reads))
	for i := range f.reads {
		for _, row := range f.rows[i] {
			if !take(i, row) {
				return nil
			}
		}
		results[i] = f.finish(i)
	}
	f.decoder.Saw(f.reads, results)
	return results
}

// finish says where a read ended. One that used up its limit stopped behind its
// last row. The late rows of any other may have been more than were read: then its
// window stays open. Else it has come as far as its segments.
func (f *logFetch) finish(i int) adapters.ReadResult {
	r, p := &f.reads[i], &f.plans[i]
	if p.Limit == 0 {
		return adapters.ReadResult{Next: r.From}
	}
	if rows := f.rows[i]; len(rows) >= p.Limit {
		return adapters.ReadResult{Next: rows[len(rows)-1].After()}
	}
	c, next := &f.cohorts[f.of[i]], r.From
	switch {
	case c.late.truncated():
		next.Window, next.Paged = p.SeenBy(f.own), c.late.last
		return adapters.ReadResult{Next: next}
	case r.From.Window != "":
		return adapters.ReadResult{Next: adapters.Cursor{Position: r.From.Position, Snapshot: r.From.Window, Base: r.From.Base, Anchor: r.From.Anchor}}
	}
	reach, done := f.reach(c)
	anchor := r.From.Anchor
	if reach != r.From.Position {
		anchor = f.anchorAt(reach)
	}
	if done && r.Until != nil {
		return adapters.ReadResult{Next: *r.Until, Drained: true}
	}
	return adapters.ReadResult{Next: adapters.Cursor{Position: reach, Snapshot: p.SeenBy(f.own), Base: r.From.Base, Anchor: anchor}, Drained: done}
}
