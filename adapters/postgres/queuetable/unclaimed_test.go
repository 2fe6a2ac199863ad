package queuetable

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// framework makes the outbox framework's table with all indexes and lanes of the route "suite".
func (e *queueEnv) framework(t testing.TB) *queueEnv {
	t.Helper()
	e = e.claimless(t)
	_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
	pgtest.Must(t, err)
	e.exec("INSERT INTO " + e.fence.of(cursorTable).Sanitize() + " SELECT 'suite', s, 1 FROM generate_series(0, 15) s")
	return e
}

// event inserts a row of an aggregate, created so long ago.
func (e *queueEnv) event(id, aggregateType, aggregateID string, ago time.Duration) {
	e.t.Helper()
	e.each(`INSERT INTO {t} (event_id, event_type, aggregate_type, aggregate_id, payload, status, available_at, created_at)
VALUES ($1, 'Happened', nullif($2, ''), nullif($3, ''), '{}', 0, now() - make_interval(secs => $4), now() - make_interval(secs => $4))`,
		id, aggregateType, aggregateID, ago.Seconds())
}

// ended settles rows as the owner of their lanes.
func ended(t *testing.T, q *Queue, outcome outbox.Outcome, attempts int, at time.Time, rows ...*adapters.Row) {
	t.Helper()
	for _, row := range rows {
		settle(t, q, adapters.ClaimResult{Claim: row.Claim, Outcome: outcome, Attempts: attempts, At: at, Error: "refused",
			Lane: adapters.LaneRef{Route: "suite", Slot: row.Slot}, Epoch: 1})
	}
}

func ids(rows []*adapters.Row) (out []string) {
	for _, row := range rows {
		out = append(out, row.ID)
	}
	slices.Sort(out)
	return out
}

// The order is that of an aggregate, type and id: another type with the same id does not wait.
func TestG2_AnAggregateIsATypeAndAnId(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).framework(t)
	e.event("1", "User", "17", 4*time.Second)
	e.event("2", "User", "17", 3*time.Second)
	e.event("3", "Order", "17", 2*time.Second)
	e.event("4", "", "17", time.Second)
	e.event("5", "User", "", time.Second)
	q := opened(t, e)
	rows := claimAll(t, q)
	groups := map[string]string{}
	for _, row := range rows {
		groups[row.ID] = row.Group
		if row.AggregateType == "User" && row.AggregateID == "17" && row.Group != "User:17" {
			t.Errorf("row %s of User 17 is of group %q", row.ID, row.Group)
		}
	}
	if len(rows) != 5 || groups["3"] != "Order:17" || groups["4"] != "17" || groups["5"] != "" {
		t.Fatalf("groups %v", groups)
	}
	for _, row := range rows {
		if row.ID == "1" {
			ended(t, q, outbox.OutcomeRetry, 1, time.Now().Add(time.Hour), row)
		} else {
			ended(t, q, outbox.OutcomeReleased, 0, time.Time{}, row)
		}
	}
	if got := ids(claimAll(t, q)); !slices.Equal(got, []string{"3", "4", "5"}) {
		t.Errorf("claimed %v behind a row of User 17 that waits", got)
	}
}

// A group of which all rows were picked leaves the ring, and the same claim may find it again: in a backlog that is longer than a
// page everything is read again beside it. Its rows are not picked once more.
func TestG2_G3_AClaimTakesARowOnce(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).framework(t)
	q := opened(t, e)
	insert := func(from, to int) {
		e.t.Helper()
		e.each(`INSERT INTO {t} (event_id, event_type, aggregate_type, aggregate_id, payload, status, available_at, created_at)
SELECT lpad(i::text, 6, '0'), 'Happened', 'User', 'g' || i % 7, '{}', 0, now(), clock_timestamp() FROM generate_series($1::int, $2::int) i`, from, to)
	}
	const all = 3000
	insert(0, 99)
	seen, last := map[string]bool{}, map[string]string{}
	for len(seen) < all {
		rows, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: 150})
		pgtest.Must(t, err)
		for _, row := range rows {
			if seen[row.ID] || row.ID < last[row.Group] {
				t.Fatalf("row %s of %s comes after %s, or twice", row.ID, row.Group, last[row.Group])
			}
			seen[row.ID], last[row.Group] = true, row.ID
		}
		if len(seen) == 100 {
			insert(100, all-1)
		}
	}
}

// atLook runs something when a look has been asked for.
type atLook struct{ run func() }

func (l *atLook) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if run := l.run; run != nil && strings.Contains(d.SQL, "AS g(name, nulls, since, after, lim, n)") {
		l.run = nil
		run()
	}
	return ctx
}

func (*atLook) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// What an ended session has delivered is refused, because its lane has another epoch, while the next session looks: the
// look counts the row as held, and nothing behind it may be taken.
func TestG2_NothingIsClaimedBehindARowThatIsLostMeanwhile(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).framework(t)
	e.event("1", "User", "17", 2*time.Second)
	look := &atLook{}
	q, err := New(e.ctx, Config{URL: e.url, Tables: e.tables, Layout: e.layout, Fence: e.fence, Tracer: look})
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, q.Close()) })
	term := func(n uint64) adapters.ClaimRequest {
		return adapters.ClaimRequest{Slots: slots(), Terms: slices.Repeat([]uint64{n}, adapters.Slots), Limit: 10, Wants: n}
	}
	first, err := q.Claim(e.ctx, term(1))
	pgtest.Must(t, err)
	if len(first) != 1 {
		t.Fatalf("%d rows were claimed, want 1", len(first))
	}
	e.event("2", "User", "17", time.Second)

	settled := make(chan error, 1)
	look.run = func() {
		go func() {
			lost, err := q.Settle(e.ctx, []adapters.ClaimResult{{Claim: first[0].Claim, Outcome: outbox.OutcomeDelivered,
				Lane: adapters.LaneRef{Route: "suite", Slot: first[0].Slot}, Epoch: 99}})
			if err == nil && len(lost) != 1 {
				err = fmt.Errorf("%d claims are lost, want 1", len(lost))
			}
			settled <- err
		}()
		select {
		case err := <-settled: // it has not waited for the claim
			settled <- err
		case <-time.After(200 * time.Millisecond):
		}
	}
	rows, err := q.Claim(e.ctx, term(2))
	pgtest.Must(t, err)
	pgtest.Must(t, <-settled)
	rows = append(rows, claimAll(t, q)...)
	if got := ids(rows[:min(1, len(rows))]); len(rows) != 2 || got[0] != "1" {
		t.Errorf("%d rows were claimed, first %v; want row 1 and then row 2", len(rows), got)
	}
}

// 18.4: attempts grow, the status is RETRY; the tenth failure is DEAD, and the column stays at nine, as the original has it.
func TestOutboxFrameworkCountsAsTheOriginal(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).framework(t)
	e.event("1", "User", "17", time.Second)
	q := opened(t, e)
	for attempt := 1; attempt <= 10; attempt++ {
		rows := claimAll(t, q)
		if len(rows) != 1 || rows[0].Claim.Attempts != attempt-1 {
			t.Fatalf("before attempt %d: %+v", attempt, rows)
		}
		outcome, want := outbox.OutcomeRetry, fmt.Sprintf("2 %d refused", attempt)
		if attempt == 10 {
			outcome, want = outbox.OutcomeDead, "3 9 refused"
		}
		ended(t, q, outcome, attempt, time.Now().Add(-time.Second), rows...)
		var got string
		pgtest.Must(t, e.pool.QueryRow(e.ctx, "SELECT concat_ws(' ', status, attempts, last_error) FROM "+e.tables[0].Name).Scan(&got))
		if got != want {
			t.Errorf("after attempt %d the row is %q, want %q", attempt, got, want)
		}
	}
	if rows := claimAll(t, q); len(rows) > 0 {
		t.Errorf("a dead row was claimed")
	}
	dead, err := q.Dead(e.ctx, adapters.DeadFilter{Group: "User:17", Payload: true})
	pgtest.Must(t, err)
	if len(dead) != 1 || dead[0].Attempts != 9 || dead[0].Error != "refused" || dead[0].Row.Group != "User:17" || dead[0].Died.IsZero() {
		t.Fatalf("dead are %+v", dead)
	}
	n, err := q.ChangeDead(e.ctx, adapters.ParkedRedrive, []adapters.DeadKey{dead[0].At}, unrecorded)
	if rows := claimAll(t, q); n != 1 || err != nil || len(rows) != 1 || rows[0].Claim.Attempts != 0 {
		t.Errorf("after a redrive of %d (%v): %+v", n, err, rows)
	}
}

// Rows are left to who has them in memory while they are young, and only as long as somebody says so.
func TestSkipRecentHoldsWhileItIsOn(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).framework(t)
	e.event("old", "User", "1", time.Hour)
	e.event("young", "User", "2", 0)
	e.event("ahead", "User", "3", -time.Minute) // by the clock of another machine
	e.each("UPDATE {t} t SET available_at = now()")
	q := opened(t, e)
	q.SkipRecent(10 * time.Minute)
	if got := ids(claimAll(t, q)); !slices.Equal(got, []string{"old"}) {
		t.Errorf("claimed %v while young rows are to be passed over", got)
	}
	if due := q.Coverage().Due; due.IsZero() {
		t.Error("the queue does not say when it may find them")
	}
	q.SkipRecent(0)
	if got := ids(claimAll(t, q)); !slices.Equal(got, []string{"ahead", "young"}) {
		t.Errorf("claimed %v with nothing to be passed over", got)
	}
}

// A lane was lost and taken again between two claims, and another instance has left a row behind that is older than all that is
// known here: it is not overtaken by a newer row of its group, though everything is not read again before.
func TestG2_ALaneOfANewTermIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).framework(t)
	q := opened(t, e)
	terms := func(n uint64) []uint64 { return slices.Repeat([]uint64{n}, adapters.Slots) }
	claim := func(term uint64) []string {
		t.Helper()
		// Reading everything is out of turn, as it is behind much work.
		q.tables[0].round.read, q.tables[0].round.credit = time.Now().Add(time.Hour), 0
		rows, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Terms: terms(term), Wants: term, Limit: 10})
		pgtest.Must(t, err)
		got := ids(rows)
		ended(t, q, outbox.OutcomeDelivered, 0, time.Time{}, rows...)
		return got
	}
	e.event("b", "User", "1", 10*time.Minute)
	if got := claimAll(t, q); len(got) != 1 { // which reads everything
		t.Fatalf("claimed %v", ids(got))
	} else {
		ended(t, q, outbox.OutcomeDelivered, 0, time.Time{}, got...)
	}
	claim(1)
	e.event("a", "User", "1", time.Hour)
	e.event("c", "User", "1", time.Minute)
	if got := claim(2); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("claimed %v in a new term, want the older row before the newer one", got)
	}
}

// TestG8_ClaimsWithoutAStatusAreFlat: what a claim and its settlement read does not depend on how many rows are DONE.
func TestG8_ClaimsWithoutAStatusAreFlat(t *testing.T) {
	t.Parallel()
	e := &planEnv{queueEnv: newQueueEnv(t).framework(t)}
	table := e.tables[0].Name
	e.exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
	e.exec("ALTER TABLE " + table + " SET UNLOGGED")
	e.exec("INSERT INTO " + e.fence.of(cursorTable).Sanitize() + " VALUES ('', 0, 0)") // of results that name no lane
	e.reopen()
	t.Cleanup(func() { pgtest.Must(t, e.q.Close()) })
	made := 0
	fill := func(status, rows, groups int) {
		e.exec(strings.ReplaceAll(`INSERT INTO {t} (event_id, event_type, aggregate_type, aggregate_id, payload, status, available_at, created_at)
SELECT lpad((`+strconv.Itoa(made)+` + i)::text, 12, '0'), 'Happened', 'User', i % $3, '{}', $1, timestamptz '2026-01-01' + i * interval '1 ms', timestamptz '2026-01-01' + i * interval '1 ms'
FROM generate_series(1, $2) AS i`, "{t}", table), status, rows, groups)
		made += rows
	}
	// Index entries of delivered rows stay while a snapshot may need the rows: whose that is depends on what else runs on the server, and here
	// there is always one.
	measure := func(what string) (per float64, idle int) {
		fill(0, 1000, 50)
		old, err := e.pool.BeginTx(e.ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		pgtest.Must(t, err)
		_, err = old.Exec(e.ctx, "SELECT FROM "+table+" LIMIT 1")
		pgtest.Must(t, err)
		per = e.claimFlat(what, 1000, 200)
		pgtest.Must(t, old.Rollback(e.ctx))
		return per, e.idleFlat(what, 200)
	}
	none, idle := measure("no row is DONE")
	e.exec("ANALYZE " + table)
	fill(1, testenv.Size(pgtest.VariantRows, pgtest.PlanRows), 200)
	many, manyIdle := measure("many rows are DONE")
	e.exec("ANALYZE " + table)
	fresh, freshIdle := measure("fresh statistics")
	if most := max(many, fresh); most > 1.2*none || max(manyIdle, freshIdle) > idle+5 {
		t.Errorf("%.2f and %.2f buffers per row, %d and %d when idle, with many rows that are DONE; %.2f and %d without", many, fresh, manyIdle, freshIdle, none, idle)
	}
}

// init --indexes makes what the original's index does not serve, beside writers, and in place of what a failed attempt left.
func TestInitIndexesOfATableInUse(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).claimless(t)
	var said []string
	say := func(text string) { said = append(said, text) }
	did, err := InitIndexes(e.ctx, e.pool, e.layout, say, append(slices.Clone(e.tables), Table{Name: "not_there"})...)
	pgtest.Must(t, err)
	if len(did) != 3 || len(said) != 3 {
		t.Errorf("did %q, said %q; want three indexes", did, said)
	}
	q := opened(t, e)
	pgtest.Must(t, q.Check(e.ctx))
	e.exec("UPDATE pg_index SET indisvalid = false WHERE indexrelid = '" + strings.Split(e.tables[0].Name, ".")[0] + ".outbox_event_outrider_group_idx'::regclass")
	if did, err = InitIndexes(e.ctx, e.pool, e.layout, say, e.tables...); err != nil || len(did) != 1 {
		t.Errorf("did %q, %v; want the index that was not valid", did, err)
	}
	if did, err = InitIndexes(e.ctx, e.pool, e.layout, say, e.tables...); err != nil || len(did) != 0 {
		t.Errorf("did %q, %v; want nothing", did, err)
	}
	pgtest.Must(t, q.Check(e.ctx))
}

// A settle locks lanes in the order in which operators' commands do, whatever it writes: otherwise they would wait for each other. It
// waits for the lower of two lanes, and the higher one is free meanwhile.
func TestG13_ASettleLocksLanesInTheOrderOfCommands(t *testing.T) {
	t.Parallel()
	const low, high = 3, 9
	for name, second := range map[string]outbox.Outcome{"one statement": outbox.OutcomeDelivered, "two statements": outbox.OutcomeRetry} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newQueueEnv(t).framework(t)
			e.event("1", "User", "17", 2*time.Second)
			e.event("2", "User", "18", time.Second)
			q := opened(t, e)
			rows := claimAll(t, q)
			if len(rows) != 2 {
				t.Fatalf("%d rows were claimed, want 2", len(rows))
			}
			command, err := e.pool.Begin(e.ctx)
			pgtest.Must(t, err)
			defer func() { _ = command.Rollback(context.WithoutCancel(e.ctx)) }() // after a failure
			lock := "SELECT FROM " + e.fence.of(cursorTable).Sanitize() + " WHERE route = 'suite' AND slot = $1 FOR UPDATE NOWAIT"
			_, err = command.Exec(e.ctx, lock, low)
			pgtest.Must(t, err)
			settled := make(chan error, 1)
			go func() {
				lost, err := q.Settle(e.ctx, []adapters.ClaimResult{
					{Claim: rows[0].Claim, Outcome: outbox.OutcomeDelivered, Lane: adapters.LaneRef{Route: "suite", Slot: high}, Epoch: 1},
					{Claim: rows[1].Claim, Outcome: second, Attempts: 1, Error: "refused", Lane: adapters.LaneRef{Route: "suite", Slot: low}, Epoch: 1},
				})
				if err == nil && len(lost) > 0 {
					err = fmt.Errorf("%d claims are lost, want none", len(lost))
				}
				settled <- err
			}()
			for waits := false; !waits; time.Sleep(time.Millisecond) {
				pgtest.Must(t, e.pool.QueryRow(e.ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid)))", command.Conn().PgConn().PID()).Scan(&waits))
			}
			if _, err := command.Exec(e.ctx, lock, high); err != nil {
				t.Errorf("the settle waits for lane %d and holds lane %d: %v", low, high, err)
			}
			pgtest.Must(t, command.Rollback(e.ctx))
			pgtest.Must(t, <-settled)
		})
	}
}

// A row that somebody ends while it is delivered is lost, and its delivery rolls back. If it waits again before that is settled, it is
// delivered again, not marked as done.
func TestG1_ARowThatIsLostAndWaitsAgainIsDelivered(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).framework(t)
	e.event("1", "User", "17", 4*time.Second)
	e.event("2", "User", "17", 3*time.Second)
	q := opened(t, e)
	rows := claimAll(t, q)
	var results []adapters.ClaimResult
	for _, row := range rows {
		results = append(results, adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDelivered, Lane: adapters.LaneRef{Route: "suite", Slot: row.Slot}, Epoch: 1})
	}
	status := func(n int) { e.each("UPDATE {t} SET status = $1 WHERE event_id = '1'", n) }
	status(3)
	lost, err := q.Transact(e.ctx, results, func(context.Context, any) error { return nil })
	pgtest.Must(t, err)
	if len(lost) != 1 || lost[0].Key != "1" {
		t.Fatalf("lost %v, want row 1", lost)
	}
	status(0)
	results[0].Outcome, results[1].Outcome = outbox.OutcomeSkipped, outbox.OutcomeReleased
	lost, err = q.Settle(e.ctx, results)
	pgtest.Must(t, err)
	if len(lost) != 1 || lost[0].Key != "1" {
		t.Errorf("lost %v, want row 1: its claim has ended", lost)
	}
	if got := ids(claimAll(t, q)); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("claimed %v, want both rows: none was delivered", got)
	}
}
