package queuetable

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
)

// blockedPause is after how long a group is looked at again if another process
// holds a row of it: there is no signal when that row is released.
const blockedPause = time.Second

// visit is a look at one entry.
type visit struct {
	*claim
	table  *table
	at     *entry
	share  int  // rows that it may get
	got    int  // rows that were picked
	absent bool // a row was left out that another claim may want
	solid  bool // everything up to the row that is looked at is ours, or no route matches it
}

// run picks rows of the entry, and says what becomes of it.
func (v *visit) run(ctx context.Context) error {
	e, s := v.at, v.table.sql()
	if v.table.lagging {
		e.from = place{} // a row may have come before it that the news has not told yet
	}
	text, args := s.look, []any{e.value}
	switch {
	case e.alone:
		text = s.lookAt
	case e.from.set:
		text, args = s.lookOn, append(args, e.from.created, e.from.key)
	}
	stmt, err := v.prepared(ctx, text) //nolint:sqlclosecheck // the end of the transaction closes it
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	e.state, v.solid = entryReady, true
	var marked bool // it is being processed
	r := queue.NewRecord(v.table.Table, s.layout, v.table.maxRow, s).With(&marked)
	for rows.Next() {
		if v.spent++; v.late() && v.solid {
			return nil // the next claim continues
		}
		if err := r.Scan(rows); err != nil {
			return err
		}
		end := v.consider(r, marked)
		if end {
			return rows.Err()
		}
		if v.solid && !e.alone {
			e.from = place{r.Created, r.Key, true}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if !v.absent {
		e.state = entryIdle
	}
	return nil
}

// consider decides about one row. It ends the visit when nothing behind the row
// can be claimed now.
func (v *visit) consider(r *queue.Record, marked bool) (end bool) {
	key := v.table.sql().KeyText(r.Key)
	if v.chosen[queue.RowKey{Table: v.table.name, Key: key}] {
		return false
	}
	switch v.whose(key, r.Claimed, marked) {
	case queue.Ours:
		return false
	case queue.Theirs:
		v.table.block(v.at, time.Now().Add(blockedPause))
		return true
	case queue.Free:
	}
	if v.Absent[queue.RowKey{Table: v.table.name, Key: key}] {
		v.absent, v.solid = true, false
		return false
	}
	row := r.DecodeIn(v.at.group, v.at.slot)
	if v.req.Match != nil && !v.req.Match(row) {
		later := v.req.Later == nil || v.req.Later(row)
		v.table.refused = v.table.refused || later
		if !later {
			v.table.unwanted++
		}
		return false
	}
	if due, _ := timeOf("", r.Next); due.After(time.Now()) { // of what is no time the row says it
		v.table.block(v.at, due)
		return true
	}
	if v.got == v.share {
		return true
	}
	if v.req.Bytes > 0 && len(v.picked) > 0 && v.bytes+int64(len(row.Payload)) > v.req.Bytes {
		v.full = true
		return true
	}
	v.pick(r, row)
	return false
}

// whose says whose a row is. Where the table does not say who holds it, a row that a session of its lane held that has ended is
// not ours: its result is still to be written, and may be refused.
func (v *visit) whose(key string, claimed any, marked bool) queue.Owner {
	v.q.claims.Lock()
	defer v.q.claims.Unlock()
	return v.table.Whose(key, marked, func(h *hold) queue.Owner {
		ours := marked && (same(claimed, h.stamp) || same(claimed, h.former))
		if v.table.layout.Claimless() {
			ours = h.term == v.Terms[v.at.slot]
		}
		if ours {
			return queue.Ours
		}
		h.blocking = true // until its session, or the next settle of a row that another process has taken back, ends it
		return queue.Theirs
	})
}

func same(a, b any) bool { return a != nil && b != nil && textOf(a) == textOf(b) }

func (v *visit) pick(r *queue.Record, row *adapters.Row) {
	v.got++
	v.perGroup[v.at.id]++
	v.bytes += int64(len(row.Payload))
	v.chosen[queue.RowKey{Table: v.table.name, Key: row.ID}] = true
	row.Claim = &adapters.Claim{Table: v.table.name, Key: row.ID, Attempts: r.Attempts}
	v.picked = append(v.picked, picked{v.table, v.at, r.Key, row})
}

// mark marks what was picked as being processed.
func (c *claim) mark(ctx context.Context) error {
	stamp := c.q.nextStamp()
	for _, p := range c.picked {
		s := p.table.sql()
		stmt, err := c.prepared(ctx, s.take) //nolint:sqlclosecheck // the end of the transaction closes it
		if err != nil {
			return err
		}
		col := &p.table.layout.Columns
		args := make([]any, settleArgs)
		args[0], args[7], args[8] = p.key, s.timeValue(col.Updated, textTime, stamp), s.timeValue(col.Claimed, textStamp, stamp)
		if _, err := stmt.ExecContext(ctx, args...); err != nil {
			return err
		}
	}
	c.stamp = stamp
	return nil
}

// nextStamp is a time for claims that no earlier one of this process has had.
// Text columns hold its microseconds, which are random, so that claims that two
// processes make in one millisecond differ. Integer columns hold milliseconds.
func (q *Queue) nextStamp() time.Time {
	q.claims.Lock()
	defer q.claims.Unlock()
	now := time.Now().Truncate(time.Millisecond)
	if !now.After(q.stamp) {
		now = q.stamp.Add(time.Millisecond)
	}
	q.stamp = now
	return now.Add(rand.N(time.Millisecond).Truncate(time.Microsecond)) //nolint:gosec // guards nothing
}

// keep remembers what was claimed.
func (c *claim) keep() {
	c.q.claims.Lock()
	defer c.q.claims.Unlock()
	for _, p := range c.picked {
		h := &hold{token: c.q.claims.Token(), key: p.key, at: p.at, term: c.Terms[p.at.slot]}
		if !p.table.layout.Claimless() {
			h.stamp = p.table.sql().timeValue(p.table.layout.Columns.Claimed, textStamp, c.stamp)
			h.former = h.stamp
		}
		p.row.Claim.Token = h.token
		p.table.Keep(p.row.ID, h)
		p.table.rows[p.at.id]++
		c.rows = append(c.rows, p.row)
	}
}

// look says how much the claims so far have looked at. The caller has claiming and the lock of the claims.
func (t *table) look(c *claim) adapters.Coverage {
	l := adapters.Coverage{Since: t.scan.whole, Next: t.scan.next, Due: t.blockedUntil, Unwanted: max(t.unwanted, t.unwantedBefore)}
	switch {
	case c.cut && len(t.ready) > 0:
		l.Since, l.Next = time.Time{}, c.began
	case t.scan.running || t.lagging && !t.sql().rowless:
		l.Next = c.began
	}
	return l
}
