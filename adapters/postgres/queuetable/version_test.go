package queuetable

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// settleAll settles rows as delivered and returns the keys of the lost ones.
func settleAll(t testing.TB, q *Queue, rows []*adapters.Row) string {
	t.Helper()
	results := make([]adapters.ClaimResult, len(rows))
	for i, row := range rows {
		results[i] = adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDelivered}
	}
	lost, err := q.Settle(t.Context(), results)
	pgtest.Must(t, err)
	keys := make([]string, len(lost))
	for i, c := range lost {
		keys[i] = c.Key
	}
	return strings.Join(keys, " ")
}

// TestG3_RowsThatMovedAreSettled: somebody writes another column of some or all
// claimed rows, as a rewrite of the table would; the claims are as good as before.
func TestG3_RowsThatMovedAreSettled(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]string{"one row": "UPDATE {t} t SET {set_type} = 'X' WHERE {key} = '0000000000002'",
		"all rows": "UPDATE {t} t SET {set_type} = 'X'"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newQueueEnv(t).flowCatalyst(t, true)
			table := e.tables[0].Name
			e.fill(table, 5, 1, "PENDING")
			q := e.queue()
			defer func() { pgtest.Must(t, q.Close()) }()
			rows := claimAll(t, q)
			e.exec(e.sql(table, move))
			if lost := settleAll(t, q, rows); lost != "" || len(rows) != 5 {
				t.Errorf("of %d rows %s were lost", len(rows), lost)
			}
			for _, r := range e.rows() {
				if r.Status != adaptertest.QueueDone {
					t.Errorf("row %s is %s", r.Key, r.Status)
				}
			}
		})
	}
}

// TestG3_APlaceThatAnotherRowHasIsNotOurs: a claimed row is deleted, and its
// place is given to another one.
func TestG3_APlaceThatAnotherRowHasIsNotOurs(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	table := e.tables[0].Name
	e.fill(table, 3, 1, "PENDING")
	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	rows := claimAll(t, q)
	var stamp time.Time
	pgtest.Must(t, e.pool.QueryRow(e.ctx, "SELECT max(processed_at) FROM "+table).Scan(&stamp))
	e.exec("DELETE FROM " + table)
	pgtest.Vacuum(t, e.pool, table)
	e.exec(e.sql(table, `INSERT INTO {t} ({set_key}, {set_type}, {set_payload}, {set_status}, {set_created}, {set_claimed})
SELECT 'other-' || i, 'EVENT', '{}', 'PROCESSING', now(), $1 FROM generate_series(1, 6) AS i`), stamp)
	var taken int // places that claimed rows had
	pgtest.Must(t, e.pool.QueryRow(e.ctx, "SELECT count(*) FROM "+table+" WHERE ctid IN ('(0,4)', '(0,5)', '(0,6)')").Scan(&taken))
	if taken != 3 {
		t.Fatalf("%d places were given to other rows, want 3", taken)
	}
	if lost := settleAll(t, q, rows); lost != "0000000000001 0000000000002 0000000000003" {
		t.Errorf("lost %q", lost)
	}
	for _, r := range e.rows() {
		if r.Status != adaptertest.QueueProcessing {
			t.Errorf("row %s of somebody else is %s", r.Key, r.Status)
		}
	}
}

// meddler runs a statement before rows are claimed.
type meddler struct {
	t      *testing.T
	before func()
	all    bool // rows are claimed without locking them first
}

func (m *meddler) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	claims := "SKIP LOCKED"
	if m.all {
		claims = "RETURNING w.n"
	}
	if strings.Contains(d.SQL, claims) && m.before != nil {
		m.before()
		m.before = nil
	}
	return ctx
}

func (*meddler) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestG2_WhatChangedSinceTheLookEndsThePrefix: whatever it was that changed,
// nothing behind the row is claimed with it, and all of it later.
func TestG2_WhatChangedSinceTheLookEndsThePrefix(t *testing.T) {
	t.Parallel()
	changes := map[string]string{
		"written":   "UPDATE {t} t SET {set_attempts} = 1 WHERE {key} = '0000000000003'",
		"claimed":   "UPDATE {t} t SET {set_status} = 'PROCESSING', {set_claimed} = now() WHERE {key} = '0000000000003'",
		"all moved": "UPDATE {t} t SET {set_type} = 'X'",
	}
	for _, c := range slices.Sorted(maps.Keys(changes)) {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, taking all %t", c, all), func(t *testing.T) {
				t.Parallel()
				changedSinceTheLook(t, changes[c], all)
			})
		}
	}
}

func changedSinceTheLook(t *testing.T, change string, all bool) {
	e := newQueueEnv(t).flowCatalyst(t, true)
	table := e.tables[0].Name
	e.fill(table, 1, 1, "COMPLETED")
	e.fill(table, 4, 1, "PENDING")
	e.exec("DELETE FROM " + table + " WHERE status = 'COMPLETED'")
	m := &meddler{t: t, all: all, before: func() { e.exec(e.sql(table, change)) }}
	q, err := New(e.ctx, Config{URL: e.url, Tables: e.tables[:1], Layout: e.layout, Tracer: m})
	pgtest.Must(t, err)
	defer func() { pgtest.Must(t, q.Close()) }()
	if all {
		q.takeAllRows = 1
	}
	first, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: 10})
	pgtest.Must(t, err)
	if len(first) > 1 || len(first) == 1 && first[0].ID != "0000000000002" {
		t.Errorf("%d rows were claimed past one that changed", len(first))
	}
	e.exec(e.sql(table, "UPDATE {t} t SET {set_status} = 'PENDING' WHERE {key} = '0000000000003'"))
	rows := slices.Concat(first, claimAll(t, q))
	for i, row := range rows {
		if want := []string{"0000000000002", "0000000000003", "0000000000004", "0000000000005"}[i]; row.ID != want {
			t.Errorf("row %s came instead of %s", row.ID, want)
		}
	}
	if lost := settleAll(t, q, rows); lost != "" || len(rows) != 4 {
		t.Errorf("%d rows were claimed, lost %q", len(rows), lost)
	}
}

// TestG2_AGroupThatWasCutGetsNothingMore: groups get what others leave of a claim,
// but not one of which somebody else was faster at a row.
func TestG2_AGroupThatWasCutGetsNothingMore(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	table := e.tables[0].Name
	const long, few = 40, 2 // rows of the groups
	e.fill(table, long+few, 1, "PENDING")
	e.exec(e.sql(table, "UPDATE {t} t SET {set_group} = 'few' WHERE {key} > $1"), fmt.Sprintf("%013d", long))
	m := &meddler{t: t, before: func() {
		e.exec(e.sql(table, "UPDATE {t} t SET {set_attempts} = 1 WHERE {key} = '0000000000005'"))
	}}
	q, err := New(e.ctx, Config{URL: e.url, Tables: e.tables[:1], Layout: e.layout, Tracer: m})
	pgtest.Must(t, err)
	defer func() { pgtest.Must(t, q.Close()) }()
	first, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: 24})
	pgtest.Must(t, err)
	var keys []string
	for _, row := range first {
		keys = append(keys, strings.TrimLeft(row.ID, "0"))
	}
	if got := strings.Join(keys, " "); m.before != nil || got != "1 2 3 4 41 42" {
		t.Errorf("rows %s were claimed, want 1 2 3 4 41 42", got)
	}
	rest := claimAll(t, q)
	for i, row := range rest {
		if want := fmt.Sprintf("%013d", i+5); row.ID != want {
			t.Fatalf("row %s came instead of %s", row.ID, want)
		}
	}
	if len(rest) != long-4 {
		t.Errorf("%d rows came later, want %d", len(rest), long-4)
	}
}

func TestProcessingCountsWhatIsMarked(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, false)
	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	for i, want := range []adapters.Processing{{}, {Rows: 3}, {Rows: 4}, {Rows: 2, More: true}} {
		switch i {
		case 1:
			e.fill(e.tables[0].Name, 3, 1, "PROCESSING")
			e.exec("UPDATE " + e.tables[0].Name + " SET processed_at = now() - interval '4 min'")
		case 2:
			e.fill(e.tables[1].Name, 1, 1, "PROCESSING")
			e.fill(e.tables[1].Name, 1, 1, "PENDING")
		case 3:
			e.exec("DELETE FROM " + e.tables[1].Name)
		}
		most := 10 - 8*(i/3)
		p, err := q.Processing(e.ctx, most)
		pgtest.Must(t, err)
		longest := p.Longest
		p.Longest = 0
		if p != want || (longest >= 4*time.Minute) != (i > 0) || longest > time.Hour {
			t.Errorf("%d: got %+v and %v, want %+v", i, p, longest, want)
		}
	}
}

// pending inserts a waiting row into the first table, of this age.
func (e *queueEnv) pending(key, group, age string) {
	e.t.Helper()
	e.exec(e.sql(e.tables[0].Name, `INSERT INTO {t} ({set_key}, {set_type}, {set_group}, {set_payload}, {set_status}, {set_created})
SELECT $1, 'EVENT', $2, '{}', 'PENDING', now() - $3::interval`), key, group, age)
}

// wantClaimed claims everything and compares the keys, in their order.
func wantClaimed(t *testing.T, q *Queue, want string) {
	t.Helper()
	var got []string
	for _, row := range claimAll(t, q) {
		got = append(got, row.ID)
	}
	if strings.Join(got, " ") != want {
		t.Errorf("claimed %q, want %q", got, want)
	}
}

// TestG2_ARowThatBecameVisibleLateIsNotOvertaken: a transaction takes seconds, so
// that younger rows of other groups are known before it ends. The next row of its
// group, which was written after it had ended, comes behind it, also when reading
// everything takes so long that nothing else would have found the older row.
func TestG2_ARowThatBecameVisibleLateIsNotOvertaken(t *testing.T) {
	t.Parallel()
	for name, took := range map[string]string{"a new group": "2 s", "a new group, slowly": "4 s", "a group that was served": "4 s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newQueueEnv(t).flowCatalyst(t, true)
			q := e.queue()
			defer func() { pgtest.Must(t, q.Close()) }()
			e.pending("known", "other", "0 s")
			if name == "a group that was served" {
				e.pending("first", "group", "20 s")
			}
			if lost := settleAll(t, q, claimAll(t, q)); lost != "" {
				t.Fatalf("lost %s", lost)
			}
			claimAll(t, q) // reads everything again, and knows that there is nothing
			s := &q.tables[0].round
			s.read, s.took = time.Now(), time.Hour // so the next time is far away

			e.pending("older", "group", took)
			e.pending("younger", "group", "0 s")
			wantClaimed(t, q, "older younger")
		})
	}
}

// TestG2_AClaimThatFailedIsNotOvertaken: the connection breaks before what was chosen
// is claimed. What is written later comes behind it, also when reading everything
// takes long.
func TestG2_AClaimThatFailedIsNotOvertaken(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	m := &meddler{t: t}
	q, err := New(e.ctx, Config{URL: e.url, Tables: e.tables[:1], Layout: e.layout, Tracer: m})
	pgtest.Must(t, err)
	defer func() { pgtest.Must(t, q.Close()) }()
	e.pending("known", "other", "0 s")
	settleAll(t, q, claimAll(t, q))
	e.pending("older", "group", "1 min")
	s := &q.tables[0].round
	s.took = 0 // so the next time is now
	m.before = func() {
		e.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = 'outrider-queue' AND datname = current_database()`)
	}
	if rows, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: 10}); err == nil {
		t.Fatalf("the claim returned %d rows although its connection broke", len(rows))
	}
	s.read, s.took = time.Now(), time.Hour // so the next time is far away
	e.pending("younger", "group", "0 s")
	wantClaimed(t, q, "older younger")
}
