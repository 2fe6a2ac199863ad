package queuetable

import (
	"context"
	"math"
	"time"

	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

const (
	// newestPage and groupsPage are how many rows or groups one page has.
	newestPage = 1000
	groupsPage = 200

	// roundPages bounds the pages of everything that one claim reads, and roundRows
	// the rows of a page, which grow where the pages bring nothing new.
	roundPages = 8
	roundRows  = 8 * newestPage

	// claimSteps bounds the statements of one claim at a table that look for work.
	claimSteps = 24

	// slowRound is when a page of names is slow enough to be worth an index.
	slowRound = 200 * time.Millisecond

	// heldMost bounds the listing of what is being processed. With more than that
	// nothing is said to be read completely, so that groups are read from further
	// behind.
	heldMost = 100_000

	// upkeepGroups is how many groups in the ring are enough.
	upkeepGroups = 10_000
)

// discovery is the looking for groups of one claim.
type discovery struct {
	q        *Queue
	table    *queueTable
	ended    bool // nothing is left to find now
	complete bool // the round has come to its end
	pages    int  // of the round
	steps    int  // statements of the claim
	began    time.Time
}

// tired reports whether the claim has done enough, and is to leave the rest to the
// next one.
func (d *discovery) tired() bool { return d.steps >= claimSteps }

// more looks for groups until there is a new one in the ring, nothing left, or
// enough done.
func (d *discovery) more(ctx context.Context) (bool, error) {
	for !d.ended && !d.tired() {
		fresh, err := d.page(ctx)
		if err != nil || fresh {
			return fresh, err
		}
	}
	return false, nil
}

// upkeep looks for groups although there may be work enough: a page of the
// round if it is due, and what is new by age.
func (d *discovery) upkeep(ctx context.Context) error {
	t := d.table
	if len(t.ring) == 0 || len(t.ring) > upkeepGroups {
		return nil // what is needed will be looked for, or more would only fill the memory
	}
	if t.round.due(max(t.share(), roundShare)) {
		if _, err := d.roundPage(ctx); err != nil {
			return err
		}
	}
	if !t.aged || d.ended {
		return nil
	}
	return d.peek(ctx)
}

// page finds groups by age where it can, by name otherwise.
func (d *discovery) page(ctx context.Context) (fresh bool, err error) {
	t := d.table
	if t.sql.layout.Columns.Group == "" && !t.aged {
		d.ended, t.round.whole = true, d.began
		return t.found(nil, unknownSince), nil
	}
	switch {
	case !d.complete && d.pages < roundPages && (t.round.credit > 0 || t.round.due(t.share())):
		d.pages++
		return d.roundPage(ctx)
	case t.aged:
		return d.newestPage(ctx)
	}
	d.ended = true
	return false, nil
}

// newestPage reads what is new by age.
func (d *discovery) newestPage(ctx context.Context) (fresh bool, err error) {
	t := d.table
	page, err := d.from(ctx, newestPage, t.newest, t.text.first, t.text.next)
	if err != nil {
		return false, err
	}
	t.newest, t.latest = page.last, latest(t.latest, page.last)
	if d.ended = !page.full; d.ended {
		t.newest = t.latest
	}
	return page.fresh, nil
}

// peek reads the newest rows from the end on, down to what was read before. Should
// that be more than a page, there are rows behind latest that have not been read.
func (d *discovery) peek(ctx context.Context) error {
	t := d.table
	page, err := d.from(ctx, newestPage, t.latest, t.text.latest, t.text.later)
	if err != nil {
		return err
	}
	whole := !page.full && t.newest == t.latest
	if t.latest = latest(t.latest, page.first); whole {
		t.newest, d.ended = t.latest, true
	}
	return nil
}

// roundPage reads the next page of everything.
func (d *discovery) roundPage(ctx context.Context) (fresh bool, err error) {
	t := d.table
	s := &t.round
	began := time.Now()
	if !s.midway {
		s.began = began
		t.unmatched.round++
	}
	var full bool
	switch {
	case t.aged:
		fresh, full, err = d.roundByAge(ctx)
	case t.sql.layout.Columns.Group != "":
		fresh, full, err = d.byName(ctx)
	}
	if err != nil {
		return false, err
	}
	s.spent(began, t.share())
	if !t.aged && s.took > slowRound && !s.warned {
		s.warned = true
		d.q.log.WarnContext(ctx, "looking for waiting rows is slow; create the indexes that \"outrider init --print\" shows",
			"table", t.name, "took", s.took)
	}
	s.midway, d.complete = full, !full
	if !full {
		s.restart()
		s.whole = s.began
		t.unmatched.clean()
		t.wakeChanged()
	}
	return fresh, nil
}

// roundByAge reads the next page of everything that is unfinished by age. Rows that are
// being processed and not in the index belong to it: they are read with the page,
// when that is the only one, or else after the last. In between, a row can only be
// missed that another process puts back.
func (d *discovery) roundByAge(ctx context.Context) (fresh, full bool, err error) {
	t := d.table
	s := &t.round
	first := !s.midway
	var page aged
	switch {
	case !first:
		page, err = d.from(ctx, s.rows, s.position, t.text.first, t.text.next)
	case t.heldAged:
		s.known, s.rows = t.latest.since(), newestPage
		page, err = d.byAge(ctx, s.rows, t.text.everything)
	default:
		s.known, s.rows = t.latest.since(), newestPage
		page, err = d.byAge(ctx, s.rows, t.text.everything, heldMost)
	}
	if err != nil {
		return false, false, err
	}
	if s.rows = min(2*s.rows, roundRows); page.fresh {
		s.rows = newestPage
	}
	if !first && !page.full && !t.heldAged {
		held, err := d.byAge(ctx, heldMost, t.text.held)
		if err != nil {
			return false, false, err
		}
		page.held, page.fresh = held.held, page.fresh || held.fresh
	}
	if s.position = page.last; first && !page.full { // the newest rows too
		t.latest = latest(t.latest, s.position)
		t.newest, d.ended = t.latest, true
	}
	if !page.full && page.held < heldMost {
		t.roundEnded(s.known)
	}
	return page.fresh, page.full, nil
}

// sameTimeFor is how long rows with the time of another one may come after it, in the order of their keys.
const sameTimeFor = time.Minute

// latest is the later one. Of two with equal times, whose keys only the server can compare, it is the first as long as further rows of that time
// may come; after that it is the second, or a claim would read all rows of a time again that has many.
func latest(a, b position) position {
	if !b.set || a.set && (a.created > b.created || a.created == b.created && time.Since(wire.Time(a.created)) < sameTimeFor) {
		return a
	}
	return b
}

// aged is a page of what is unfinished by age.
type aged struct {
	first, last position // last is where the page begins if there is nothing
	full        bool
	held        int  // rows that were listed in addition to the page
	fresh       bool // there is a group that was not in the ring
}

// from reads the page of so many rows that a position bounds, or the one without a
// position.
func (d *discovery) from(ctx context.Context, limit int, at position, without, bounded string) (aged, error) {
	if !at.set {
		return d.byAge(ctx, limit, without)
	}
	page, err := d.byAge(ctx, limit, bounded, timeText(at.created), at.key)
	if !page.last.set {
		page.last = at
	}
	return page, err
}

// byAge reads a page of so many rows, and enters the groups of those that are neither
// held by this queue nor known to match no route.
func (d *discovery) byAge(ctx context.Context, limit int, text string, args ...any) (page aged, err error) {
	t := d.table
	d.steps++
	rows, err := d.q.pool.Query(ctx, text, append([]any{wire.RawResults, limit}, args...)...)
	if err != nil {
		return aged{}, err
	}
	n := 0
	for rows.Next() {
		v := rows.RawValues()
		at := position{created: wire.Int64FromBinary(v[0]), key: string(v[1]), set: true}
		group := textOrNull(v[2])
		if !t.unmatched.has(v[1], v[4]) && !t.sleeps(group, v[1], v[4]) && !d.q.holdsRow(t, at.key) && t.found(group, at.created) {
			page.fresh = true
		}
		if v[3][0] != 0 {
			page.held++
			continue
		}
		if n++; at.created == math.MaxInt64 {
			continue // nothing that comes is behind infinity
		}
		if !page.first.set {
			page.first = at
		}
		page.last = at
	}
	page.full = n == limit
	return page, rows.Err()
}

// byName reads a page of names of groups with waiting rows.
func (d *discovery) byName(ctx context.Context) (fresh, full bool, err error) {
	t := d.table
	s := &t.round
	waiting := t.sql.layout.Statuses.Waiting()
	text, args := t.sql.groups(waiting[s.status], true), []any{wire.RawResults, groupsPage}
	if s.midway && s.name != "" {
		text, args = t.sql.groups(waiting[s.status], false), append(args, s.name)
	}
	d.steps++
	rows, err := d.q.pool.Query(ctx, text, args...)
	if err != nil {
		return false, false, err
	}
	n := 0
	for rows.Next() {
		v := rows.RawValues()
		name := textOrNull(v[1])
		if wire.Int32FromBinary(v[0]) > 0 {
			n++
			s.name = *name
		}
		if t.found(name, unknownSince) {
			fresh = true
		}
	}
	if err := rows.Err(); err != nil {
		return false, false, err
	}
	if n == groupsPage {
		return fresh, true, nil
	}
	if s.status++; s.status < len(waiting) {
		s.name = ""
		return fresh, true, nil
	}
	return fresh, false, nil
}
