package console

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
)

// What a merge holds: rows of a slot that are read ahead, and the bytes of all of them, unless each slot has a single row.
const (
	tailBatch = 100
	tailBytes = 16 << 20
)

// merge reads the rows of all slots between two places, by position. The slots begin at one place, so rows that are late, which each
// slot yields first, have lower positions than all others. All are read as of the snapshot of the end.
type merge struct {
	source adapters.OperatorSource
	end    adapters.Cursor
	slots  [adapters.Slots]mergeSlot
	limit  int // rows of a slot to read ahead
	bytes  int // of the rows that are held
}

type mergeSlot struct {
	at      adapters.Cursor // behind the last row read
	rows    []*adapters.Row // read, and not passed on
	drained bool
}

func newMerge(source adapters.OperatorSource, from, end adapters.Cursor) *merge {
	m := &merge{source: source, end: end, limit: tailBatch}
	for i := range m.slots {
		m.slots[i].at = from
	}
	return m
}

// over reports whether all rows were passed on.
func (m *merge) over() bool {
	for i := range m.slots {
		if !m.slots[i].drained || len(m.slots[i].rows) > 0 {
			return false
		}
	}
	return true
}

// next returns the next row; nil: a slot has to be read first, or there is none.
func (m *merge) next() *adapters.Row {
	var lowest *mergeSlot
	for i := range m.slots {
		switch s := &m.slots[i]; {
		case len(s.rows) == 0 && !s.drained:
			return nil
		case len(s.rows) > 0 && (lowest == nil || s.rows[0].Position < lowest.rows[0].Position):
			lowest = s
		}
	}
	if lowest == nil {
		return nil
	}
	row := lowest.rows[0]
	lowest.rows = lowest.rows[1:]
	m.bytes -= row.Size()
	return row
}

// fill reads on in the slots that have room. If the rows would take too many bytes it reads fewer of them.
func (m *merge) fill(ctx context.Context) error {
	var reads []adapters.Read
	for i := range m.slots {
		if s := &m.slots[i]; !s.drained && len(s.rows) < m.limit {
			reads = append(reads, adapters.Read{Slot: i, From: s.at, Until: &m.end, Limit: m.limit - len(s.rows)})
		}
	}
	var found [adapters.Slots][]*adapters.Row
	bytes := m.bytes
	results, err := m.source.Fetch(ctx, reads, func(read int, row *adapters.Row) bool {
		if bytes += row.Size(); bytes > tailBytes && m.limit > 1 {
			return false
		}
		kept := *row // the source may use the memory of a row again
		found[read] = append(found[read], &kept)
		return true
	})
	if err != nil {
		return err
	}
	if results == nil {
		m.limit = max(m.limit/4, 1)
		return nil
	}
	for i, r := range results {
		s := &m.slots[reads[i].Slot]
		s.rows, s.at, s.drained = append(s.rows, found[i]...), r.Next, r.Drained
	}
	m.bytes, m.limit = bytes, min(2*m.limit, tailBatch)
	return nil
}
