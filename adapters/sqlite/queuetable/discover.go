package queuetable

import (
	"context"
	"database/sql"
	"time"

	"github.com/outriderhq/outrider/adapters/internal/queue"
)

const (
	// newsRows is how many new rows a claim reads at most.
	newsRows = 5000

	// scanStep is how many groups, or rows in no order, one statement of the scan finds.
	scanStep = 500

	// scanShare bounds the share of time that goes into scans: one part of so many.
	scanShare = 20

	// scanPause is the shortest time from the end of a scan to the beginning of the next.
	scanPause = 100 * time.Millisecond

	// scanRest is the longest: on a machine that is busy with other things a scan takes long, and what an operator has put back waits for the next.
	scanRest = 30 * time.Second
)

// scan is a reading of everything that is unfinished.
type scan struct {
	running bool
	groups  bool   // rows in no order are done
	name    string // of the last group
	place   place  // of the last row
	begun   bool

	began time.Time     // when the running one did
	took  time.Duration // what it has cost
	whole time.Time     // when the latest one began that has come to its end
	next  time.Time     // when another one may begin
}

// readNews enters the rows that were inserted since it was last called.
func (t *table) readNews(ctx context.Context, db querier) error {
	s := t.sql()
	if s.rowless {
		t.lagging = true
		return nil
	}
	var newest int64
	if err := db.QueryRowContext(ctx, s.newest).Scan(&newest); err != nil {
		return err
	}
	if t.deleted != unread { // the next row may have the rowid of one that was deleted
		t.read, t.deleted = min(t.read, t.deleted), unread
	}
	if t.read == unread || newest < t.read { // rowids may be given again: the newest rows were deleted, or the file was vacuumed
		if t.read != unread {
			t.scan.next = time.Time{}
		}
		t.read = newest
	}
	t.lagging = false
	if newest == t.read {
		return nil
	}
	rows, err := db.QueryContext(ctx, s.news, t.read, newest, newsRows)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	n, last := 0, t.read
	for ; rows.Next(); n++ {
		var name sql.NullString
		var created, key any
		if err := rows.Scan(&last, &name, &created, &key); err != nil {
			return err
		}
		e := t.entryOf(name, key)
		if e != nil && e.from.covers(created, key) {
			e.from = place{}
		}
		t.enter(e)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if t.lagging = n == newsRows; t.lagging {
		t.read = last
	} else {
		t.read = newest
	}
	return nil
}

// entryOf is the entry of a row with its group.
func (t *table) entryOf(group sql.NullString, key any) *entry {
	if group.Valid {
		return t.groupEntry(group.String)
	}
	return t.rowEntry(key)
}

// readOn continues the scan, or begins another one when it is time, until so many entries are ready or the claim has
// looked at enough.
func (t *table) readOn(ctx context.Context, db querier, want int, c *claim) error {
	sc := &t.scan
	if !sc.running {
		if time.Now().Before(sc.next) {
			return nil
		}
		*sc = scan{running: true, whole: sc.whole}
		t.unwanted, t.unwantedBefore = 0, t.unwanted
		for _, e := range t.entries { // what others have put back may be anywhere
			e.from = place{}
		}
	}
	if !sc.begun {
		sc.begun, sc.began = true, time.Now()
	}
	for sc.running && len(t.ready) < want {
		began := time.Now()
		err := t.step(ctx, db)
		if sc.took += time.Since(began); err != nil {
			return err
		}
		if c.spent += scanStep; c.late() {
			break
		}
	}
	if !sc.running {
		sc.whole, sc.next = sc.began, time.Now().Add(min(max((scanShare-1)*sc.took, scanPause), scanRest))
	}
	return nil
}

// charge puts the next scan off for time that was spent on looking in vain at what the last one has found.
func (s *scan) charge(took time.Duration) {
	if s.took += took; !s.running && took > scanPause/scanShare {
		s.next = queue.Sooner(s.next.Add((scanShare-1)*took), time.Now().Add(scanRest))
	}
}

// step reads a page of the scan.
func (t *table) step(ctx context.Context, db querier) error {
	if !t.scan.groups {
		return t.stepRows(ctx, db)
	}
	return t.stepGroups(ctx, db)
}

func (t *table) stepRows(ctx context.Context, db querier) error {
	text, args := t.sql().firstRows, []any{scanStep}
	if p := t.scan.place; p.set {
		text, args = t.sql().nextRows, []any{scanStep, p.created, p.key}
	}
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	n := 0
	for ; rows.Next(); n++ {
		p := place{set: true}
		if err := rows.Scan(&p.created, &p.key); err != nil {
			return err
		}
		t.scan.place = p
		t.enterDue(t.rowEntry(p.key))
	}
	if n < scanStep {
		t.scan.groups = true
		t.scan.running = t.sql().group != ""
	}
	return rows.Err()
}

func (t *table) stepGroups(ctx context.Context, db querier) error {
	text, args := t.sql().firstGroups, []any{scanStep}
	if t.scan.name != "" {
		text, args = t.sql().nextGroups, []any{scanStep, t.scan.name}
	}
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	n := 0
	for ; rows.Next(); n++ {
		if err := rows.Scan(&t.scan.name); err != nil {
			return err
		}
		t.enterDue(t.groupEntry(t.scan.name))
	}
	t.scan.running = n == scanStep
	return rows.Err()
}
