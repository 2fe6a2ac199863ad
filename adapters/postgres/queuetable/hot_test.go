package queuetable

import (
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

// hotEnv is a queue whose rows are inserted by transactions of its process.
type hotEnv struct {
	*queueEnv
	t *testing.T
	q *Queue
}

func newHotEnv(t *testing.T) *hotEnv {
	t.Helper()
	e := newQueueEnv(t).framework(t)
	h := &hotEnv{queueEnv: e, t: t, q: opened(t, e)}
	if got := claimAll(t, h.q); len(got) > 0 { // from now on the queue knows its table
		t.Fatalf("claimed %v", ids(got))
	}
	return h
}

// insert inserts rows of users, "id:user", in a transaction.
func (h *hotEnv) insert(tx pgx.Tx, rows ...string) adapters.HotInsert {
	h.t.Helper()
	values := make([]string, len(rows))
	for i, row := range rows {
		id, user, _ := strings.Cut(row, ":")
		values[i] = fmt.Sprintf(`('%s', 'Happened', 'User', nullif('%s', ''), '{"of": %q}', '{"k": "v"}', 0, clock_timestamp(), clock_timestamp() + interval '%d us')`, id, user, user, i)
	}
	in := h.q.Announce("INSERT INTO " + h.tables[0].Name + " (event_id, event_type, aggregate_type, aggregate_id, payload, headers, status, available_at, created_at) VALUES " +
		strings.Join(values, ", "))
	got, err := tx.Query(h.ctx, in.Statement())
	pgtest.Must(h.t, err)
	defer got.Close()
	for got.Next() {
		columns := make([]*string, len(got.RawValues()))
		to := make([]any, len(columns))
		for i := range columns {
			to[i] = &columns[i]
		}
		pgtest.Must(h.t, got.Scan(to...))
		in.Inserted(columns)
	}
	pgtest.Must(h.t, got.Err())
	return in
}

// commit inserts rows in a transaction of their own.
func (h *hotEnv) commit(rows ...string) adapters.HotInsert {
	h.t.Helper()
	tx := h.begin(h.t)
	in := h.insert(tx, rows...)
	pgtest.Must(h.t, tx.Commit(h.ctx))
	return in
}

// claim claims from memory, in a term.
func (h *hotEnv) claim(term uint64, in adapters.HotInsert) ([]*adapters.Row, int) {
	return h.q.ClaimHot(adapters.ClaimRequest{Slots: slots(), Terms: slices.Repeat([]uint64{term}, adapters.Slots), Wants: term}, in.Rows())
}

// want claims from memory, and compares what was claimed and what is left to a claim.
func (h *hotEnv) want(what string, in adapters.HotInsert, left int, want ...string) []*adapters.Row {
	h.t.Helper()
	rows, n := h.claim(0, in)
	if got := ids(rows); !slices.Equal(got, want) || n != left {
		h.t.Errorf("%s: claimed %v from memory, and %d are left to a claim; want %v and %d", what, got, n, want, left)
	}
	return rows
}

// A row that is claimed from memory is the row that a claim would read, is held as such, and is settled as such.
func TestHotRowsAreAsAClaimReadsThem(t *testing.T) {
	t.Parallel()
	h := newHotEnv(t)
	hot := h.want("first", h.commit("1:heron"), 0, "1")
	if again := claimAll(t, h.q); len(again) > 0 {
		t.Fatalf("a claim brings %v again", ids(again))
	}
	ended(t, h.q, outbox.OutcomeReleased, 0, time.Time{}, hot...)
	cold := claimAll(t, h.q)
	if len(cold) != 1 {
		t.Fatalf("claimed %v after the row went back", ids(cold))
	}
	a, b := *hot[0], *cold[0]
	a.Claim, b.Claim = nil, nil
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
		t.Errorf("from memory\n%+v, by a claim\n%+v", a, b)
	}
	ended(t, h.q, outbox.OutcomeDelivered, 0, time.Time{}, cold...)
	hot = h.want("no group", h.commit("2:"), 0, "2")
	ended(t, h.q, outbox.OutcomeDelivered, 0, time.Time{}, hot...)
	var done int
	pgtest.Must(t, h.pool.QueryRow(h.ctx, "SELECT count(*) FROM "+h.tables[0].Name+" WHERE status = 1").Scan(&done))
	if done != 2 {
		t.Errorf("%d rows are DONE, want 2", done)
	}
}

// Behind a row that may be unfinished nothing is claimed from memory; behind rows that are held, or done since, it is.
func TestG2_HotRowsWaitForWhatIsBeforeThem(t *testing.T) {
	t.Parallel()
	h := newHotEnv(t)
	h.event("cold", "User", "1", time.Second)
	h.want("behind a row of another process", h.commit("a:1", "b:2"), 1, "b")
	if got := ids(claimAll(t, h.q)); !slices.Equal(got, []string{"a", "cold"}) {
		t.Fatalf("claimed %v", got)
	}
	h.want("behind rows that are held", h.commit("c:1", "d:1"), 0, "c", "d")

	tx := h.begin(t)
	first, second := h.insert(tx, "e:3"), h.insert(tx, "f:3")
	pgtest.Must(t, tx.Commit(h.ctx))
	h.want("before the first row of its transaction", second, 1)
	e := h.want("the first row", first, 0, "e")
	ended(t, h.q, outbox.OutcomeDelivered, 0, time.Time{}, e...)
	h.want("the row that was left", h.commit("g:3"), 1)

	d := h.begin(t)
	in := h.insert(d, "h:2") // it sees b
	b := &adapters.Row{Claim: &adapters.Claim{Table: h.tables[0].Name, Key: "b"}}
	h.q.mu.Lock()
	b.Claim.Token = h.q.tables[0].holds["b"].token
	b.Slot = h.q.tables[0].holds["b"].group.slot
	h.q.mu.Unlock()
	ended(t, h.q, outbox.OutcomeDelivered, 0, time.Time{}, b)
	pgtest.Must(t, d.Commit(h.ctx))
	h.want("behind a row that became DONE since the INSERT", in, 0, "h")
}

// A row that is dead has been finished; one that was set to wait again since is before what comes later.
func TestG2_HotRowsWaitForRowsThatAreTriedAgain(t *testing.T) {
	t.Parallel()
	h := newHotEnv(t)
	a := h.want("a", h.commit("a:1"), 0, "a")
	ended(t, h.q, outbox.OutcomeRetry, 1, time.Now().Add(time.Hour), a...)
	h.want("behind a row in backoff", h.commit("b:1"), 1)
	c := h.want("c", h.commit("c:2"), 0, "c")
	ended(t, h.q, outbox.OutcomeDelivered, 0, time.Time{}, c...)
	h.each("UPDATE {t} t SET status = 0 WHERE event_id = 'c'") // by an operator
	h.want("behind a row that is to be sent again", h.commit("d:2"), 1)
}

// What a claim has found is not claimed from memory, however it ended.
func TestG3_AHotRowIsClaimedOnce(t *testing.T) {
	t.Parallel()
	h := newHotEnv(t)
	held, done := h.commit("a:1"), h.commit("b:2")
	rows := claimAll(t, h.q)
	for _, row := range rows {
		if row.ID == "b" {
			ended(t, h.q, outbox.OutcomeDelivered, 0, time.Time{}, row)
		}
	}
	h.want("held by a claim", held, 0)
	h.want("claimed and done", done, 0)
	twice := h.commit("c:3")
	h.want("once", twice, 0, "c")
	h.want("and no more", twice, 0)
	old := h.commit("d:4")
	old.Rows()[0].At = time.Now().Add(-2 * adapters.HotTTL)
	h.want("after its time", old, 0)
}

// Rows of a transaction that was rolled back, of a savepoint, of another isolation level and of another table are never claimed from memory.
func TestG1_OnlyWhatIsCertainIsClaimedFromMemory(t *testing.T) {
	t.Parallel()
	h := newHotEnv(t)
	tx := h.begin(t)
	in := h.insert(tx, "a:1")
	pgtest.Must(t, tx.Rollback(h.ctx))
	in.Forget()
	h.want("rolled back", in, 0)

	tx = h.begin(t)
	inner, err := tx.Begin(h.ctx)
	pgtest.Must(t, err)
	in = h.insert(inner, "b:9")
	pgtest.Must(t, inner.Commit(h.ctx)) // releases the savepoint
	kept := h.insert(tx, "c:1")
	pgtest.Must(t, tx.Commit(h.ctx))
	h.want("in a savepoint", in, 0)
	h.want("after the savepoint", kept, 0, "c")

	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		tx, err := h.pool.BeginTx(h.ctx, pgx.TxOptions{IsoLevel: level})
		pgtest.Must(t, err)
		in := h.insert(tx, "d"+string(level)+":2")
		pgtest.Must(t, tx.Commit(h.ctx))
		h.want(string(level), in, 0)
	}
	own := h.tables[0].Name
	h.exec("CREATE TABLE " + own + "_2 (LIKE " + own + " INCLUDING ALL)")
	h.tables[0].Name = own + "_2"
	h.want("another table", h.commit("e:3"), 0)
	h.tables[0].Name = own
	tx = h.begin(t)
	_, err = tx.Exec(h.ctx, "SELECT 1")
	pgtest.Must(t, err)
	later := h.insert(tx, "f:4")
	pgtest.Must(t, tx.Commit(h.ctx))
	h.want("a plain transaction", later, 0, "f")
}

// A lane that was lost and taken again in between, or a group that is left out, claims nothing from memory.
func TestG2_HotRowsOfAnotherTerm(t *testing.T) {
	t.Parallel()
	h := newHotEnv(t)
	if rows, n := h.claim(1, h.commit("a:1")); len(rows) != 1 || n != 0 {
		t.Fatalf("claimed %v, left %d", ids(rows), n)
	}
	if rows, n := h.claim(2, h.commit("b:1")); len(rows) != 0 || n != 1 {
		t.Errorf("claimed %v behind a row of a former session, left %d", ids(rows), n)
	}
	in := h.commit("c:2")
	rows, n := h.q.ClaimHot(adapters.ClaimRequest{Slots: slots(), Match: func(*adapters.Row) bool { return false }}, in.Rows())
	if len(rows) != 0 || n != 1 {
		t.Errorf("claimed %v that are not wanted, left %d", ids(rows), n)
	}
	in = h.commit("d:3", "e:3", "f:3")
	rows, n = h.q.ClaimHot(adapters.ClaimRequest{Slots: slots(), PerGroup: 2}, in.Rows())
	if got := ids(rows); !slices.Equal(got, []string{"d", "e"}) || n != 1 {
		t.Errorf("claimed %v, left %d; two of a group are allowed", got, n)
	}
}

// hotCost explains an INSERT of the hot path: the pages that it touches, and its plan. None: the hot path rests.
func (h *hotEnv) hotCost() (buffers int, plan string) {
	h.t.Helper()
	in := h.q.Announce("INSERT INTO " + h.tables[0].Name + ` (event_id, event_type, aggregate_type, aggregate_id, payload, status, available_at, created_at)
SELECT 'x' || clock_timestamp(), 'Happened', 'User', '7', '{}', 0, clock_timestamp(), clock_timestamp()`)
	if in == nil {
		return 0, ""
	}
	for range 2 { // the first one reads the catalogue
		tx := h.begin(h.t)
		rows, err := tx.Query(h.ctx, "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) "+in.Statement())
		pgtest.Must(h.t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		pgtest.Must(h.t, err)
		pgtest.Must(h.t, tx.Rollback(h.ctx))
		plan = strings.Join(lines, "\n")
	}
	_, hits, _ := strings.Cut(plan, "Buffers: shared ") // of the topmost node, with all below it
	hits, _, _ = strings.Cut(hits, "\n")
	for what := range strings.FieldsSeq(hits) {
		if kind, n, _ := strings.Cut(what, "="); kind == "hit" || kind == "read" {
			pages, err := strconv.Atoi(n)
			pgtest.Must(h.t, err)
			buffers += pages
		}
	}
	if buffers == 0 {
		h.t.Fatalf("no buffers in the plan:\n%s", plan)
	}
	return buffers, plan
}

// fill inserts rows of a status, of aggregates of a type.
func (h *hotEnv) fill(status int, aggregateType string, rows, groups int) {
	h.t.Helper()
	h.exec(fmt.Sprintf(`INSERT INTO %s (event_id, event_type, aggregate_type, aggregate_id, payload, status, available_at, created_at)
SELECT '%[2]s%[3]d' || lpad(i::text, 12, '0'), 'Happened', '%[2]s', i %% %[4]d, '{}', %[3]d, timestamptz '2026-01-01' + i * interval '1 ms', timestamptz '2026-01-01' + i * interval '1 ms'
FROM generate_series(1, %[5]d) AS i`, h.tables[0].Name, aggregateType, status, groups, rows))
}

// TestG8_AHotInsertIsFlat: what an INSERT reads of its group does not depend on how many rows are DONE, nor on how many of other groups wait. The
// session is the application's, whose plan may read all that waits when statistics say that nothing does: then the hot path rests.
func TestG8_AHotInsertIsFlat(t *testing.T) {
	t.Parallel()
	const done, waiting = 1, 0
	type rows struct {
		status, groups int
		of             string
	}
	for name, beside := range map[string][]rows{
		"done":                   {{done, 10, "User"}},
		"waiting":                {{waiting, 1000, "Order"}},
		"waiting in every group": {{waiting, 50_000, "Order"}, {waiting, 50_000, "Z"}},
		"done, then waiting":     {{done, 10, "User"}, {waiting, 1000, "Order"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHotEnv(t)
			table := h.tables[0].Name
			h.exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
			h.event("waits", "User", "7", time.Second)
			none, _ := h.hotCost()
			for _, b := range beside {
				h.fill(b.status, b.of, testenv.Size(20_000, pgtest.PlanRows), b.groups)
				h.wantFlat("stale", none)
				h.exec("UPDATE " + table + " SET status = 1 WHERE event_id = 'waits'") // statistics of a table that waits for nothing are the worst
				h.exec("ANALYZE " + table)
				h.exec("UPDATE " + table + " SET status = 0 WHERE event_id = 'waits'")
				h.wantFlat("fresh", none)
			}
		})
	}
}

// wantFlat checks what an INSERT costs after a claim has looked at it. With fresh statistics the hot path does not rest.
func (h *hotEnv) wantFlat(statistics string, none int) {
	h.t.Helper()
	h.guardAgain()
	_, err := h.q.Claim(h.ctx, adapters.ClaimRequest{Slots: slots(), Limit: 1})
	pgtest.Must(h.t, err)
	buffers, plan := h.hotCost()
	if h.t.Logf("%d pages, %s statistics", buffers, statistics); buffers == 0 && statistics == "fresh" {
		h.t.Error("the hot path rests though the statistics are fresh")
	}
	if buffers > none+20 || strings.Contains(plan, "Seq Scan on outbox_event") {
		h.t.Errorf("an INSERT touches %d pages with %s statistics, %d in an empty table:\n%s", buffers, statistics, none, plan)
	}
}

// guardAgain has the next claim or INSERT guarded, whenever the last one was.
func (h *hotEnv) guardAgain() {
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	h.q.hot.guarded = time.Time{}
}

// TestG8_TheHotPathIsGuardedWithoutClaims: while there is no room in memory no claim runs, and what waits grows. INSERTs have it looked at then, and
// the hot path rests until the statistics are fresh.
func TestG8_TheHotPathIsGuardedWithoutClaims(t *testing.T) {
	t.Parallel()
	h := newHotEnv(t)
	h.exec("ALTER TABLE " + h.tables[0].Name + " SET (autovacuum_enabled = off)")
	h.exec("ANALYZE " + h.tables[0].Name)
	rests := func() bool { return h.q.Announce("INSERT INTO "+h.tables[0].Name+" (event_id) VALUES ('x')") == nil }
	if rests() {
		t.Fatal("the hot path rests though nothing waits")
	}
	h.fill(0, "Order", 20_000, 1000)
	for _, want := range []bool{true, false} {
		for h.guardAgain(); rests() != want; h.guardAgain() {
			if time.Sleep(time.Millisecond); t.Context().Err() != nil {
				t.Fatalf("the hot path rests: %t, want %t", !want, want)
			}
		}
		h.exec("ANALYZE " + h.tables[0].Name)
	}
}
