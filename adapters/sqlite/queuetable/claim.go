package queuetable

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

const (
	// pageRows is how many entries of the index one statement reads.
	pageRows = 1000

	// claimRows is how many a claim reads before it ends without result; the next one continues.
	claimRows = 20_000

	// newerRows is how many new rows a claim looks up.
	newerRows = 5000

	// grouped begins the id of a group, before its name.
	grouped = "="
)

var _ queue.Driver = (*table)(nil)

// Claim implements [adapters.Queue].
func (q *Queue) Claim(ctx context.Context, req adapters.ClaimRequest) ([]*adapters.Row, error) {
	if err := q.file.Check(); err != nil {
		q.log.WarnContext(ctx, "what is known of the queue's tables is read again", "error", err)
		q.Restart()
	}
	return q.engine.Claim(ctx, req)
}

// Page implements [queue.Driver]. Rows in no order come first; if they fill no page, the first groups are in it too.
func (t *table) Page(ctx context.Context, from queue.Position) (page queue.Page, err error) {
	err = lite.RetryBusy(ctx, func() error {
		page = queue.Page{}
		switch s := t.sql(); {
		case from.In && from.ID == queue.Alone:
			err = t.entries(ctx, &page, s.aloneOn, from)
		case from.In && from.Created == nil:
			err = t.entries(ctx, &page, s.ofGroup, from)
		case from.In:
			err = t.entries(ctx, &page, s.ofGroupOn, from)
		case from.ID == "":
			if err = t.entries(ctx, &page, s.alone, from); err == nil && len(page.Entries) < pageRows && s.group != "" {
				err = t.entries(ctx, &page, s.groups, from)
			}
		case s.group == "":
		case from.ID == queue.Alone:
			err = t.entries(ctx, &page, s.groups, from)
		default:
			err = t.entries(ctx, &page, s.groupsOn, from)
		}
		return err
	})
	page.Close(from, len(page.Entries) == pageRows)
	return page, err
}

// entries fills a page with what a statement finds.
func (t *table) entries(ctx context.Context, page *queue.Page, text string, from queue.Position) error {
	query, args := sqltext.Bind(text, sqltext.Args{"group": strings.TrimPrefix(from.ID, grouped), "created": from.Created, "key": from.Key, "limit": pageRows - len(page.Entries)})
	rows, err := t.q.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for s := t.sql(); rows.Next(); {
		e := queue.Entry{Ours: true}
		var group sql.NullString
		var claimed, next any
		if err := rows.Scan(&group, &e.Created, &e.Key, &e.Marked, &claimed, &next); err != nil {
			return err
		}
		e.ID, e.Text = idOf(group), s.KeyText(e.Key)
		if e.ID == queue.Alone {
			e.Slot = adapters.SlotOf("", e.Text)
		}
		e.Stamp, _ = timeOf("", claimed) // of what is no time it is not known
		if due, _ := timeOf("", next); !due.IsZero() {
			e.Wait = time.Until(due)
		}
		page.Entries = append(page.Entries, e)
	}
	return rows.Err()
}

// idOf is the id of a group as a column has it.
func idOf(group sql.NullString) string {
	if !group.Valid {
		return queue.Alone
	}
	return grouped + group.String
}

// Group implements [queue.Driver].
func (t *table) Group(id string) string {
	return queue.GroupOf(t.Table.Table, strings.TrimPrefix(id, grouped))
}

// unread is a rowid before all others.
const unread = -1

// Newer implements [queue.Driver], by rowid. SQLite has one writer at a time, so rows become visible in the order of their rowids. Where applications
// choose rowids, or rows with the last ones were deleted, rounds find what this misses.
func (t *table) Newer(ctx context.Context) (ids []string, err error) {
	s := t.sql()
	if s.rowless {
		return nil, nil
	}
	err = lite.RetryBusy(ctx, func() error { ids, err = t.newer(ctx, s); return err })
	return ids, err
}

func (t *table) newer(ctx context.Context, s *statements) (ids []string, err error) {
	var newest int64
	if err := t.q.db.QueryRowContext(ctx, s.newest).Scan(&newest); err != nil {
		return nil, err
	}
	if deleted := t.deleted.Swap(unread); deleted != unread { // the next row may have the rowid of one that was deleted
		t.seen = min(t.seen, deleted)
	}
	if t.seen == unread || newest <= t.seen {
		t.seen = newest
		return nil, nil
	}
	query, args := sqltext.Bind(s.newer, sqltext.Args{"seen": t.seen, "newest": newest, "limit": newerRows})
	rows, err := t.q.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	n, last := 0, newest
	for ; rows.Next(); n++ {
		var group sql.NullString
		if err := rows.Scan(&last, &group); err != nil {
			return nil, err
		}
		ids = append(ids, idOf(group))
	}
	if n < newerRows {
		last = newest
	}
	t.seen = last
	return ids, rows.Err()
}

// Take implements [queue.Driver]. Without marks nothing is written.
func (t *table) Take(ctx context.Context, f func(queue.Taker) error) error {
	if !t.Marks {
		return lite.RetryBusy(ctx, func() error { return f(&taker{t, t.q.db}) })
	}
	return lite.Transact(ctx, t.q.db, func(tx *sql.Tx) error { return f(&taker{t, tx}) })
}

// taker implements [queue.Taker].
type taker struct {
	*table
	tx querier
}

func (t *taker) Read(ctx context.Context, chosen []*queue.Entry, _ int64) (map[string]queue.Found, error) {
	s := t.sql()
	return queue.Chosen(ctx, t.tx, s.read, chosen, func() *queue.Record { return queue.NewRecord(t.Table.Table, s.layout, t.MaxRow, s) }, func(r *queue.Record) string { return idOf(r.Group) })
}

func (t *taker) Fill(ctx context.Context, e *queue.Entry, f *queue.Found) (bool, error) {
	return f.Fill(t.tx.QueryRowContext(ctx, t.sql().payload, e.Key))
}

func (t *taker) Mark(ctx context.Context, rows []queue.Picked) (stamp time.Time, missing map[string]bool, err error) {
	s, now := t.sql(), t.q.nextStamp()
	col := &s.layout.Columns
	stamp = s.stamp(now)
	values := sqltext.Args{"key": nil, "updated": s.timeValue(col.Updated, textTime, now), "next": s.timeValue(col.Claimed, textStamp, stamp)}
	query, _ := sqltext.Bind(s.take, values)
	stmt, err := t.tx.PrepareContext(ctx, query)
	if err != nil {
		return stamp, nil, err
	}
	defer func() { _ = stmt.Close() }() // the transaction has its errors
	for i := range rows {
		values["key"] = rows[i].Key
		_, args := sqltext.Bind(s.take, values)
		if _, err := stmt.ExecContext(ctx, args...); err != nil {
			return stamp, nil, err
		}
	}
	return stamp, nil, nil
}

// nextStamp is a time for claims that no earlier one of this process has had.
// Text columns hold its microseconds, which are random, so that claims that two
// processes make in one millisecond differ. Integer columns hold milliseconds.
func (q *Queue) nextStamp() time.Time {
	return q.Stamp(time.Now()).Add(rand.N(time.Millisecond).Truncate(time.Microsecond)) //nolint:gosec // guards nothing
}

// stamp is the time of a claim as the column keeps it.
func (s *statements) stamp(at time.Time) time.Time {
	if s.affinity(s.layout.Columns.Claimed) == affinityInteger {
		return at.Truncate(time.Millisecond)
	}
	return at
}

// Unmark implements [queue.Driver]: there is nothing to do, because the outcome of a claim is always known.
func (t *table) Unmark(context.Context, []any, time.Time) ([]any, error) { return nil, nil }
