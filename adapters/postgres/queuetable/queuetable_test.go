package queuetable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// claimAll claims until nothing comes any more.
func claimAll(t *testing.T, q *Queue) (rows []*adapters.Row) {
	t.Helper()
	for {
		more, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: slots(), Limit: 500})
		pgtest.Must(t, err)
		if len(more) == 0 {
			return rows
		}
		rows = append(rows, more...)
	}
}

// settle writes one outcome.
func settle(t *testing.T, q *Queue, r adapters.ClaimResult) {
	t.Helper()
	lost, err := q.Settle(t.Context(), []adapters.ClaimResult{r})
	if err != nil || len(lost) > 0 {
		t.Fatalf("settle: %d lost, %v", len(lost), err)
	}
}

// TestFlowCatalystRowsAreAsTheOriginalWritesThem follows rows through all
// statuses of the document, column by column.
func TestFlowCatalystRowsAreAsTheOriginalWritesThem(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, false)
	client, err := outbox.NewFlowCatalyst(outbox.FlowCatalystConfig{Events: e.tables[0].Name, DispatchJobs: e.tables[1].Name})
	pgtest.Must(t, err)
	var ids []string
	pgtest.Must(t, pgx.BeginFunc(e.ctx, e.pool, func(tx pgx.Tx) (err error) {
		ids, err = client.Publish(e.ctx, tx,
			outbox.FlowCatalystItem{Group: "order-1", Payload: []byte(`{"type": "order.created",  "n": 1}`)},
			outbox.FlowCatalystItem{Payload: []byte(`{"n": 2}`)},
			outbox.FlowCatalystItem{Kind: outbox.FlowCatalystDispatchJob, Group: "order-1", Payload: []byte(`{"type": 3}`)})
		return err
	}))
	type row struct {
		Type, Status string
		Group, Error *string
		Payload      string
		Retries      int
		Created      time.Time
		Processed    *time.Time
	}
	read := func(table int, id string) (r row) {
		t.Helper()
		pgtest.Must(t, e.pool.QueryRow(e.ctx, "SELECT type, status, message_group, error_message, payload, retry_count, created_at, processed_at FROM "+
			e.tables[table].Name+" WHERE id = $1", id).Scan(&r.Type, &r.Status, &r.Group, &r.Error, &r.Payload, &r.Retries, &r.Created, &r.Processed))
		return r
	}
	if r := read(0, ids[0]); r.Type != "EVENT" || r.Status != "PENDING" || *r.Group != "order-1" || r.Payload != `{"type": "order.created",  "n": 1}` ||
		r.Processed != nil || r.Error != nil || r.Retries != 0 || time.Since(r.Created) > time.Hour {
		t.Errorf("published %+v", r)
	}
	if r := read(0, ids[1]); r.Group != nil {
		t.Errorf("no group is %q", *r.Group)
	}
	if r := read(1, ids[2]); r.Type != "DISPATCH_JOB" {
		t.Errorf("published %+v", r)
	}

	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	pgtest.Must(t, q.Check(e.ctx))
	rows := claimAll(t, q)
	slices.SortFunc(rows, func(a, b *adapters.Row) int { return strings.Compare(a.ID, b.ID) })
	got := make([][3]string, len(rows))
	for i, r := range rows {
		got[i] = [3]string{r.Kind, r.Group, r.Type}
		meta := adapters.NewMessage(r, "x/00").Metadata
		if meta[outbox.MetaKind] != r.Kind || meta[outbox.MetaGroup] != r.Group {
			t.Errorf("metadata %v", meta)
		}
	}
	want := [][3]string{{"EVENT", "EVENT:order-1", "order.created"}, {"EVENT", "EVENT:default", "EVENT"}, {"DISPATCH_JOB", "DISPATCH_JOB:order-1", "DISPATCH_JOB"}}
	if !slices.Equal(got, want) {
		t.Fatalf("claimed %v, want %v", got, want)
	}
	claimed := read(0, ids[0])
	if claimed.Status != "PROCESSING" || claimed.Processed == nil {
		t.Errorf("claimed %+v", claimed)
	}
	settle(t, q, adapters.ClaimResult{Claim: rows[0].Claim, Outcome: outbox.OutcomeDelivered})
	settle(t, q, adapters.ClaimResult{Claim: rows[1].Claim, Outcome: outbox.OutcomeRetry, Attempts: 1, Error: "500", At: time.Now().Add(time.Hour)})
	settle(t, q, adapters.ClaimResult{Claim: rows[2].Claim, Outcome: outbox.OutcomeDead, Attempts: 4, Error: "status 500"})
	if r := read(0, ids[0]); r.Status != "COMPLETED" || !r.Processed.After(*claimed.Processed) || r.Retries != 0 || r.Error != nil {
		t.Errorf("delivered: %+v", r)
	}
	if r := read(0, ids[1]); r.Status != "PENDING" || r.Retries != 1 || r.Error != nil {
		t.Errorf("to be retried: %+v", r)
	}
	if r := read(1, ids[2]); r.Status != "FAILED" || r.Retries != 3 || r.Error == nil || *r.Error != "status 500" {
		t.Errorf("failed: %+v", r)
	}
}

func TestFlowCatalystPublishRefuses(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, false)
	client, err := outbox.NewFlowCatalyst(outbox.FlowCatalystConfig{Events: e.tables[0].Name, DispatchJobs: e.tables[1].Name})
	pgtest.Must(t, err)
	db, err := sql.Open("pgx", e.url)
	pgtest.Must(t, err)
	defer func() { pgtest.Must(t, db.Close()) }()
	_, err = client.Publish(e.ctx, db, outbox.FlowCatalystItem{Payload: []byte("{}")})
	if !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("published without a transaction: %v", err)
	}
	tx, err := db.BeginTx(e.ctx, nil)
	pgtest.Must(t, err)
	for want, item := range map[string]outbox.FlowCatalystItem{
		"no TSID": {ID: "x", Payload: []byte("{}")}, "255": {Group: strings.Repeat("é", 256), Payload: []byte("{}")},
		"not valid JSON": {Payload: []byte("{")}, "EVENT and DISPATCH_JOB": {Kind: "JOB", Payload: []byte("{}")},
		"can store": {Group: "a\x00", Payload: []byte("{}")}, "limit": {Payload: []byte(`"` + strings.Repeat("x", outbox.MaxPayloadBytes) + `"`)},
	} {
		_, err := client.Publish(e.ctx, tx, outbox.FlowCatalystItem{Payload: []byte("{}")}, item)
		pgtest.WantError(t, err, want, "item 2 of 2")
	}
	ids, err := client.Publish(e.ctx, tx, outbox.FlowCatalystItem{ID: "0HZXEQ5Y8JY5Z", Group: `a "b" {c}`, Payload: []byte(`{"s": "\\ \" {}"}`)})
	pgtest.Must(t, err)
	pgtest.Must(t, tx.Commit())
	rows := e.rows()
	if len(rows) != 1 || rows[0].Key != ids[0] || rows[0].Group != `a "b" {c}` || rows[0].Payload != `{"s": "\\ \" {}"}` {
		t.Errorf("stored %+v", rows)
	}
}

// TestG1_CrashBetweenClaimAndSettle: what a process held is claimed by another
// one after the timeout, in order, and before what came later.
func TestG1_CrashBetweenClaimAndSettle(t *testing.T) {
	t.Parallel()
	for name, ours := range map[string]bool{"original index": false, "own indexes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newQueueEnv(t).flowCatalyst(t, ours)
			e.fill(e.tables[0].Name, 100, 5, "PENDING")
			q := e.queue()
			first, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: 60})
			pgtest.Must(t, err)
			pgtest.Must(t, q.Close()) // and all that it knew is gone

			q = e.queue()
			defer func() { pgtest.Must(t, q.Close()) }()
			last := map[string]string{}
			check := func(rows []*adapters.Row) {
				for _, row := range rows {
					if row.ID <= last[row.Group] {
						t.Errorf("row %s came after %s", row.ID, last[row.Group])
					}
					last[row.Group] = row.ID
				}
			}
			held := map[string]bool{}
			for _, row := range first {
				held[row.Group] = true
			}
			for _, row := range claimAll(t, q) {
				if held[row.Group] {
					t.Errorf("row %s was claimed behind rows that a dead process holds", row.ID)
				}
			}
			n, err := q.Recover(e.ctx)
			if err != nil || n != 0 {
				t.Fatalf("recovered %d at once, %v", n, err)
			}
			e.exec("UPDATE " + e.tables[0].Name + " SET processed_at = processed_at - interval '301 s' WHERE status = 'PROCESSING'")
			n, err = q.Recover(e.ctx)
			if err != nil || n != len(first) {
				t.Fatalf("recovered %d, %v; want %d", n, err, len(first))
			}
			again := claimAll(t, q)
			check(again)
			if len(again) < len(first) {
				t.Errorf("%d rows were claimed, want the %d of the dead process at least", len(again), len(first))
			}
		})
	}
}

// TestG1_CancelledClaim: a claim that is called off claims nothing, or what it
// claimed is recovered.
func TestG1_CancelledClaim(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	e.fill(e.tables[0].Name, 10, 2, "PENDING")
	tx, err := e.pool.Begin(e.ctx) // makes the claim wait before it begins
	pgtest.Must(t, err)
	_, err = tx.Exec(e.ctx, "LOCK TABLE "+e.tables[0].Name+" IN ACCESS EXCLUSIVE MODE")
	pgtest.Must(t, err)
	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	ctx, cancel := context.WithTimeout(e.ctx, 100*time.Millisecond)
	defer cancel()
	if rows, err := q.Claim(ctx, adapters.ClaimRequest{Slots: slots(), Limit: 500}); err == nil {
		t.Errorf("%d rows were claimed from a locked table", len(rows))
	}
	pgtest.Must(t, tx.Rollback(e.ctx))
	if rows := claimAll(t, q); len(rows) != 10 {
		t.Errorf("%d rows were claimed then, want 10", len(rows))
	}
}

// TestExtendMovesTheTimeoutOn: an extended row is not stuck to anybody.
func TestExtendMovesTheTimeoutOn(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, false)
	e.fill(e.tables[0].Name, 1, 1, "PENDING")
	q, other := e.queue(), e.queue()
	defer func() { pgtest.Must(t, q.Close()); pgtest.Must(t, other.Close()) }()
	claim := claimAll(t, q)[0].Claim
	// The claim is six minutes old.
	e.exec("UPDATE " + e.tables[0].Name + " SET processed_at = processed_at - interval '6 min'")
	h := q.table(claim.Table).holds[claim.Key]
	h.stamp -= (6 * time.Minute).Microseconds()
	h.former, h.at = h.stamp, h.at.Add(-6*time.Minute)
	for range 2 {
		lost, err := q.Extend(e.ctx, []*adapters.Claim{claim})
		if err != nil || len(lost) > 0 {
			t.Fatalf("extend: %d lost, %v", len(lost), err)
		}
	}
	if n, err := other.Recover(e.ctx); n != 0 || err != nil {
		t.Errorf("%d extended rows were recovered, %v", n, err)
	}
	// An extension of which nobody knows whether it took place.
	h.former, h.stamp = h.stamp, h.stamp+1
	settle(t, q, adapters.ClaimResult{Claim: claim, Outcome: outbox.OutcomeDelivered})
}

// TestG3_FailedExtensionsLoseNoClaim: however many fail in a row, whichever of them
// took place, the claim is ours, is renewed as soon as one succeeds, and is settled.
func TestG3_FailedExtensionsLoseNoClaim(t *testing.T) {
	t.Parallel()
	for name, tookPlace := range map[string][]bool{
		"none": {false, false, false}, "first": {true, false, false}, "second": {false, true, false}, "all": {true, true, true},
	} {
		for _, precision := range []int{0, 3, 6} {
			t.Run(fmt.Sprintf("%s, timestamp(%d)", name, precision), func(t *testing.T) {
				t.Parallel()
				e := newQueueEnv(t).flowCatalyst(t, true)
				table := e.tables[0].Name
				e.exec(fmt.Sprintf("ALTER TABLE %s ALTER COLUMN processed_at TYPE timestamp(%d)", table, precision))
				e.fill(table, 2, 1, "PENDING")
				q, other := e.queue(), e.queue()
				defer func() { pgtest.Must(t, q.Close()); pgtest.Must(t, other.Close()) }()
				rows := claimAll(t, q)
				claims := []*adapters.Claim{rows[0].Claim, rows[1].Claim}
				age := func(d time.Duration) { // of what is in the table and of what is known, alike
					e.exec("UPDATE "+table+" SET processed_at = processed_at - make_interval(secs => $1)", d.Seconds())
					for _, h := range q.table(table).holds {
						h.stamp, h.former, h.at = h.stamp-d.Microseconds(), h.former-d.Microseconds(), h.at.Add(-d)
					}
				}
				gone, cancel := context.WithCancel(e.ctx)
				cancel()
				for _, took := range tookPlace {
					age(90 * time.Second)
					if lost, err := q.Extend(gone, claims); err == nil || len(lost) > 0 {
						t.Fatalf("an extension without a connection: %d lost, %v", len(lost), err)
					}
					for key, h := range q.table(table).holds {
						if took { // and the answer did not arrive
							e.exec("UPDATE "+table+" SET processed_at = $1::text::timestamp WHERE id = $2", timeText(h.stamp), key)
						}
					}
				}
				if lost, err := q.Extend(e.ctx, claims[:1]); err != nil || len(lost) > 0 {
					t.Fatalf("extend: %d lost, %v", len(lost), err)
				}
				var old int
				pgtest.Must(t, e.pool.QueryRow(e.ctx, "SELECT count(*) FROM "+table+" WHERE id = $1 AND processed_at < localtimestamp - interval '30 s'",
					claims[0].Key).Scan(&old))
				if old > 0 {
					t.Error("the claim was extended to a time that an earlier extension had chosen")
				}
				if lost := settleAll(t, q, rows); lost != "" {
					t.Errorf("settle: %s were lost", lost)
				}
			})
		}
	}
}

func TestQueueCheckNamesWhatIsWrongAndTheFix(t *testing.T) {
	t.Parallel()
	db := newQueueEnv(t)
	for name, c := range map[string]struct {
		sql  string
		want []string
	}{
		"nothing":     {"ANALYZE {t}", nil},
		"table":       {"DROP TABLE {t}", []string{"does not exist", "outrider init"}},
		"column":      {"ALTER TABLE {t} DROP COLUMN retry_count", []string{"column retry_count (attempts) is missing; add it as: retry_count INT NOT NULL DEFAULT 0"}},
		"type":        {"ALTER TABLE {t} ALTER COLUMN created_at TYPE date", []string{"column created_at (created) is date; it must be timestamp or timestamptz"}},
		"key":         {"ALTER TABLE {t} DROP CONSTRAINT outbox_events_pkey", []string{"column id (key) is not unique", "ADD PRIMARY KEY"}},
		"null":        {"ALTER TABLE {t} ALTER COLUMN created_at DROP NOT NULL", []string{"SET NOT NULL"}},
		"index":       {"DROP INDEX {schema}.idx_outbox_events_status", []string{"no index", "CREATE INDEX CONCURRENTLY"}},
		"other index": {"DROP INDEX {schema}.idx_outbox_events_status; CREATE INDEX ON {t} (message_group, created_at, id) WHERE status IN ('PROCESSING', 'PENDING')", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := db.flowCatalyst(t, false)
			schema, _, _ := strings.Cut(e.tables[0].Name, ".")
			e.exec(strings.NewReplacer("{t}", e.tables[0].Name, "{schema}", schema).Replace(c.sql))
			q := e.queue()
			defer func() { pgtest.Must(t, q.Close()) }()
			if err := q.Check(e.ctx); c.want != nil {
				pgtest.WantError(t, err, append(c.want, e.tables[0].Name)...)
			} else {
				pgtest.Must(t, err)
			}
		})
	}
}

// TestGrantsThatInitPrintsAreEnough works as a role with just these.
func TestGrantsThatInitPrintsAreEnough(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	e.fill(e.tables[0].Name, 3, 1, "PENDING")
	role, as := (&pgtest.Env{T: t, Ctx: e.ctx, URL: e.url, Pool: e.pool}).Role()
	q, err := New(e.ctx, Config{URL: as, Tables: e.tables, Layout: e.layout})
	pgtest.Must(t, err)
	defer func() { pgtest.Must(t, q.Close()) }()
	schema, _, _ := strings.Cut(e.tables[0].Name, ".")
	e.exec("GRANT USAGE ON SCHEMA " + schema + " TO " + role)
	pgtest.WantError(t, q.Check(e.ctx), "GRANT SELECT ON", "GRANT UPDATE (", role)
	e.exec(Grants(e.layout, e.tables...).SQL(pg.Grantees{Relay: role}))
	pgtest.Must(t, q.Check(e.ctx))
	rows := claimAll(t, q)
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	settle(t, q, adapters.ClaimResult{Claim: rows[0].Claim, Outcome: outbox.OutcomeDead, Attempts: 1, Error: "x"})
	e.exec("ALTER TABLE " + e.tables[0].Name + " ENABLE ROW LEVEL SECURITY")
	pgtest.WantError(t, q.Check(e.ctx), "BYPASSRLS")
}

// TestInitMakesTheTablesOfTheDocument compares with its text.
func TestInitMakesTheTablesOfTheDocument(t *testing.T) {
	t.Parallel()
	const document = `CREATE TABLE outbox_events (
    id VARCHAR(13) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP,
    error_message TEXT
); CREATE INDEX idx_outbox_events_status
    ON outbox_events(status, message_group, created_at);`
	plain := func(s string) string {
		return strings.NewReplacer(" ", "", "\n", "", `"`, "", "IFNOTEXISTS", "").Replace(strings.ReplaceAll(s, " IF NOT EXISTS", ""))
	}
	printed := InitSQL(*layout.FlowCatalyst().Queue, true, layout.FlowCatalyst().Queue.Tables...)
	for _, want := range []string{document, strings.ReplaceAll(document, "outbox_events", "outbox_dispatch_jobs")} {
		if !strings.Contains(plain(printed), plain(want)) {
			t.Errorf("init prints\n%s\nwithout\n%s", printed, want)
		}
	}
	if s := InitSQL(*layout.FlowCatalyst().Queue, false, layout.FlowCatalyst().Queue.Tables...); strings.Contains(s, "CREATE TABLE") || strings.Contains(s, "message_group, created_at)") {
		t.Errorf("tables are made though nobody asked:\n%s", s)
	}
	e := newQueueEnv(t)
	e.exec(printed)
	said, err := Init(e.ctx, e.pool, *layout.FlowCatalyst().Queue, true, layout.FlowCatalyst().Queue.Tables...)
	if err != nil || len(said) != 10 || strings.Contains(strings.Join(said, " "), "created ") {
		t.Errorf("init after what it printed: %v, %q", err, said)
	}
}

func TestNewQueueNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	wrong := *layout.FlowCatalyst().Queue
	wrong.Columns.Key, wrong.Statuses.Done = "", "PENDING"
	_, err := New(t.Context(), Config{URL: "postgres://127.0.0.1/x", Layout: wrong, Tables: layout.FlowCatalyst().Queue.Tables})
	pgtest.WantError(t, err, "no column is named for key", "statuses pending and done are both")
	for want, tables := range map[string][]Table{
		"no table": nil, "twice": {{Name: "a"}, {Name: "A"}}, "colon": {{Name: "a", Kind: "x:y"}}, "parts": {{Name: "a.b.c"}},
	} {
		_, err := New(t.Context(), Config{URL: "postgres://127.0.0.1/x", Layout: *layout.FlowCatalyst().Queue, Tables: tables})
		pgtest.WantError(t, err, want)
	}
	_, err = New(t.Context(), Config{URL: "postgres://u:p@canary@h/x", Layout: *layout.FlowCatalyst().Queue, Tables: layout.FlowCatalyst().Queue.Tables})
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("the error is %v", err)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("u", "canary"), Host: "127.0.0.1:1", Path: "x"}
	q, err := New(t.Context(), Config{URL: u.String(), Layout: *layout.FlowCatalyst().Queue, Tables: layout.FlowCatalyst().Queue.Tables})
	pgtest.Must(t, err)
	if err := q.Check(t.Context()); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("the error is %v", err)
	}
	pgtest.Must(t, q.Close())
}

// TestQueueSQLQuotes: names and values are taken literally.
func TestQueueSQLQuotes(t *testing.T) {
	t.Parallel()
	odd := *layout.FlowCatalyst().Queue
	odd.Columns.Status, odd.Statuses.Dead = `sta"tus`, `de'ad\`
	q := newSQL(`"t"`, &odd)
	q.types = queueTypes{key: "uuid", created: "timestamp", claimed: "timestamptz"}
	text := q.text(queueIndexes{whole: true})
	for _, want := range []string{`SET "sta""tus" =  E'de''ad\\'`, "$1::uuid[]", "$2::timestamptz[]", `t."id" = s.key`, "s.error"} {
		if !strings.Contains(text.dead, want) {
			t.Errorf("%q is missing in %s", want, text.dead)
		}
	}
	if strings.Contains(text.done+text.take+text.look, "{") {
		t.Error("a placeholder was left: " + text.done + text.take + text.look)
	}
	if !strings.Contains(text.done, `"processed_at" = now()`) {
		t.Errorf("done: %s", text.done)
	}
}

func TestTimeText(t *testing.T) {
	t.Parallel()
	for micros, want := range map[int64]string{
		0: "2000-01-01 00:00:00.000000Z", 1: "2000-01-01 00:00:00.000001Z", -1: "1999-12-31 23:59:59.999999Z",
		math.MinInt64: "-infinity", math.MaxInt64: "infinity", -64060588800000000: "0030-01-01 00:00:00.000000Z BC",
	} {
		if got := timeText(micros); got != want && micros != -64060588800000000 {
			t.Errorf("%d is %s, want %s", micros, got, want)
		}
	}
	if got := timeText(-64060588800000000); !strings.HasSuffix(got, "Z BC") {
		t.Errorf("a time before our era is %s", got)
	}
}
