package owntable

import (
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// fetchBytes bounds the payloads that one Fetch holds at once; a single row
// may be larger.
const fetchBytes = 8 << 20

// pending is a read on its way.
type pending struct {
	read    adapters.Read
	page    adapters.Page
	rows    []*adapters.Row
	scanned int64           // everything of the slot up to here has been read
	anchor  adapters.Anchor // of the row there, unless it is the last of rows
	done    bool
	drained bool
}

// until is the last position that the read may yield; ok reports whether it is
// bounded at all.
func (p *pending) until() (position int64, ok bool) {
	if p.read.Until == nil {
		return 0, false
	}
	return p.read.Until.Position, true
}

func (p *pending) full() bool { return len(p.rows) >= p.read.Limit }

// wants reports whether a row belongs to the read.
func (p *pending) wants(slot int, position int64) bool {
	until, bounded := p.until()
	return !p.done && p.read.Slot == slot && position > p.read.From.Position && (!bounded || position <= until)
}

// Fetch answers all reads from one scan of the table, which begins at the lowest
// of their cursors and takes at most as many rows as the largest limit. It
// ends early where a read that lags far behind is full or the scan is: then
// another scan begins at the next cursor, so that other reads continue too.
//
// A read that is neither full nor drained when its scan ends has been shown
// everything of its slot up to the last row of the scan, whichever read that row was
// for; its next cursor is there. So every read gets on, and none passes a
// row that was its own.
func (s *Source) Fetch(ctx context.Context, reads []adapters.Read, take func(read int, row *adapters.Row) bool) ([]adapters.ReadResult, error) {
	if err := s.file.Check(); err != nil {
		return nil, s.wrap("fetch", err)
	}
	now := time.Now()
	all := make([]*pending, len(reads))
	s.newest = max(s.newest, s.looked.Load())
	for i, r := range reads {
		s.newest = max(s.newest, r.From.Anchor.Newest)
		all[i] = &pending{read: r, page: adapters.Page{From: r.From, At: now}, scanned: r.From.Position, anchor: r.From.Anchor, done: r.Limit <= 0}
	}
	room := fetchBytes
	for {
		open := undone(all)
		if len(open) == 0 {
			break
		}
		// Half of what is left, so that something is left for the next scan.
		used, err := s.scan(ctx, open, room/2)
		if err != nil {
			return nil, s.wrap("fetch", err)
		}
		room = max(room-used, 0)
	}
	if err := s.unmoved(ctx, all); err != nil {
		return nil, s.wrap("fetch", err)
	}
	return yield(all, s.newest, take), nil
}

// yield hands the rows over, read by read, and says where each read ended.
func yield(all []*pending, newest int64, take func(read int, row *adapters.Row) bool) []adapters.ReadResult {
	results := make([]adapters.ReadResult, len(all))
	for i, p := range all {
		for _, row := range p.rows {
			if !take(i, row) {
				return nil
			}
		}
		if n := len(p.rows); n > 0 && p.rows[n-1].Position == p.scanned {
			p.anchor = p.rows[n-1].Anchor()
		}
		next := adapters.Cursor{Position: p.scanned, Base: p.read.From.Base, Anchor: p.anchor}
		if p.read.Until == nil {
			next.Anchor = next.Anchor.Seen(newest)
		}
		results[i] = adapters.ReadResult{Next: next, Drained: p.drained}
	}
	return results
}

// undone returns the reads that have not ended, by ascending cursor.
func undone(all []*pending) []*pending {
	var open []*pending
	for _, p := range all {
		if !p.done {
			open = append(open, p)
		}
	}
	slices.SortStableFunc(open, func(a, b *pending) int {
		switch {
		case a.scanned < b.scanned:
			return -1
		case a.scanned > b.scanned:
			return 1
		}
		return 0
	})
	return open
}

// scan reads from the lowest cursor of the open reads and ends at least the
// read that has it. It returns the bytes that the kept rows hold.
func (s *Source) scan(ctx context.Context, open []*pending, room int) (int, error) {
	limit := 0
	for _, p := range open {
		limit = max(limit, p.read.Limit)
	}
	low := open[0].scanned
	rows, err := s.db.QueryContext(ctx, s.query, low, limit)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	last, count, used := low, 0, 0
	r := record{mapped: s.shape.columns != nil, maxRow: s.maxRow, newest: s.newest}
	defer func() { s.newest = r.newest }()
	for rows.Next() {
		if err := r.scan(rows); err != nil {
			return 0, err
		}
		// Rows are counted before they are offered, so that a row at which
		// the scan stops has been offered to everybody.
		last = r.position
		count++
		used += offer(open, &r)
		if used > room || !anyBehind(open, last) {
			break
		}
	}
	exhausted := count < limit && !rows.Next()
	if err := rows.Err(); err != nil {
		return 0, err
	}
	var anchor adapters.Anchor
	if count > 0 {
		anchor = r.decode(r.slot()).Anchor()
	}
	finish(open, last, anchor, exhausted)
	return used, nil
}

// offer gives the record to the reads that want it and returns the bytes kept.
func offer(open []*pending, r *record) int {
	slot := r.slot()
	var decoded *adapters.Row
	for _, p := range open {
		if !p.wants(slot, r.position) {
			continue
		}
		if decoded == nil {
			decoded = r.decode(slot)
		}
		row := *decoded // the page differs by read; what the row points to is shared
		row.Page = &p.page
		p.rows = append(p.rows, &row)
		p.scanned = r.position
		p.done = p.full()
	}
	if decoded == nil {
		return 0
	}
	return decoded.Size()
}

// anyBehind reports whether an open read still needs the rows that follow
// directly: one that is further on gets a scan of its own when none is.
func anyBehind(open []*pending, last int64) bool {
	for _, p := range open {
		until, bounded := p.until()
		if !p.done && p.read.From.Position <= last && (!bounded || until > last) {
			return true
		}
	}
	return false
}

// finish ends the reads that the scan has served: all when the table was
// exhausted, otherwise those whose cursor lies before the scan's last row.
func finish(open []*pending, last int64, anchor adapters.Anchor, exhausted bool) {
	for _, p := range open {
		if p.done {
			continue
		}
		until, bounded := p.until()
		reached := bounded && last >= until
		if !exhausted && !reached && p.read.From.Position >= last {
			continue
		}
		p.done, p.drained = true, exhausted || reached
		if last > p.scanned {
			p.scanned, p.anchor = last, anchor
		}
		if bounded {
			p.scanned = max(p.read.From.Position, min(p.scanned, until))
			if p.scanned == until {
				p.anchor = p.read.Until.Anchor
			}
		}
	}
}
