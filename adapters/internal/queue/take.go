package queue

import (
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// How many rows are read again at a time, and of how many bytes about. A payload that is larger than [InlineBytes] is read by itself, when it
// is known to fit.
const (
	chunkRows   = 500
	firstChunk  = 64
	chunkBytes  = 4 << 20
	InlineBytes = 32 << 10
)

// unmatchedMost bounds what is remembered of rows that no route wants.
const unmatchedMost = 200_000

// size is how many rows one transaction reads and marks.
func (c *tableClaim[T]) size() int {
	n := firstChunk
	if mean := c.table.mean; mean > 0 {
		n = int(min(max(chunkBytes/mean, 1), chunkRows))
		if c.req.Bytes > 0 {
			n = min(n, int(max((c.req.Bytes-c.bytes)/mean+1, 1)))
		}
	}
	return max(n, c.chunk)
}

// consume claims what it can of a page, in turns: each group gets its share before one of them gets a second. It returns how many of the page's entries
// it has considered: all, unless there is no more room in the first turn.
func (c *tableClaim[T]) consume(ctx context.Context, page []Entry, most int) (n int, err error) {
	entries := make([]*Entry, len(page))
	for i := range page {
		entries[i] = &page[i]
	}
	n, later, err := c.turn(ctx, entries, c.share(entries, most), most)
	if c.later = append(c.later, later...); err != nil || n < len(page) {
		return n, err
	}
	return n, c.resume(ctx, most)
}

// resume claims what it can of entries for which there was no room so far. Nothing behind them is read before.
func (c *tableClaim[T]) resume(ctx context.Context, most int) error {
	for len(c.later) > 0 && c.got < most && !c.full {
		entries := c.later
		n, later, err := c.turn(ctx, entries, c.share(entries, most), most)
		if c.later = slices.Concat(later, entries[n:]); err != nil {
			return err
		}
	}
	c.table.round.left = c.table.round.left || len(c.later) > 0
	return nil
}

// share is how many rows of each group one turn claims.
func (c *tableClaim[T]) share(entries []*Entry, most int) int {
	parts, last := 0, Alone
	for _, e := range entries {
		if (e.ID == Alone || e.ID != last) && !c.progress(e.ID).ended {
			parts++
		}
		last = e.ID
	}
	return max((most-c.got+parts-1)/max(parts, 1), 1)
}

// turn claims a share of each group of some entries, and returns how many of them it has considered and those that are beyond the share.
func (c *tableClaim[T]) turn(ctx context.Context, entries []*Entry, share, most int) (n int, later []*Entry, err error) {
	var chosen []*Entry
	take := func() error {
		err := c.take(ctx, chosen, most)
		chosen = chosen[:0]
		return err
	}
	last, had := "", 0 // the group, and how many of its rows are chosen
	for i, e := range entries {
		if c.got+len(chosen) >= most || len(chosen) >= c.size() {
			if err := take(); err != nil {
				return i, nil, err
			}
		}
		if c.got >= most || c.full {
			return i, later, nil
		}
		if e.ID != last {
			last, had = e.ID, 0
		}
		switch {
		case e.ID != Alone && had == share:
			later = append(later, e)
		case c.consider(e):
			chosen = append(chosen, e)
			had++
		}
	}
	return len(entries), later, take()
}

// taking is one transaction that claims rows.
type taking struct {
	rows      []Picked
	stamp     time.Time
	missing   map[string]bool
	unmatched int
	bytes     int64
}

// take reads and marks chosen rows. A row that is no longer there ends the prefix of its group, and so does one that no longer fits.
func (c *tableClaim[T]) take(ctx context.Context, chosen []*Entry, most int) error {
	if len(chosen) == 0 {
		return nil
	}
	before := map[string]progress{}
	for _, e := range chosen {
		before[e.ID] = *c.progress(e.ID)
	}
	var t taking
	err := c.table.Driver.Take(ctx, func(tx Taker) (err error) {
		t, c.full = taking{bytes: c.bytes}, false
		for id, p := range before {
			*c.progress(id) = p
		}
		if err := c.pick(ctx, tx, &t, chosen, most); err != nil || len(t.rows) == 0 || !c.table.Marks {
			return err
		}
		t.stamp, t.missing, err = tx.Mark(ctx, t.rows)
		return err
	})
	if err != nil {
		if len(t.rows) > 0 && !t.stamp.IsZero() && !c.db.Answered(err) {
			c.table.orphans = append(c.table.orphans, orphanOf(t.rows, t.stamp))
		}
		return err
	}
	c.bytes = t.bytes
	if c.chunk = 0; t.unmatched > 0 { // there may be many of them
		c.chunk = min(2*max(len(chosen), firstChunk), chunkRows)
	}
	kept, back := c.prefixes(&t)
	c.keep(kept, t.stamp)
	if len(back) > 0 {
		c.table.orphans = append(c.table.orphans, orphanOf(back, t.stamp))
		return c.unmark(ctx)
	}
	return nil
}

func orphanOf(rows []Picked, stamp time.Time) orphan {
	o := orphan{stamp: stamp}
	for i := range rows {
		o.keys = append(o.keys, rows[i].Key)
	}
	return o
}

// unmark has rows wait again that claims with an unknown outcome may have marked. Otherwise they, and the rows behind them, would stay untouched
// until they count as stuck. Rows that other sessions have locked wait for the next claim.
func (c *tableClaim[T]) unmark(ctx context.Context) error {
	t := c.table
	var locked []orphan
	for len(t.orphans) > 0 {
		o := t.orphans[0]
		keys, err := t.Driver.Unmark(ctx, o.keys, o.stamp)
		if err != nil {
			t.orphans = append(t.orphans, locked...)
			return err
		}
		if t.orphans = t.orphans[1:]; len(keys) > 0 {
			locked = append(locked, orphan{keys, o.stamp})
		}
		t.leaveGroup() // they may be before the position in the group
	}
	t.orphans = locked
	return nil
}

// pick decides which of the chosen rows are claimed, in their order.
func (c *tableClaim[T]) pick(ctx context.Context, tx Taker, t *taking, chosen []*Entry, most int) error {
	bytes := int64(chunkBytes)
	if c.req.Bytes > 0 {
		bytes = c.req.Bytes - t.bytes
	}
	found, err := tx.Read(ctx, chosen, bytes)
	if err != nil {
		return err
	}
	fits := func(size int64) bool {
		return c.req.Bytes <= 0 || len(c.rows)+len(t.rows) == 0 || t.bytes+size <= c.req.Bytes
	}
	for _, e := range chosen {
		p := c.progress(e.ID)
		if p.cut {
			delete(c.chosen, e.Text)
			continue
		}
		f, ok := found[e.Text]
		delete(found, e.Text) // its payload is kept by nothing if no route wants it
		if ok && f.Left > 0 && fits(f.Left) {
			if ok, err = tx.Fill(ctx, e, &f); err != nil {
				return err
			}
		}
		if !ok || f.ID != e.ID { // locked, claimed or changed meanwhile
			c.wait(e.ID, p, blockedPause)
			p.cut = e.ID != Alone
			continue
		}
		size := f.Left
		var row *adapters.Row // nil: it does not fit
		if size == 0 {
			row = f.row()
			size = int64(len(row.Payload))
			if c.req.Match != nil && !c.req.Match(row) {
				c.pass(t, e, row)
				continue
			}
		}
		c.table.mean = (7*c.table.mean + size + 7) / 8
		if row == nil || !fits(size) || c.got+len(t.rows) >= most || c.room(e.ID, p) <= 0 {
			p.ended, p.cut, c.table.round.left = true, true, true
			c.full = c.full || !fits(size)
			delete(c.chosen, e.Text)
			continue
		}
		p.got++
		t.bytes += size
		row.Claim = &adapters.Claim{Table: c.table.Name, Key: e.Text, Attempts: f.Attempts}
		t.rows = append(t.rows, Picked{e, row})
	}
	return nil
}

// pass passes over a row that Match refused, and remembers it unless a later claim may want it.
func (c *tableClaim[T]) pass(t *taking, e *Entry, row *adapters.Row) {
	t.unmatched++
	later := c.req.Later == nil || c.req.Later(row)
	if !later && c.req.Wants != 0 && len(c.table.unmatched) < unmatchedMost {
		c.table.unmatched[e.Text] = true
	}
}

// prefixes splits what was picked: kept is of each group what comes before the first row that was not marked, back what comes after it.
func (c *tableClaim[T]) prefixes(t *taking) (kept, back []Picked) {
	if len(t.missing) == 0 {
		return t.rows, nil
	}
	for _, r := range t.rows {
		switch p := c.progress(r.ID); {
		case t.missing[r.Text]:
			c.wait(r.ID, p, blockedPause)
			p.cut = r.ID != Alone
		case p.cut:
			back = append(back, r)
		default:
			kept = append(kept, r)
		}
	}
	return kept, back
}

// keep remembers what was claimed.
func (c *tableClaim[T]) keep(rows []Picked, stamp time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rows {
		l := &Lease{Key: r.Key, Stamp: stamp, token: c.token(), id: r.ID, slot: r.Row.Slot, term: c.Terms[r.Row.Slot]}
		r.Row.Claim.Token = l.token
		c.table.keep(r.Text, l)
		c.rows = append(c.rows, r.Row)
	}
	c.got, c.table.round.got = c.got+len(rows), c.table.round.got+len(rows)
}
