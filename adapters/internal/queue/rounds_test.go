package queue

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// unmatched is a request for which no route wants a row, now or later.
func unmatched() adapters.ClaimRequest {
	r := everything(10)
	r.Wants, r.Match = 1, func(*adapters.Row) bool { return false }
	r.Later = r.Match
	return r
}

// TestG8_PassesOverUnwantedRowsTakeATwentieth: a round that took long and brought next to nothing is not begun again at once,
// unless other rows are wanted.
func TestG8_PassesOverUnwantedRowsTakeATwentieth(t *testing.T) {
	m := &memory{name: "t", pause: 10 * time.Millisecond}
	for i := range 50 {
		m.insert(strconv.Itoa(i), i)
	}
	e, r := newMemory(t, marking(), nil, m), unmatched()
	claimKeys(t, e, r)
	took := time.Duration(m.pages) * m.pause
	if next := time.Until(e.Coverage().Next); m.read != 50 || next < 15*took {
		t.Errorf("after a round of %v, and %d entries, the next one begins in %v", took, m.read, next)
	}
	if l := e.Coverage(); l.Unwanted != 50 || l.Since.IsZero() {
		t.Errorf("it has looked at %+v", l)
	}
	claimKeys(t, e, r)
	if m.read > 50 {
		t.Errorf("%d entries were read in the pause", m.read-50)
	}
	since := e.Coverage().Since
	if m.newer = []string{"=7"}; !e.Coverage().Since.Equal(since) {
		t.Error("a claim in the pause says that it has looked at everything")
	}
	claimKeys(t, e, r)
	if m.read != 51 {
		t.Errorf("%d entries were read in the pause of a group that has something new", m.read-50)
	}
	r.Wants = 2
	if claimKeys(t, e, r); m.read < 100 {
		t.Errorf("%d entries were read when others are wanted", m.read-51)
	}
}

// TestG2_AGroupThatIsWantedAgainBeginsAtItsBeginning: a claim may end in the middle of a group that it does not want, after so many rows. A claim
// that wants the group, because it was resumed, does not go on from there.
func TestG2_AGroupThatIsWantedAgainBeginsAtItsBeginning(t *testing.T) {
	m := &memory{name: "t"}
	for i := range 8 {
		m.insert("long", i)
	}
	e := newMemory(t, marking(), func(b *Backend[*memory]) { b.ClaimRows = 4 }, m)
	if rows, _ := claimKeys(t, e, unmatched()); len(rows) > 0 || !e.tables[0].at.In {
		t.Fatalf("claimed %d rows, and ended at %+v", len(rows), e.tables[0].at)
	}
	r := everything(10)
	r.Wants = 2
	var keys []string
	for range 3 { // the first one may come to the end of the index
		_, more := claimKeys(t, e, r)
		keys = append(keys, more...)
	}
	if len(keys) != 8 || !slices.IsSorted(keys) {
		t.Errorf("claimed %v", keys)
	}
}

// backlog is a table with many groups, of which a claim has taken some.
func backlog(t *testing.T, groups int) (*memory, *Engine[*memory]) {
	t.Helper()
	m := &memory{name: "t"}
	for i := range groups {
		m.insert(fmt.Sprintf("%06d", i), i)
	}
	e := newMemory(t, marking(), nil, m)
	if rows, _ := claimKeys(t, e, everything(10)); len(rows) != 10 {
		t.Fatalf("claimed %d rows", len(rows))
	}
	return m, e
}

// TestG9_ANewGroupIsClaimedBehindABacklog: by the next claim, where the database can name it, and the round goes on.
func TestG9_ANewGroupIsClaimedBehindABacklog(t *testing.T) {
	m, e := backlog(t, 1000)
	m.newer = []string{"=zzz"}
	row := m.insert("zzz", 0)
	_, keys := claimKeys(t, e, everything(10))
	if !slices.Contains(keys, row.key) || !slices.Contains(keys, "k000010") || len(keys) != 10 {
		t.Errorf("claimed %v, want %s among them, and what follows in the round", keys, row.key)
	}
}

// TestG9_NewGroupsDoNotHoldUpABacklog: they get at most half of a claim, and what is left of them the next ones.
func TestG9_NewGroupsDoNotHoldUpABacklog(t *testing.T) {
	m, e := backlog(t, 1000)
	for i := range 30 {
		id := fmt.Sprintf("zzz%03d", i)
		m.newer = append(m.newer, "="+id)
		m.insert(id, 0)
	}
	for i := range 4 {
		_, keys := claimKeys(t, e, everything(10))
		n := 0
		for _, key := range keys {
			if key >= "k001000" {
				n++
			}
		}
		if n != 5 || len(keys) != 10 {
			t.Errorf("claim %d took %d rows of new groups, and %d in all, want half", i, n, len(keys))
		}
	}
}

// A group whose row went back, or has become due, is read before a round comes to it.
func TestGroupsThatReturnAreReadNext(t *testing.T) {
	m, e := backlog(t, 1000)
	rows, _ := claimKeys(t, e, everything(10))
	if _, err := e.Settle(t.Context(), results(outbox.OutcomeReleased, rows[0])); err != nil {
		t.Fatal(err)
	}
	if _, keys := claimKeys(t, e, everything(10)); !slices.Contains(keys, rows[0].ID) {
		t.Errorf("the row that went back, %s, is not among %v", rows[0].ID, keys)
	}
	next := m.rows[30]
	next.due = time.Now().Add(50 * time.Millisecond)
	if _, keys := claimKeys(t, e, everything(10)); slices.Contains(keys, next.key) {
		t.Errorf("a row that is not due is among %v", keys)
	}
	if due := e.Coverage().Due; due.IsZero() || time.Until(due) > 50*time.Millisecond {
		t.Errorf("the next row is due at %v", due)
	}
	time.Sleep(60 * time.Millisecond)
	if _, keys := claimKeys(t, e, everything(10)); !slices.Contains(keys, next.key) {
		t.Errorf("the row that is due, %s, is not among %v", next.key, keys)
	}
}

// TestG13_ARowThatIsDueBeforeTheRoundEndsIsNotForgotten: a row in no order, which belongs to no group that is read again. The round does not count as
// one that has overlooked nothing.
func TestG13_ARowThatIsDueBeforeTheRoundEndsIsNotForgotten(t *testing.T) {
	m := &memory{name: "t", pause: 10 * time.Millisecond}
	m.insert("", 0)
	for i := range 50 {
		m.insert(strconv.Itoa(i), i+1)
	}
	m.rows[0].due = time.Now().Add(15 * time.Millisecond)
	e, r := newMemory(t, marking(), nil, m), unmatched()
	claimKeys(t, e, r)
	if l := e.Coverage(); m.read != 51 || l.Due.IsZero() {
		t.Errorf("after %d entries it has looked at %+v", m.read, l)
	}
	claimKeys(t, e, r)
	if l := e.Coverage(); m.read != 51 || !l.Since.IsZero() || !l.Due.IsZero() {
		t.Errorf("in the pause, after %d entries, it has looked at %+v", m.read, l)
	}
	for m.read == 51 {
		time.Sleep(time.Until(e.Coverage().Next))
		claimKeys(t, e, r)
	}
	if l := e.Coverage(); l.Since.IsZero() {
		t.Errorf("the next round has looked at %+v", l)
	}
}

// TestG9_AnIdleClaimReadsOnePage: and has looked at everything then.
func TestG9_AnIdleClaimReadsOnePage(t *testing.T) {
	m := &memory{name: "t", newer: []string{"=a"}}
	e := newMemory(t, marking(), nil, m)
	for i := range 3 {
		began := time.Now()
		claimKeys(t, e, everything(10))
		if l := e.Coverage(); l.Since.Before(began) || m.pages != i+1 {
			t.Errorf("claim %d has read %d pages, and looked at everything as of %v before it began", i, m.pages, began.Sub(l.Since))
		}
	}
}

// TestG13_WhatIsForgottenIsReadAgain: after a restart nothing is passed over.
func TestG13_WhatIsForgottenIsReadAgain(t *testing.T) {
	m := &memory{name: "t", pause: 30 * time.Millisecond}
	for i := range 8 {
		m.insert("a", i)
	}
	e, r := newMemory(t, marking(), nil, m), unmatched()
	claimKeys(t, e, r)
	e.Restart()
	r.Match = nil
	if _, keys := claimKeys(t, e, r); len(keys) != 8 {
		t.Errorf("claimed %v", keys)
	}
}

// Of two tables one rests after a long round, and a row that it has seen in the way has become due; the other one is in the middle of its index.
// The next claim reads on there, and not when the rest of the first one is over. Once both have been read, none is due before that.
func TestATableThatRestsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	resting, long := &memory{name: "a", pause: 40 * time.Millisecond, size: 10}, &memory{name: "b", size: 10}
	for i := range 60 {
		r := resting.insert(fmt.Sprintf("g%03d", i), i)
		if r.payload = "x"; i == 0 {
			r.due = time.Now().Add(400 * time.Millisecond)
		}
	}
	for i := range 2000 {
		long.insert(fmt.Sprintf("h%04d", i), i)
	}
	e := newMemory(t, marking(), func(b *Backend[*memory]) { b.ClaimRows, b.PageRows = 100, 10 }, resting, long)
	r := unmatched() // no route wants the rows of either
	claimKeys(t, e, r)
	time.Sleep(time.Until(resting.rows[0].due) + 10*time.Millisecond)
	for range 3 {
		claimKeys(t, e, r)
		if next := time.Until(e.Coverage().NextFor(time.Now())); next > 0 {
			t.Errorf("the other table is read on after %v", next)
		}
	}
	for e.tables[1].coverage.Since.IsZero() {
		claimKeys(t, e, r)
	}
	if next, want := e.Coverage().NextFor(e.tables[1].coverage.Since), e.tables[0].coverage.Next; !next.Equal(want) {
		t.Errorf("once it has been read, the next claim is due at %v, want %v, after the rest", next, want)
	}
}
