package queue

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Request has the parts of an [adapters.ClaimRequest] in maps.
type Request struct {
	Slots  [adapters.Slots]bool // the claimer's lanes
	Terms  [adapters.Slots]uint64
	Except map[string]bool // groups
	Absent map[RowKey]bool // rows
}

// RowKey names a row.
type RowKey struct{ Table, Key string }

// NewRequest prepares a request.
func NewRequest(req adapters.ClaimRequest) Request {
	var r Request
	if len(req.Except) > 0 {
		r.Except = make(map[string]bool, len(req.Except))
	}
	if len(req.ExceptRows) > 0 {
		r.Absent = make(map[RowKey]bool, len(req.ExceptRows))
	}
	for i, slot := range req.Slots {
		if slot < 0 || slot >= adapters.Slots {
			continue
		}
		if r.Slots[slot] = true; i < len(req.Terms) {
			r.Terms[slot] = req.Terms[i]
		}
	}
	for _, group := range req.Except {
		r.Except[group] = true
	}
	for _, row := range req.ExceptRows {
		r.Absent[RowKey{row.Table, row.Key}] = true
	}
	return r
}

// Share gives every table an even share of what is left of a limit, and at most so many rows of it. Should there be
// room in the end, those tables get it whose share was not enough. got is how many rows the claim has.
func Share(tables, limit, batch int, got func() int, serve func(table, most int) error) error {
	taken := make([]int, tables)
	for pass := range 2 {
		for i := range tables {
			before := got()
			share := limit - before
			if remaining := tables - i; pass == 0 {
				share = (share + remaining - 1) / remaining
			}
			if err := serve(i, min(share, batch-taken[i])); err != nil {
				return err
			}
			taken[i] += got() - before
		}
		if tables == 1 {
			break
		}
	}
	return nil
}

// Looked is how much has been read of tables together.
func Looked(tables ...adapters.Coverage) (all adapters.Coverage) {
	for i, t := range tables {
		if i == 0 || t.Since.Before(all.Since) {
			all.Since, all.Next = t.Since, t.Next
		}
		all.Due = Sooner(all.Due, t.Due)
		all.Unwanted += t.Unwanted
	}
	if len(tables) > 1 {
		all.Tables = tables
	}
	return all
}

// Sooner is the earlier one of two times; zero is none.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Claim implements [adapters.Queue].
func (e *Engine[T]) Claim(ctx context.Context, req adapters.ClaimRequest) ([]*adapters.Row, error) {
	e.claiming.Lock()
	defer e.claiming.Unlock()
	c := &claim[T]{Request: NewRequest(req), Engine: e, req: req, began: time.Now()}
	tables := c.begin(e.inTurn())
	defer c.end(tables)
	got := func() int { return len(c.rows) }
	failed := ""
	err := Share(len(tables), req.Limit, int(e.batch.Load()), got, func(i, most int) error {
		t := tables[i].table
		err := tables[i].serve(ctx, most)
		if err != nil {
			failed, t.described = t.Name, false
		}
		return e.db.Wrap(t.Name, "claim", err)
	})
	if err == nil || len(c.rows) == 0 {
		return c.rows, err
	}
	e.log.WarnContext(ctx, "a claim has ended early", "table", failed, "error", err)
	return c.rows, nil // they are marked, and held; the next claim meets the error again if it lasts
}

// claim is one call of Claim.
type claim[T Driver] struct {
	Request
	*Engine[T]
	req   adapters.ClaimRequest
	began time.Time
	spent int // entries that it has read

	rows  []*adapters.Row
	bytes int64
	full  bool // no more payload fits
}

// tableClaim is the part of a claim in one table.
type tableClaim[T Driver] struct {
	*claim[T]
	table   *engineTable[T]
	start   string // the group behind which it began
	wrapped bool   // it has come to the end of the index
	around  bool   // it has come back to where it began
	cut     bool   // it has read enough
	got     int
	groups  map[string]*progress
	chosen  map[string]bool // keys
	later   []*Entry        // that wait for room
	chunk   int             // rows that are read at a time, if it is to be more than their size says
}

// progress is how far a claim has come with a group, or with all rows in no order.
type progress struct {
	ended bool // no further row of it may be claimed now
	cut   bool // nor one of those that were chosen
	got   int
}

// begin has the leases that end from now on remembered: what is read may be from before.
func (c *claim[T]) begin(tables []*engineTable[T]) (all []*tableClaim[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range tables {
		t.wanted(&c.Request, c.req.Wants, c.began)
		t.gone = map[string]bool{}
		if len(t.returned) > 0 { // something may have come before the position in a group
			t.leaveGroup()
			t.enter(t.returned...)
			t.returned = nil
		}
		all = append(all, &tableClaim[T]{claim: c, table: t, start: t.at.ID, groups: map[string]*progress{}, chosen: map[string]bool{}})
	}
	return all
}

func (c *claim[T]) end(tables []*tableClaim[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range tables {
		if !v.cut || len(v.later) > 0 { // the other groups are next
			v.table.leaveGroup()
		}
		v.table.gone, v.table.coverage = nil, v.coverage()
	}
}

// serve claims at most so many further rows of a table.
func (c *tableClaim[T]) serve(ctx context.Context, most int) error {
	t := c.table
	if err := t.describe(ctx); err != nil {
		return err
	}
	if err := c.unmark(ctx); err != nil {
		return err
	}
	newer, err := t.Driver.Newer(ctx)
	if err != nil {
		return err
	}
	t.enter(newer...)
	c.around = c.around || t.at == Position{} && c.began.Before(t.rest)
	most += c.got
	if err := c.resume(ctx, most); err != nil {
		return err
	}
	if err := c.readFresh(ctx, most); err != nil {
		return err
	}
	if err := c.resume(ctx, most); err != nil {
		return err
	}
	return c.readOn(ctx, most)
}

// room is how many further rows of a group the request allows.
func (c *claim[T]) room(id string, p *progress) int {
	if c.req.PerGroup <= 0 || id == Alone {
		return c.req.Limit
	}
	return c.req.PerGroup - p.got
}

func (c *tableClaim[T]) progress(id string) *progress {
	p := c.groups[id]
	if p == nil {
		p = &progress{}
		c.groups[id] = p
		if id != Alone {
			group := c.table.Driver.Group(id)
			p.ended = c.Except[group] || !c.Slots[adapters.SlotOf(group, "")]
		}
	}
	return p
}

// consider reports whether a row is to be claimed, if it can be. It ends the prefix of a group whose further rows cannot be claimed now.
func (c *tableClaim[T]) consider(e *Entry) bool {
	p := c.progress(e.ID)
	if p.ended || c.chosen[e.Text] || e.ID == Alone && !c.Slots[e.Slot] {
		return false
	}
	switch c.whose(e) {
	case ours:
		return false
	case theirs:
		c.wait(e.ID, p, blockedPause)
		return false
	case free:
	}
	switch {
	case c.Absent[RowKey{c.table.Name, e.Text}], c.table.unmatched[e.Text]:
		return false
	case e.Wait > 0:
		c.wait(e.ID, p, e.Wait)
		return false
	case c.room(e.ID, p) <= 0:
		p.ended, c.table.round.left = true, true
		return false
	}
	c.chosen[e.Text] = true
	return true
}

// wait ends the prefix of a group for a time. Rows in no order block no others.
func (c *tableClaim[T]) wait(id string, p *progress, pause time.Duration) {
	p.ended = p.ended || id != Alone
	c.table.putOff(id, time.Now().Add(pause))
}

// whose says whose a row is. Where the table marks nothing, a row that a former session of its lane held is not ours: its result is still
// to be written, and may be refused.
func (c *tableClaim[T]) whose(e *Entry) owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.whose(e.Text, e.Marked, func(l *Lease) bool {
		if !c.table.Marks {
			return l.term == c.Terms[l.slot]
		}
		return e.Marked && e.Ours && l.MarkedAt(e.Stamp)
	})
}
