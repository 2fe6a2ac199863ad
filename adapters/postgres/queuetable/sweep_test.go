package queuetable

import (
	"slices"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// take claims and settles once, in the only table that has rows, and returns the
// keys of what was claimed.
func (e *queueEnv) take(q *Queue, req adapters.ClaimRequest) (keys []string, bytes int64) {
	e.t.Helper()
	req.Slots = slots()
	claimed, err := q.Claim(e.ctx, req)
	pgtest.Must(e.t, err)
	for _, row := range claimed {
		keys, bytes = append(keys, row.ID), bytes+int64(len(row.Payload))
	}
	if lost := settleAll(e.t, q, claimed); lost != "" {
		e.t.Fatalf("settle: %s were lost", lost)
	}
	return keys, bytes
}

// hold marks the row of the group "held" as somebody else's.
func (e *queueEnv) hold(table string) {
	e.t.Helper()
	e.exec(e.sql(table, "UPDATE {t} SET status = 'PROCESSING', processed_at = now() WHERE message_group = 'held'"))
}

// fillAround is a backlog of an hour, with a row of the group "held" amid it.
func (e *queueEnv) fillAround(table string, backlog int) {
	e.t.Helper()
	e.fill(table, backlog, 7, "PENDING")
	e.exec("UPDATE "+table+" SET created_at = localtimestamp - interval '2 hours' + id::int * interval '1 hour' / $1", backlog)
	e.exec(e.sql(table, "UPDATE {t} SET message_group = 'held' WHERE id::int = $1"), backlog/2)
}

// TestG2_WhatOthersHoldEndsAGroupAfterASweep: a row that another processor holds,
// or left behind, is seen although the index by age has only what waits.
func TestG2_WhatOthersHoldEndsAGroupAfterASweep(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	const backlog = 10
	table, known := e.tables[0].Name, q.tables[0]
	e.fillAround(table, backlog)
	e.hold(table)
	for done := 0; done < backlog-1 || known.readBefore == unknownSince; {
		keys, _ := e.take(q, adapters.ClaimRequest{Limit: 500})
		done += len(keys)
	}
	if known.heldAged || !known.aged {
		t.Fatal("the index by age is not the one that this is about")
	}
	e.exec("INSERT INTO " + table + ` (id, type, message_group, payload, status, created_at)
		VALUES ('younger', 'EVENT', 'held', '{}', 'PENDING', localtimestamp)`)
	for range 3 {
		if keys, _ := e.take(q, adapters.ClaimRequest{Limit: 500}); len(keys) > 0 {
			t.Fatalf("%v was claimed behind a row that somebody else holds", keys)
		}
	}
	e.exec("UPDATE " + table + " SET status = 'COMPLETED' WHERE status = 'PROCESSING'")
	if keys, _ := e.take(q, adapters.ClaimRequest{Limit: 500}); len(keys) != 1 || keys[0] != "younger" {
		t.Fatalf("%v was claimed after the older row was done, want the younger one", keys)
	}
}

// TestG2_ASweepFindsWhatIsClaimedBetweenItsPages by somebody else: neither the
// first page has it, which lists what is being processed, nor that of its age.
func TestG2_ASweepFindsWhatIsClaimedBetweenItsPages(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	table, known := e.tables[0].Name, q.tables[0]
	e.fillAround(table, 3*newestPage)
	pgtest.Must(t, q.describe(e.ctx, known))
	d := discovery{q: q, table: known}
	round := func() {
		_, err := d.roundPage(e.ctx)
		pgtest.Must(t, err)
	}
	round()
	if known.known["=held"] != nil {
		t.Fatal("the row is on the first page, so that this shows nothing")
	}
	e.hold(table)
	for known.round.midway {
		round()
	}
	if known.known["=held"] == nil {
		t.Error("everything was read, and the group of a row that somebody claimed meanwhile is not known")
	}
}

// TestG6_ANewGroupWaitsForNoBacklog: the groups that are known have more than
// enough for every claim, and what they have would take many pages to read.
func TestG6_ANewGroupWaitsForNoBacklog(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	table := e.tables[0].Name
	e.fill(table, 30*newestPage, 5, "PENDING")
	for range 2 {
		e.take(q, adapters.ClaimRequest{Limit: 500})
	}
	e.fill(table, 1, 1, "PENDING") // its name is that of a group with a backlog
	e.exec("UPDATE " + table + " SET message_group = 'new' WHERE id = (SELECT max(id) FROM " + table + ")")
	const turns = 4 // of five groups, five in a claim, and then the new one
	for range turns {
		keys, _ := e.take(q, adapters.ClaimRequest{Limit: 500})
		if slices.Contains(keys, "0000000030001") {
			return
		}
	}
	t.Errorf("the row of a new group was not among %d claims of 500 while 30 pages of others waited", turns)
}

// TestG7_ALookKeepsWhatFits: also when payloads become much larger than those before.
func TestG7_ALookKeepsWhatFits(t *testing.T) {
	t.Parallel()
	const large, budget = 100_000, 350_000
	e := newQueueEnv(t).flowCatalyst(t, true)
	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	table := e.tables[0].Name
	e.fill(table, 20, 2, "PENDING")
	e.take(q, adapters.ClaimRequest{Limit: 100, Bytes: budget})
	e.fill(table, 20, 2, "PENDING")
	e.exec("UPDATE "+table+" SET payload = json_build_object('type', 'large', 'padding', repeat('x', $1)) WHERE status = 'PENDING'", large)
	for done := 0; done < 20; {
		keys, bytes := e.take(q, adapters.ClaimRequest{Limit: 100, Bytes: budget})
		if len(keys) != 2 && len(keys) != 3 || bytes > budget {
			t.Fatalf("%d rows of %d bytes were claimed with room for %d", len(keys), bytes, budget)
		}
		done += len(keys)
	}
}
