package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/internal/faults/check"
)

// eventStore is a database of Crablet's.
type eventStore struct {
	*database
	crabletVersion
}

// crabletVersion is a version of Crablet: its tables, and the layout that reads them.
type crabletVersion struct{ layout, tables, events, progress string }

// The versions.
var (
	crabletV1 = crabletVersion{"crablet", crabletTables, "events", "outbox_topic_progress"}
	crabletV2 = crabletVersion{"crablet-v2", crabletV2Tables, "crablet_events", "crablet_outbox_topic_progress"}
)

const (
	crabletTables = `
CREATE TABLE events (type VARCHAR(64) NOT NULL, tags TEXT[] NOT NULL, data JSON NOT NULL, transaction_id xid8 NOT NULL,
    position BIGSERIAL NOT NULL PRIMARY KEY, occurred_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX idx_events_transaction_position_btree ON events (transaction_id, position);
CREATE TABLE outbox_topic_progress (topic VARCHAR(100) NOT NULL, publisher VARCHAR(100) NOT NULL, last_position BIGINT NOT NULL DEFAULT 0,
    last_published_at TIMESTAMPTZ, status VARCHAR(20) NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED', 'FAILED')),
    error_count INT NOT NULL DEFAULT 0, last_error TEXT, updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    leader_instance VARCHAR(255), leader_since TIMESTAMPTZ, leader_heartbeat TIMESTAMPTZ, PRIMARY KEY (topic, publisher))`

	crabletV2Tables = `
CREATE TABLE crablet_events (type TEXT NOT NULL, tags TEXT[] NOT NULL, data JSONB NOT NULL, transaction_id xid8 NOT NULL,
    position BIGSERIAL NOT NULL PRIMARY KEY, occurred_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    correlation_id UUID DEFAULT gen_random_uuid(), causation_id BIGINT);
CREATE INDEX ON crablet_events (transaction_id, position);
CREATE TABLE crablet_outbox_topic_progress (topic TEXT NOT NULL, publisher TEXT NOT NULL, last_position BIGINT NOT NULL DEFAULT 0,
    last_published_at TIMESTAMPTZ, status TEXT NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED', 'FAILED')),
    error_count INT NOT NULL DEFAULT 0, last_error TEXT, updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    leader_instance TEXT, leader_since TIMESTAMPTZ, leader_heartbeat TIMESTAMPTZ, PRIMARY KEY (topic, publisher))`
)

// newEventStore makes a database with the tables of a version.
func newEventStore(t *testing.T, v crabletVersion) eventStore {
	t.Helper()
	s := eventStore{newDatabase(t), v}
	s.exec(v.tables)
	return s
}

// appendEvents appends events of a wallet in one transaction, which it may hold open or roll back. Writers of a wallet take turns.
func (s eventStore) appendEvents(ctx context.Context, wallet string, n int, open time.Duration, undo bool) error {
	tx, err := s.pool.Begin(context.WithoutCancel(ctx)) // a commit that is not waited for could come after the comparison
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing after a commit
	if _, err := tx.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_xact_lock(hashtext($1))", wallet); err != nil {
		return err
	}
	for range n {
		if _, err := tx.Exec(context.WithoutCancel(ctx), `INSERT INTO `+s.events+` (type, tags, data, transaction_id)
VALUES ('Moved', ARRAY['wallet_id=' || $1::text], json_build_object('id', $2::text, 'group', $1::text), pg_current_xact_id())`, wallet, ulid.Make().String()); err != nil {
			return err
		}
	}
	if open > 0 {
		pause(ctx, open)
	}
	if undo {
		return nil
	}
	return tx.Commit(context.WithoutCancel(ctx))
}

// write appends from 8 transactions at a time until stop is called.
func (s eventStore) write() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				open := time.Duration(rand.IntN(3)) * time.Millisecond
				if n%10 == i {
					open = 300 * time.Millisecond
				}
				err := s.appendEvents(ctx, fmt.Sprint("w", rand.IntN(12)), 1+rand.IntN(4), open, rand.IntN(10) == 0)
				if err != nil && ctx.Err() == nil {
					s.t.Errorf("writer %d: %v", i, err)
					return
				}
				pause(ctx, 10*time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// committed returns what was committed.
func (s eventStore) committed() []check.Row {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT data->>'id', data->>'group', position FROM `+s.events)
	must(s.t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[check.Row])
	must(s.t, err)
	return out
}

// covered returns the newest events up to last_position that the route's cursors had seen when it was written: those are delivered.
func (s eventStore) covered() (ids []string) {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT e.data->>'id' FROM `+s.progress+` p JOIN `+s.events+` e ON e.position <= p.last_position AND e.position > p.last_position - 300
WHERE NOT EXISTS (SELECT FROM outrider_cursor c WHERE c.route = 'wallets'
    AND NOT (c.snapshot <> '' AND pg_visible_in_snapshot(e.transaction_id, nullif(c.snapshot, '')::pg_snapshot)))`)
	must(s.t, err)
	ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	must(s.t, err)
	return ids
}

// Two instances are killed again and again under 8 writers, late commits and rollbacks: nothing is lost, events arrive in the order of their
// visibility, and last_position is never beyond an event that was not delivered.
func TestG1_G2_G3_CrabletKillLoop(t *testing.T) {
	t.Parallel()
	for _, v := range []crabletVersion{crabletV1, crabletV2} {
		t.Run(v.layout, func(t *testing.T) {
			t.Parallel()
			crabletKillLoop(t, v)
		})
	}
}

func crabletKillLoop(t *testing.T, v crabletVersion) {
	s := newEventStore(t, v)
	r := receive(t, nil)
	config := fmt.Sprintf(`settle_interval: 20ms
lease: 5s
admin: {listen: off}
sources: {events: {type: postgres, url: %q, layout: %s, poll: {max: 20ms}}}
destinations: {wallets: {type: http, url: %q, batch: {whole: true}}}
routes: {wallets: {from: events, to: wallets, window: 256, match: {tags: {all: [wallet_id]}}, progress: {topic: wallets, publisher: Http}}}
`, s.url, s.layout, r.url())
	stop := s.write()
	pair := []*relay{start(t, config), start(t, config)}
	checked, kills := 0, 0
	for range rounds(t, 4, 50) {
		kills++
		before := r.arrived()
		until(t, "one of them delivers", func() bool { return r.arrived() > before })
		pause(t.Context(), rand.N(200*time.Millisecond))
		checked += s.compare(r)
		n := rand.IntN(2)
		pair[n].kill()
		checked += s.compare(r)
		pair[n] = start(t, config)
	}
	stop()
	rows := s.committed()
	until(t, "everything is delivered", func() bool { return r.arrived() >= len(rows) })
	for _, p := range pair {
		p.says("leading: acquired the lock|standing by") // one that has just begun may not be asked to end yet
		p.stop()
	}
	report := check.Compare(s.committed(), r.all()...)
	tell(t, fmt.Sprintf("%d kills of 2 instances; last_position compared with %d deliveries", kills, checked), report, stopwatch{})
	if !report.Clean() {
		t.Errorf("not clean: %v", report)
	}
	if last, largest := one[int64](s.database, `SELECT last_position FROM `+s.progress), one[int64](s.database, `SELECT max(position) FROM `+s.events); last < largest {
		t.Errorf("last_position is %d at the end, want %d", last, largest)
	}
	if checked == 0 {
		t.Error("last_position never moved while it was looked at")
	}
}

// compare reports an event up to last_position that was not delivered, and returns the number of events that it has checked.
func (s eventStore) compare(r *receiver) int {
	s.t.Helper()
	ids := s.covered()
	delivered := map[string]bool{}
	for _, stream := range r.all() {
		for _, d := range stream {
			delivered[d.ID] = true
		}
	}
	for _, id := range ids {
		if !delivered[id] {
			s.t.Errorf("last_position is beyond event %s, which was not delivered", id)
		}
	}
	return len(ids)
}
