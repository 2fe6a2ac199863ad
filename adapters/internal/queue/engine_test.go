package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

func TestAnEngineNeedsTablesThatDiffer(t *testing.T) {
	if _, err := NewEngine(Backend[*memory]{Name: "memory queue", Layout: marking()}, nil); err == nil || !strings.Contains(err.Error(), "no table is named") {
		t.Errorf("without tables: %v", err)
	}
	twice := Backend[*memory]{Name: "memory queue", Layout: marking()}
	twice.Tables = append(twice.Tables, marking().Tables[0], marking().Tables[0])
	if _, err := NewEngine(twice, []*memory{{name: "a"}, {name: "a"}}); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("with one table twice: %v", err)
	}
}

// TestG2_AClaimTakesAPrefixOfEachGroup: rows that cannot be claimed end the prefix of their group, those that are not there for the claim do not.
func TestG2_AClaimTakesAPrefixOfEachGroup(t *testing.T) {
	for name, test := range map[string]struct {
		change func(m *memory, r *adapters.ClaimRequest)
		want   string
	}{
		"all":                   {func(*memory, *adapters.ClaimRequest) {}, "a0 a1 a2 b3 b4 .5 .6"},
		"a limit":               {func(_ *memory, r *adapters.ClaimRequest) { r.Limit = 2 }, ".5 .6"},
		"a limit of each group": {func(_ *memory, r *adapters.ClaimRequest) { r.PerGroup = 1 }, "a0 b3 .5 .6"},
		"a group is left out":   {func(_ *memory, r *adapters.ClaimRequest) { r.Except = []string{"a"} }, "b3 b4 .5 .6"},
		"rows are left out": {func(_ *memory, r *adapters.ClaimRequest) {
			r.ExceptRows = []*adapters.Claim{{Table: "t", Key: "k000000"}, {Table: "t", Key: "k000005"}}
		}, "a1 a2 b3 b4 .6"},
		"no route wants a row": {func(_ *memory, r *adapters.ClaimRequest) {
			r.Match = func(row *adapters.Row) bool { return row.ID != "k000001" }
		}, "a0 a2 b3 b4 .5 .6"},
		"another process has one": {func(m *memory, _ *adapters.ClaimRequest) { m.rows[1].status = "marked" }, "a0 b3 b4 .5 .6"},
		"one is finished":         {func(m *memory, _ *adapters.ClaimRequest) { m.rows[1].status = "done" }, "a0 a2 b3 b4 .5 .6"},
		"one is not due":          {func(m *memory, _ *adapters.ClaimRequest) { m.rows[0].due = time.Now().Add(time.Hour) }, "b3 b4 .5 .6"},
		"one in no order waits":   {func(m *memory, _ *adapters.ClaimRequest) { m.rows[5].status = "marked" }, "a0 a1 a2 b3 b4 .6"},
		"one is taken as it is marked": {func(m *memory, _ *adapters.ClaimRequest) {
			m.between = func() { m.rows[1].status, m.between = "done", nil }
		}, "a0 b3 b4 .5 .6"},
		"payloads fit no more": {func(_ *memory, r *adapters.ClaimRequest) { r.Bytes = 5 }, ".5 .6"},
		"the first is large":   {func(m *memory, r *adapters.ClaimRequest) { m.large, r.Bytes, r.Slots = 1, 1, allBut(r, 5, 6) }, "a0"},
		"a lane is another's":  {func(_ *memory, r *adapters.ClaimRequest) { r.Slots = []int{adapters.SlotOf("b", "")} }, "b3 b4"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{name: "t"}
			for i, group := range []string{"a", "a", "a", "b", "b", "", ""} {
				m.insert(group, i)
			}
			e, r := newMemory(t, marking(), nil, m), everything(100)
			test.change(m, &r)
			rows, _ := claimKeys(t, e, r)
			var got []string
			for _, row := range rows {
				got = append(got, fmt.Sprint(strings.TrimSuffix(row.Group+".", strings.Repeat(".", len(row.Group))), int(row.ID[6]-'0')))
				if row.Claim == nil || row.Claim.Token == "" || row.Claim.Table != "t" {
					t.Errorf("row %s has the claim %+v", row.ID, row.Claim)
				}
			}
			want := strings.Fields(test.want)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("claimed %v, want %v", got, want)
			}
			for _, row := range m.rows { // nothing else is marked
				if held := e.tables[0].held[row.key] != nil; held != slices.ContainsFunc(rows, func(r *adapters.Row) bool { return r.ID == row.key }) || !held && row.ours && row.status == "marked" {
					t.Errorf("row %s is held: %v, and %s", row.key, held, row.status)
				}
			}
		})
	}
}

// allBut are lanes without those of some rows in no order.
func allBut(r *adapters.ClaimRequest, rows ...int) []int {
	return slices.DeleteFunc(slices.Clone(r.Slots), func(slot int) bool {
		return slices.ContainsFunc(rows, func(i int) bool { return adapters.SlotOf("", fmt.Sprintf("k%06d", i)) == slot })
	})
}

// Tables are served in turn, each with an even share of the limit, and room that is left goes to those that have more.
func TestTablesShareALimit(t *testing.T) {
	long, short := &memory{name: "long"}, &memory{name: "short"}
	for i := range 100 {
		long.insert(strconv.Itoa(i), i)
	}
	short.insert("x", 0)
	e := newMemory(t, marking(), nil, long, short)
	for range 2 {
		if rows, _ := claimKeys(t, e, everything(10)); len(rows) != 10 {
			t.Errorf("claimed %d rows, want 10", len(rows))
		}
	}
	if short.rows[0].status != "marked" {
		t.Error("the row of the short table waits")
	}
	e.SetBatch(3)
	if rows, _ := claimKeys(t, e, everything(10)); len(rows) != 3 {
		t.Errorf("claimed %d rows of one table, want a batch of 3", len(rows))
	}
}

// Each group of a page gets its share before one of them gets a second, and what is left of a claim goes to those that have more.
func TestGroupsShareAClaim(t *testing.T) {
	m := &memory{name: "t"}
	for i, group := range []string{"a", "a", "a", "a", "b", "c", "c", "c", "c"} {
		m.insert(group, i)
	}
	e := newMemory(t, marking(), func(b *Backend[*memory]) { b.PageRows = 20 }, m)
	for _, want := range []string{"k000000 k000001 k000002 k000004 k000005 k000006", "k000003 k000007 k000008"} {
		_, keys := claimKeys(t, e, everything(6))
		if slices.Sort(keys); strings.Join(keys, " ") != want {
			t.Errorf("claimed %v, want %s", keys, want)
		}
	}
}

// TestG3_ATokenIsOfOneClaim: a claim of a row that went back and was claimed again is another one; results of the first are lost.
func TestG3_ATokenIsOfOneClaim(t *testing.T) {
	m := &memory{name: "t"}
	m.insert("a", 0)
	e := newMemory(t, marking(), nil, m)
	first, _ := claimKeys(t, e, everything(10))
	stale := *first[0].Claim
	if lost, err := e.Settle(t.Context(), results(outbox.OutcomeReleased, first...)); err != nil || len(lost) > 0 {
		t.Fatalf("%d lost, %v", len(lost), err)
	}
	second, _ := claimKeys(t, e, everything(10))
	if len(second) != 1 || second[0].Claim.Token == stale.Token {
		t.Fatalf("claimed %d rows again", len(second))
	}
	late := results(outbox.OutcomeDelivered, first...)
	late[0].Claim = &stale
	if lost, err := e.Settle(t.Context(), late); err != nil || len(lost) != 1 || lost[0] != &stale || m.rows[0].status != "marked" {
		t.Errorf("%d results of the first claim are lost, %v; the row is %s", len(lost), err, m.rows[0].status)
	}
	if lost, err := e.Settle(t.Context(), []adapters.ClaimResult{{Claim: &adapters.Claim{Table: "other", Key: "k"}}}); err != nil || len(lost) != 1 {
		t.Errorf("of a table that is none of the queue's: %d lost, %v", len(lost), err)
	}
}

// TestG1_AClaimOfWhichNothingIsKnownGoesBack: rows of a claim whose transaction nobody answered may be marked. The next claim takes them in order.
func TestG1_AClaimOfWhichNothingIsKnownGoesBack(t *testing.T) {
	for _, outcome := range []error{errCut, errRefused} {
		m := &memory{name: "t", takeErr: outcome}
		m.insert("a", 0)
		m.insert("a", 1)
		e := newMemory(t, marking(), nil, m)
		if rows, err := e.Claim(t.Context(), everything(10)); !errors.Is(err, outcome) || len(rows) > 0 {
			t.Fatalf("claimed %d rows: %v", len(rows), err)
		}
		if _, keys := claimKeys(t, e, everything(10)); !slices.Equal(keys, []string{"k000000", "k000001"}) {
			t.Errorf("after %v %v are claimed", outcome, keys)
		}
	}
}

// TestG1_ASettleOfWhichNothingIsKnownIsGivenAgain: results that were written are not lost then.
func TestG1_ASettleOfWhichNothingIsKnownIsGivenAgain(t *testing.T) {
	for _, outcome := range []error{errCut, errRefused} {
		m := &memory{name: "t", settleErr: outcome}
		m.insert("a", 0)
		e := newMemory(t, marking(), nil, m)
		rows, _ := claimKeys(t, e, everything(10))
		for range 2 {
			lost, err := e.Settle(t.Context(), results(outbox.OutcomeDelivered, rows...))
			if len(lost) > 0 || err != nil && !errors.Is(err, outcome) {
				t.Errorf("%d lost, %v", len(lost), err)
			}
		}
		if m.rows[0].status != "done" || len(e.tables[0].held) > 0 {
			t.Errorf("the row is %s, %d are held", m.rows[0].status, len(e.tables[0].held))
		}
	}
}

// TestG2_AnExtensionOfWhichNothingIsKnownKeepsTheClaim: whichever times were written, the claim is ours.
func TestG2_AnExtensionOfWhichNothingIsKnownKeepsTheClaim(t *testing.T) {
	for _, outcomes := range [][]error{{errCut}, {errRefused}, {errCut, errRefused, errCut, nil}, {errRefused, errCut, errRefused}} {
		m := &memory{name: "t"}
		m.insert("a", 0)
		e := newMemory(t, marking(), nil, m)
		rows, _ := claimKeys(t, e, everything(10))
		claims := []*adapters.Claim{rows[0].Claim}
		for _, m.renewErr = range outcomes {
			wanted := m.renewErr
			if lost, err := e.Extend(t.Context(), claims); len(lost) > 0 || !errors.Is(err, wanted) {
				t.Errorf("%d lost, %v", len(lost), err)
			}
			if _, keys := claimKeys(t, e, everything(10)); len(keys) > 0 {
				t.Errorf("%v are claimed twice", keys)
			}
		}
		if lost, err := e.Settle(t.Context(), results(outbox.OutcomeDelivered, rows...)); err != nil || len(lost) > 0 {
			t.Errorf("after extensions with %v: %d lost, %v", outcomes, len(lost), err)
		}
	}
}

// TestG3_WhatAnotherProcessHasRecoveredIsLost: by an extension and by a settle.
func TestG3_WhatAnotherProcessHasRecoveredIsLost(t *testing.T) {
	m := &memory{name: "t"}
	m.insert("a", 0)
	m.insert("b", 0)
	e := newMemory(t, marking(), nil, m)
	rows, _ := claimKeys(t, e, everything(10))
	if n, err := e.Recover(t.Context()); err != nil || n > 0 {
		t.Errorf("%d rows that are held were recovered, %v", n, err)
	}
	m.rows[0].status = "waiting"
	m.rows[1].stamp = time.UnixMilli(999)
	if lost, err := e.Extend(t.Context(), []*adapters.Claim{rows[0].Claim}); err != nil || len(lost) != 1 {
		t.Errorf("%d extended claims are lost, %v", len(lost), err)
	}
	if lost, err := e.Settle(t.Context(), results(outbox.OutcomeDelivered, rows[1])); err != nil || len(lost) != 1 {
		t.Errorf("%d results are lost, %v", len(lost), err)
	}
	if n, err := e.Recover(t.Context()); err != nil || n != 1 {
		t.Errorf("%d rows were recovered, %v", n, err)
	}
	if p, err := e.Processing(t.Context(), 10); err != nil || p.Rows != 0 {
		t.Errorf("%+v are being processed, %v", p, err)
	}
}

// A settle names rows that other sessions have locked. They are still held.
func TestLockedRowsAreStillHeld(t *testing.T) {
	m := &memory{name: "t"}
	m.insert("a", 0)
	locks := 1
	e := newMemory(t, marking(), func(b *Backend[*memory]) {
		settle := b.Settle
		b.Settle = func(ctx context.Context, rows []*Settled[*memory]) error {
			if locks--; locks >= 0 {
				rows[0].Locked = true
				return nil
			}
			return settle(ctx, rows)
		}
	}, m)
	rows, _ := claimKeys(t, e, everything(10))
	var locked *adapters.LockedError
	if lost, err := e.Settle(t.Context(), results(outbox.OutcomeDelivered, rows...)); !errors.As(err, &locked) || len(lost) > 0 || len(locked.Claims) != 1 {
		t.Errorf("%d lost, %v", len(lost), err)
	}
	if lost, err := e.Settle(t.Context(), results(outbox.OutcomeDelivered, rows...)); err != nil || len(lost) > 0 || m.rows[0].status != "done" {
		t.Errorf("%d lost, %v, the row is %s", len(lost), err, m.rows[0].status)
	}
}

// TestG2_ALaneOfANewTermWaitsForTheOldOne: in a table that marks nothing, rows that a former session of their lane holds end the prefix of their group
// until that is over.
func TestG2_ALaneOfANewTermWaitsForTheOldOne(t *testing.T) {
	m := &memory{name: "t"}
	m.insert("a", 0)
	m.insert("a", 1)
	e := newMemory(t, remembering(t), nil, m)
	r := everything(1)
	r.Terms = make([]uint64, len(r.Slots))
	first, keys := claimKeys(t, e, r)
	if len(keys) != 1 || m.rows[0].status != "waiting" {
		t.Fatalf("claimed %v, the row is %s", keys, m.rows[0].status)
	}
	r.Limit = 10
	if _, keys := claimKeys(t, e, r); !slices.Equal(keys, []string{"k000001"}) {
		t.Errorf("the session with the first row claimed %v", keys)
	}
	for i := range r.Terms {
		r.Terms[i] = 1
	}
	if _, keys := claimKeys(t, e, r); len(keys) > 0 {
		t.Errorf("the next session claimed %v", keys)
	}
	if _, err := e.Settle(t.Context(), results(outbox.OutcomeDelivered, first...)); err != nil {
		t.Fatal(err)
	}
	if _, keys := claimKeys(t, e, r); len(keys) > 0 { // the second one is still the former session's
		t.Errorf("the next session claimed %v", keys)
	}
	if n, err := e.Recover(t.Context()); err != nil || n > 0 {
		t.Errorf("%d rows of a table that marks nothing were recovered, %v", n, err)
	}
}

// Stamps of claims differ, whatever the clock does.
func TestStampsAreNeverRepeated(t *testing.T) {
	e := newMemory(t, marking(), nil, &memory{name: "t"})
	now := time.UnixMilli(1000)
	var last time.Time
	for _, at := range []time.Time{now, now, now.Add(-time.Hour), now.Add(time.Microsecond), now.Add(time.Hour)} {
		stamp := e.Stamp(at)
		if !stamp.After(last) {
			t.Errorf("%v follows %v", stamp, last)
		}
		last = stamp
	}
}
