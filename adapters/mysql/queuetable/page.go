package queuetable

import (
	"context"
	"database/sql"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
)

const (
	// pageRows is how many entries of the index one statement reads.
	pageRows = 1000

	// claimRows is how many a claim reads before it ends in vain; the next one continues.
	claimRows = 100_000

	// blockedPause is after how long a group is looked at again if another process
	// holds a row of it: there is no signal when that row is released.
	blockedPause = time.Second
)

// spot is a place in the index: behind a queue, or in it.
type spot struct {
	queue   string
	in      bool // in the queue, behind a row
	created any
	key     any
}

// entry is a row as a page has it.
type entry struct {
	queue        string
	created, key any
	text         string // the key
	marked       bool   // it is being processed
	claimed      any
	wait         sql.NullInt64 // for so many microseconds, by the server's clock
	token        int64
}

// readPage reads a page, and claims what it can of it.
func (v *turn) readPage(ctx context.Context, most int) error {
	page, err := v.page(ctx)
	if err != nil {
		return err
	}
	v.spent += len(page)
	t := v.table
	last := spot{}
	var chosen []entry
	flush := func() error {
		err := v.take(ctx, chosen, most)
		chosen = chosen[:0]
		return err
	}
	for i := range page {
		e := &page[i]
		if v.over && e.queue > v.start {
			v.around = true
		}
		if v.around || v.got+len(chosen) >= most || len(chosen) >= v.size() {
			if err := flush(); err != nil {
				return err
			}
		}
		if v.around || v.got >= most || v.full {
			v.table.round.left = v.table.round.left || !v.around
			v.stop(last)
			return nil
		}
		if v.consider(e) {
			chosen = append(chosen, *e)
		}
		last = spot{e.queue, true, e.created, e.key}
	}
	if err := flush(); err != nil {
		return err
	}
	switch {
	case len(page) == pageRows:
		t.spot = last
		if last.queue != alone && v.progress(last.queue).ended {
			t.spot = spot{queue: last.queue}
		}
		if v.spent >= claimRows {
			v.cut = true
		}
	case t.spot.in: // it was the rest of a queue
		t.spot = spot{queue: t.spot.queue}
	default:
		v.wrap()
	}
	return nil
}

// stop has the table go on behind what was looked at.
func (v *turn) stop(last spot) {
	if last != (spot{}) {
		v.table.spot = last
	}
}

// wrap ends a round.
func (v *turn) wrap() {
	t := v.table
	if !t.round.partial {
		t.whole = t.round.began
	}
	t.rest = t.round.restAfter()
	t.round = round{began: time.Now(), due: t.round.due}
	if t.round.due.Before(t.round.began) {
		t.round.due = time.Time{}
	}
	t.spot = spot{}
	v.around = v.over || v.start == "" || !t.rest.IsZero()
	v.over = true
}

func (v *turn) page(ctx context.Context) (page []entry, err error) {
	s, at, began := v.table.sql(), v.table.spot, time.Now()
	query, args := s.page, []any{[]byte(at.queue), pageRows}
	if at.in {
		created := s.value(s.layout.Columns.Created, at.created)
		query, args = s.pageOn, []any{[]byte(at.queue), created, created, s.value(s.layout.Columns.Key, at.key), pageRows}
	}
	rows, err := v.q.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.queue, &e.created, &e.key, &e.marked, &e.claimed, &e.wait, &e.token); err != nil {
			return nil, err
		}
		e.text = s.KeyText(e.key)
		page = append(page, e)
	}
	v.table.round.took, v.table.round.read = v.table.round.took+time.Since(began), v.table.round.read+len(page)
	return page, rows.Err()
}

func (v *turn) progress(column string) *progress {
	p := v.groups[column]
	if p == nil {
		p = &progress{}
		v.groups[column] = p
		if column != alone {
			name, _ := v.table.sql().GroupName(column)
			group := queue.GroupOf(v.table.Table, name)
			p.ended = v.Except[group] || !v.Slots[adapters.SlotOf(group, "")]
		}
	}
	return p
}

// consider reports whether a row is to be claimed, if it can be. It ends the prefix of a group whose further rows cannot be claimed now.
func (v *turn) consider(e *entry) bool {
	p := v.progress(e.queue)
	if p.ended || v.chosen[e.text] || e.queue == alone && !v.Slots[adapters.SlotOf("", e.text)] {
		return false
	}
	switch v.whose(e) {
	case queue.Ours:
		return false
	case queue.Theirs:
		v.wait(e.queue, p, time.Now().Add(blockedPause))
		return false
	case queue.Free:
	}
	if v.Absent[queue.RowKey{Table: v.table.Name, Key: e.text}] {
		return false
	}
	if v.table.unwanted[e.text] {
		return false
	}
	if e.wait.Int64 > 0 {
		v.wait(e.queue, p, time.Now().Add(time.Duration(e.wait.Int64)*time.Microsecond))
		return false
	}
	if v.room(p, e.queue) <= 0 {
		p.ended, v.table.round.left = true, true
		return false
	}
	v.chosen[e.text] = true
	return true
}

// wait ends the prefix of a group until a time. Rows without an order block no others.
func (v *turn) wait(column string, p *progress, until time.Time) {
	p.ended = p.ended || column != alone
	v.table.round.due = queue.Sooner(v.table.round.due, until)
}

// whose says whose a row is. Where the table does not say who holds it, a row that a session of its lane held that has ended is
// not ours: its result is still to be written, and may be refused.
func (v *turn) whose(e *entry) queue.Owner {
	v.q.claims.Lock()
	defer v.q.claims.Unlock()
	return v.table.Whose(e.text, e.marked, func(h *hold) queue.Owner {
		at, marked := e.claimed.(time.Time)
		ours := marked && e.marked && e.token == v.q.token && (at.Equal(h.stamp) || at.Equal(h.former))
		if v.table.layout.Claimless() {
			ours = h.term == v.Terms[h.slot]
		}
		if ours {
			return queue.Ours
		}
		return queue.Theirs // of another session, or of another process that has taken it back, as the next settle finds out
	})
}
