package queuetable

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
)

// Claim implements [adapters.Queue].
func (q *Queue) Claim(ctx context.Context, req adapters.ClaimRequest) ([]*adapters.Row, error) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	tables := q.claims.InTurn()
	c := newClaim(q, req)
	c.begin(tables)
	defer c.end(tables)
	got := func() int { return len(c.rows) }
	err := queue.Share(len(tables), req.Limit, int(q.batch.Load()), got, func(i, most int) error {
		err := c.serve(ctx, tables[i], most)
		tables[i].stale = tables[i].stale || err != nil
		return wrap(tables[i].Name, "claim", err)
	})
	if len(c.rows) > 0 { // they are marked, and remembered
		return c.rows, nil
	}
	return nil, err
}

// claim is one call of Claim.
type claim struct {
	queue.Request
	q     *Queue
	req   adapters.ClaimRequest
	began time.Time
	spent int // rows that it has read

	rows   []*adapters.Row
	bytes  int64
	full   bool // no more payload fits
	tables map[*table]*turn
}

// turn is what a claim does in one table.
type turn struct {
	*claim
	table  *table
	start  string // the queue from which on it goes around
	over   bool   // it has come to the end of the index
	around bool   // it has come back to where it began
	cut    bool   // it has read enough
	got    int
	groups map[string]*progress
	chosen map[string]bool // keys
	chunk  int             // rows that are read at a time
}

// progress is how far a claim has come with a queue: a group, or all rows in no order.
type progress struct {
	ended bool // no further row of it may be claimed now
	cut   bool // nor one of those that were chosen
	got   int
}

func newClaim(q *Queue, req adapters.ClaimRequest) *claim {
	return &claim{Request: queue.NewRequest(req), q: q, req: req, began: time.Now(), tables: map[*table]*turn{}}
}

// begin has the holds that end from now on remembered: what is read may be from before.
func (c *claim) begin(tables []*table) {
	for _, t := range tables {
		changed := c.req.Wants != t.wants || c.Slots != t.slots || c.Terms != t.terms
		if changed { // what was passed over in this round may be wanted
			t.wants, t.slots, t.terms = c.req.Wants, c.Slots, c.Terms
			t.round, t.whole, t.rest = round{began: c.began, partial: t.spot != spot{}}, time.Time{}, time.Time{}
			t.spot.in = t.spot.in && t.spot.queue == alone
		}
		if t.spot == (spot{}) { // a round begins
			t.round.began = c.began
		}
		if changed || c.req.Wants == 0 {
			t.unwanted = map[string]bool{}
		}
		c.tables[t] = &turn{claim: c, table: t, start: t.spot.queue, groups: map[string]*progress{}, chosen: map[string]bool{}}
	}
	c.q.claims.Lock()
	defer c.q.claims.Unlock()
	for _, t := range tables {
		t.Begin()
		if t.restart { // something may have come before the place in the group
			t.restart = false
			t.spot.in = t.spot.in && t.spot.queue == alone
		}
	}
}

func (c *claim) end(tables []*table) {
	c.q.claims.Lock()
	defer c.q.claims.Unlock()
	for _, t := range tables {
		v := c.tables[t]
		if t.spot.in && t.spot.queue != alone && !v.cut { // the other groups are next
			t.spot = spot{queue: t.spot.queue}
		}
		look := adapters.Coverage{Since: t.whole, Due: t.round.due, Unwanted: len(t.unwanted)}
		if look.Next = t.rest; !v.around {
			look.Next = c.began
		}
		if v.cut {
			look.Since = time.Time{}
		}
		t.End(look)
	}
}

// serve claims at most so many further rows of a table.
func (c *claim) serve(ctx context.Context, t *table, most int) error {
	if _, err := t.describe(ctx, c.q.db); err != nil {
		return err
	}
	if err := t.putBack(ctx, c.q); err != nil {
		return err
	}
	v := c.tables[t]
	v.around = v.around || t.spot == spot{} && c.began.Before(t.rest)
	most += v.got
	for v.got < most && !c.full && !v.around && !v.cut {
		if err := v.readPage(ctx, most); err != nil {
			return err
		}
	}
	return nil
}

// room is how many rows of a group the request allows still.
func (c *claim) room(p *progress, queue string) int {
	if c.req.PerGroup <= 0 || queue == alone {
		return c.req.Limit
	}
	return c.req.PerGroup - p.got
}

// mark marks what was picked, and remembers it.
func (v *turn) mark(ctx context.Context, tx querier, now time.Time, rows []picked) (time.Time, error) {
	s := v.table.sql()
	if v.table.layout.Claimless() || len(rows) == 0 {
		return time.Time{}, nil
	}
	take := values{stamp: s.stamp(now), token: v.q.token}
	for i := range rows {
		take.keys = append(take.keys, rows[i].key)
	}
	query, args := take.bind(s.take)
	_, err := tx.ExecContext(ctx, query, args...)
	return take.stamp, err
}

// stamp is a time for claims that no other claimer gives a row from now on: one unit of the column's precision in the past.
func (s *statements) stamp(now time.Time) time.Time {
	unit := time.Second
	for range s.precision(s.layout.Columns.Claimed) {
		unit /= 10
	}
	return now.Truncate(unit).Add(-unit)
}
