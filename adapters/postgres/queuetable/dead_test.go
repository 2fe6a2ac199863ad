package queuetable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// deadIDs pages through dead rows, a few at a time.
func deadIDs(t *testing.T, q *Queue, f adapters.DeadFilter) (ids []string, keys []adapters.DeadKey) {
	t.Helper()
	f.Limit = 2
	for {
		rows, err := q.Dead(t.Context(), f)
		pgtest.Must(t, err)
		if len(rows) == 0 {
			return ids, keys
		}
		for _, r := range rows {
			ids, keys = append(ids, r.Row.ID), append(keys, r.At)
		}
		f.After = rows[len(rows)-1].At
	}
}

// opened is a queue that is closed with the test.
func opened(t *testing.T, e *queueEnv) *Queue {
	t.Helper()
	q := e.queue()
	t.Cleanup(func() { pgtest.Must(t, q.Close()) })
	return q
}

func unrecorded(context.Context, int) error { return nil }

// Dead rows of both tables come once each, in a stable order, by every filter.
func TestDeadRowsAreFoundByEveryFilter(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	for i, row := range []struct{ id, group, status, text string }{
		{"a1", "g1", "FAILED", "answers 422"}, {"a2", "g1", "FAILED", "Answers 400"}, {"a3", "g2", "FAILED", "x"},
		{"a4", "g1", "PENDING", ""}, {"a5", "g1", "COMPLETED", "answers 422"}, {"a6", "", "FAILED", ""},
	} {
		e.each(`INSERT INTO {t} (id, type, message_group, payload, status, retry_count, created_at, processed_at, error_message)
			VALUES ($1, 'EVENT', nullif($2, ''), $5, $3, 3, timestamp '2026-01-01' + make_interval(mins => $6), timestamp '2026-02-01' + make_interval(mins => $6), $4)`,
			row.id, row.group, row.status, row.text, fmt.Sprintf(`{"type": "t%d"}`, i), i)
	}
	q := opened(t, e)
	for name, c := range map[string]struct {
		f    adapters.DeadFilter
		want []string
	}{
		"all":              {adapters.DeadFilter{}, []string{"a1", "a2", "a3", "a6", "a1", "a2", "a3", "a6"}},
		"group of a table": {adapters.DeadFilter{Group: "EVENT:g1"}, []string{"a1", "a2"}},
		"group":            {adapters.DeadFilter{Group: "g2"}, []string{"a3", "a3"}},
		"default group":    {adapters.DeadFilter{Group: "DISPATCH_JOB:default"}, []string{"a6"}},
		"id":               {adapters.DeadFilter{ID: "a2"}, []string{"a2", "a2"}},
		"no such id":       {adapters.DeadFilter{ID: "a4"}, nil},
		"error":            {adapters.DeadFilter{Error: "answers"}, []string{"a1", "a2", "a1", "a2"}},
		"before":           {adapters.DeadFilter{Before: time.Date(2026, 2, 1, 0, 0, 30, 0, time.Local)}, []string{"a1", "a1"}},
	} {
		if name == "before" {
			var zone string // of the session, in which the columns are
			pgtest.Must(t, e.pool.QueryRow(e.ctx, "SHOW timezone").Scan(&zone))
			loc, err := time.LoadLocation(zone)
			pgtest.Must(t, err)
			c.f.Before = time.Date(2026, 2, 1, 0, 0, 30, 0, loc)
		}
		if got, _ := deadIDs(t, q, c.f); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	rows, err := q.Dead(e.ctx, adapters.DeadFilter{ID: "a1", Payload: true})
	pgtest.Must(t, err)
	if r := rows[0]; r.Row.Type != "t0" || r.Row.Group != "EVENT:g1" || string(r.Row.Payload) != `{"type": "t0"}` || r.Attempts != 3 || r.Error != "answers 422" {
		t.Errorf("%+v", r)
	}
}

// A redriven row is as the document has one that waits: PENDING, with all its retries;
// what the original leaves when a row waits again, error_message and processed_at, stays. A
// row that is not dead is left alone, and nothing happens without a record.
func TestRedrivenRowsAreAsTheOriginalHasThem(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	table := e.tables[0].Name
	e.exec("INSERT INTO " + table + ` (id, type, message_group, payload, status, retry_count, created_at, processed_at, error_message)
		SELECT i::text, 'EVENT', 'g', '{}', CASE WHEN i < 4 THEN 'FAILED' ELSE 'COMPLETED' END, 3, '2026-01-01', '2026-01-02', 'why' FROM generate_series(1, 5) i`)
	q := opened(t, e)
	key := func(i int) adapters.DeadKey { return adapters.DeadKey{Table: table, Key: strconv.Itoa(i)} }
	refused := errors.New("no record")
	if n, err := q.ChangeDead(e.ctx, adapters.ParkedPurge, []adapters.DeadKey{key(1)}, func(context.Context, int) error { return refused }); n != 0 || !errors.Is(err, refused) {
		t.Errorf("changed %d without a record, %v", n, err)
	}
	recorded := 0
	n, err := q.ChangeDead(e.ctx, adapters.ParkedRedrive, []adapters.DeadKey{key(1), key(2), key(4)}, func(_ context.Context, n int) error { recorded = n; return nil })
	pgtest.Must(t, err)
	purged, err := q.ChangeDead(e.ctx, adapters.ParkedPurge, []adapters.DeadKey{key(1), key(3), key(5)}, unrecorded)
	pgtest.Must(t, err)
	var got string
	pgtest.Must(t, e.pool.QueryRow(e.ctx, `SELECT string_agg(concat_ws(' ', id, status, retry_count, created_at::date, processed_at::date, error_message), ', ' ORDER BY id) FROM `+table).Scan(&got))
	const want = "1 PENDING 0 2026-01-01 2026-01-02 why, 2 PENDING 0 2026-01-01 2026-01-02 why, 4 COMPLETED 3 2026-01-01 2026-01-02 why, 5 COMPLETED 3 2026-01-01 2026-01-02 why"
	if got != want || n != 2 || recorded != 2 || purged != 1 {
		t.Errorf("redrove %d, recorded %d, purged %d: %s", n, recorded, purged, got)
	}
	for _, r := range claimAll(t, q) {
		settle(t, q, adapters.ClaimResult{Claim: r.Claim, Outcome: outbox.OutcomeDelivered, Attempts: 0})
	}
	pgtest.Must(t, e.pool.QueryRow(e.ctx, "SELECT string_agg(id || status, ' ' ORDER BY id) FROM "+table).Scan(&got))
	if got != "1COMPLETED 2COMPLETED 4COMPLETED 5COMPLETED" {
		t.Error(got)
	}
}

// Two operators redrive while the queue claims and gives up on the same rows: each redrive
// counts once, each is claimed once, and none is left over.
func TestG3_RedriveBesideClaims(t *testing.T) {
	t.Parallel()
	for _, of := range []func(*queueEnv, testing.TB) *queueEnv{
		func(e *queueEnv, t testing.TB) *queueEnv { return e.flowCatalyst(t, true) },
		(*queueEnv).custom,
	} {
		e := of(newQueueEnv(t), t)
		table, rounds, rows := e.tables[0].Name, 3, 40
		e.fill(table, rows, 5, e.layout.Statuses.Pending)
		operators := [2]*Queue{opened(t, e), opened(t, e)}
		q := opened(t, e)
		var mu sync.Mutex
		redriven, claims := map[string]int{}, map[string]int{}
		for claimed := 0; claimed < rows*rounds; {
			taken, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: 7})
			pgtest.Must(t, err)
			var wg sync.WaitGroup
			for _, op := range operators { // while the claim is in flight
				_, keys := deadIDs(t, op, adapters.DeadFilter{})
				keys = slices.DeleteFunc(keys, func(k adapters.DeadKey) bool { return claims[k.Key] >= rounds })
				wg.Go(func() {
					for _, k := range keys {
						n, err := op.ChangeDead(e.ctx, adapters.ParkedRedrive, []adapters.DeadKey{k}, unrecorded)
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						redriven[k.Key] += n
						mu.Unlock()
					}
				})
			}
			var results []adapters.ClaimResult
			for _, r := range taken {
				claims[r.ID]++
				claimed++
				results = append(results, adapters.ClaimResult{Claim: r.Claim, Outcome: outbox.OutcomeDead, Attempts: 4, Error: "refused"})
			}
			lost, err := q.Settle(e.ctx, results)
			wg.Wait()
			if err != nil || len(lost) > 0 || t.Failed() {
				t.Fatalf("%d lost, %v", len(lost), err)
			}
		}
		for id, n := range claims {
			if n != rounds || redriven[id] != rounds-1 {
				t.Errorf("%s was claimed %d times and redriven %d times", id, n, redriven[id])
			}
		}
		if len(claims) != rows {
			t.Errorf("%d rows of %d were claimed", len(claims), rows)
		}
	}
}

// An operator redrives dead rows while a claimer, which remembers what it has looked at,
// claims and settles. Every redriven row is claimed again, and none twice.
func TestG3_G13_RedrivenRowsAreClaimedAgain(t *testing.T) {
	t.Parallel()
	for _, of := range []func(*queueEnv, testing.TB) *queueEnv{
		func(e *queueEnv, t testing.TB) *queueEnv { return e.flowCatalyst(t, true) },
		(*queueEnv).custom,
	} {
		e := of(newQueueEnv(t), t)
		const rounds, rows = 3, 40
		e.fill(e.tables[0].Name, rows, 5, e.layout.Statuses.Pending)
		op, q := opened(t, e), opened(t, e)
		redriven, claims := map[string]int{}, map[string]int{}
		ctx, cancel := context.WithCancel(e.ctx)
		var operator sync.WaitGroup
		operator.Go(func() {
			var former []adapters.DeadKey // most of these wait or are claimed by now
			for ctx.Err() == nil && !t.Failed() {
				_, keys := deadIDs(t, op, adapters.DeadFilter{})
				both := slices.Concat(former, keys)
				former = keys
				for _, k := range both {
					if redriven[k.Key] == rounds-1 {
						continue
					}
					n, err := op.ChangeDead(e.ctx, adapters.ParkedRedrive, []adapters.DeadKey{k}, unrecorded)
					if err != nil {
						t.Error(err)
					}
					redriven[k.Key] += n
				}
			}
		})
		for claimed := 0; claimed < rows*rounds && !t.Failed(); {
			taken, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: 7, Wants: 1})
			if err != nil {
				t.Error(err)
			}
			var results []adapters.ClaimResult
			for _, r := range taken {
				claims[r.ID]++
				claimed++
				results = append(results, adapters.ClaimResult{Claim: r.Claim, Outcome: outbox.OutcomeDead, Attempts: 4, Error: "refused"})
			}
			if lost, err := q.Settle(e.ctx, results); err != nil || len(lost) > 0 {
				t.Errorf("%d lost, %v", len(lost), err)
			}
		}
		cancel()
		operator.Wait()
		for id, n := range claims {
			if n != rounds || redriven[id] != rounds-1 {
				t.Errorf("%s was claimed %d times and redriven %d times", id, n, redriven[id])
			}
		}
		if len(claims) != rows {
			t.Errorf("%d rows of %d were claimed", len(claims), rows)
		}
	}
}

// A page costs the same with many finished and many dead rows as with few: it reads the
// dead ones in order from their own index, and no more of them than it has.
func TestG8_APageOfDeadRowsIsRead(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	table := e.tables[0].Name
	e.fill(table, 20_000, 100, "COMPLETED")
	e.fill(table, 5_000, 100, "FAILED")
	q := opened(t, e)
	rows, err := q.Dead(e.ctx, adapters.DeadFilter{Limit: 10})
	pgtest.Must(t, err)
	for name, f := range map[string]adapters.DeadFilter{"first": {Limit: 10}, "next": {Limit: 10, After: rows[9].At}} {
		text, args, _ := q.tables[0].sql.dead("EVENT", f)
		var plan []byte
		pgtest.Must(t, q.pool.QueryRow(e.ctx, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+text, args...).Scan(&plan))
		if read := gjson.GetBytes(plan, "0.Plan.Shared Hit Blocks").Int() + gjson.GetBytes(plan, "0.Plan.Shared Read Blocks").Int(); read > 40 {
			t.Errorf("%s: %d blocks were read for a page of 10:\n%s", name, read, plan)
		}
	}
}

// TestAChangeThatIsRepeatedIsRecordedOnce: a deadlock at the commit undoes a change that is recorded already.
func TestAChangeThatIsRepeatedIsRecordedOnce(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	e.exec(`INSERT INTO ` + e.tables[0].Name + ` (id, type, payload, status, created_at) VALUES ('a', 'EVENT', '{}', 'FAILED', now())`)
	e.exec(`CREATE SEQUENCE public.commits;
		CREATE FUNCTION deadlock() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
			IF nextval('public.commits') < 3 THEN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01'; END IF; RETURN NULL; END$$`)
	e.exec(`CREATE CONSTRAINT TRIGGER deadlock AFTER DELETE ON ` + e.tables[0].Name + ` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION deadlock()`)
	q := e.queue()
	t.Cleanup(func() { pgtest.Must(t, q.Close()) })
	recorded := 0
	n, err := q.ChangeDead(e.ctx, adapters.ParkedPurge, []adapters.DeadKey{{Table: e.tables[0].Name, Key: "a"}}, func(context.Context, int) error { recorded++; return nil })
	if err != nil || n != 1 || recorded != 1 || len(e.rows()) != 0 {
		t.Errorf("changed %d rows, recorded %d times, %v", n, recorded, err)
	}
}
