package queuetable

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// everything is a request for all lanes.
func everything(limit int) adapters.ClaimRequest {
	r := adapters.ClaimRequest{Limit: limit}
	for slot := range adapters.Slots {
		r.Slots = append(r.Slots, slot)
	}
	return r
}

// open opens a queue, which is closed with the test.
func (e *env) open() *Queue {
	e.t.Helper()
	q := e.queue()
	e.t.Cleanup(func() { must(e.t, q.Close()) })
	return q
}

func (e *env) claim(q *Queue, limit int) []*adapters.Row {
	e.t.Helper()
	rows, err := q.Claim(context.Background(), everything(limit))
	must(e.t, err)
	return rows
}

// event is a row of FlowCatalyst's first table.
func event(key, group string, at time.Time) adaptertest.QueueRow {
	return adaptertest.QueueRow{Table: "outbox_events", Key: key, Group: group, Payload: "{}", CreatedAt: at}
}

var born = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func delivered(rows ...*adapters.Row) (all []adapters.ClaimResult) {
	for _, row := range rows {
		all = append(all, adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDelivered})
	}
	return all
}

// TestG2_GroupsAreComparedAsBytes: the columns' collation takes these names for equal, and one of them for no name.
func TestG2_GroupsAreComparedAsBytes(t *testing.T) {
	t.Parallel()
	e := document(t)
	var rows []adaptertest.QueueRow
	names := []string{"a", "A", "a ", "é", "e", "default", ""}
	for i, name := range slices.Concat(names, names) {
		rows = append(rows, event(fmt.Sprintf("%013d", i), name, born.Add(time.Duration(i)*time.Second)))
	}
	e.insert(rows...)
	q := e.open()
	found := map[string][]string{}
	for _, row := range e.claim(q, 100) {
		found[row.Group] = append(found[row.Group], row.ID)
	}
	for i, name := range []string{"a", "A", "a ", "é", "e"} {
		if got, want := found["EVENT:"+name], []string{rows[i].Key, rows[i+len(names)].Key}; !slices.Equal(got, want) {
			t.Errorf("group %q has %v, want %v", name, got, want)
		}
	}
	if got := found["EVENT:default"]; len(got) != 4 || !slices.IsSorted(got) {
		t.Errorf("the group of rows without one has %v", got)
	}
}

// TestG3_ClaimsOfOneSecondAreTwo: a claim that was put back and made again by another process within a second of the column's is
// another one, and so is that of a system that knows nothing of outrider_claim.
func TestG3_ClaimsOfOneSecondAreTwo(t *testing.T) {
	t.Parallel()
	e := document(t)
	e.insert(event("0000000000001", "a", born), event("0000000000002", "b", born))
	q, other := e.open(), e.open()
	mine := e.claim(q, 10)
	if len(mine) != 2 {
		t.Fatalf("claimed %d rows", len(mine))
	}
	e.exec("UPDATE outbox_events SET status = 'PENDING'")
	e.exec("UPDATE outbox_events SET status = 'PROCESSING', processed_at = NOW() WHERE id = '0000000000001'") // the original's claim
	theirs := e.claim(other, 10)
	if len(theirs) != 1 || theirs[0].ID != "0000000000002" {
		t.Fatalf("the other process claimed %d rows", len(theirs))
	}
	e.exec("UPDATE outbox_events SET processed_at = (SELECT at FROM (SELECT MAX(processed_at) AS at FROM outbox_events WHERE id = '0000000000002') AS x) WHERE id = '0000000000002'")
	lost, err := q.Settle(t.Context(), delivered(mine...))
	if err != nil || len(lost) != 2 {
		t.Errorf("%d of 2 claims were lost, %v", len(lost), err)
	}
	for _, row := range e.rows() {
		if row.Status != adaptertest.QueueProcessing {
			t.Errorf("row %s is %s: a claim of somebody else was settled", row.Key, row.Status)
		}
	}
	if lost, err := other.Settle(t.Context(), delivered(theirs...)); err != nil || len(lost) > 0 {
		t.Errorf("the other process lost %d claims, %v", len(lost), err)
	}
}

// TestG3_ForeignClaimersAndOursClaimEachRowOnce: eight processors with the original's own statements beside two queues.
func TestG3_ForeignClaimersAndOursClaimEachRowOnce(t *testing.T) {
	t.Parallel()
	e := document(t)
	n := testenv.Size(600, 20_000)
	rows := make([]adaptertest.QueueRow, n)
	for i := range rows {
		rows[i] = event(fmt.Sprintf("%013d", i), fmt.Sprintf("g%d", i%40), born.Add(time.Duration(i)*time.Second))
	}
	e.insert(rows...)
	var mu sync.Mutex
	count := map[string]int{}
	note := func(keys ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, key := range keys {
			count[key]++
		}
	}
	seen := func() int { mu.Lock(); defer mu.Unlock(); return len(count) }
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for seen() < n && !t.Failed() {
				keys, err := e.foreignClaim(10)
				if err != nil && !my.Conflict(err) {
					t.Error(err)
				}
				note(keys...)
			}
		})
	}
	for range 2 {
		q := e.open()
		wg.Go(func() {
			for seen() < n && !t.Failed() {
				got, err := q.Claim(context.Background(), everything(10))
				if err != nil {
					t.Error(err)
					return
				}
				for _, row := range got {
					note(row.ID)
				}
				if lost, err := q.Settle(context.Background(), delivered(got...)); err != nil || len(lost) > 0 {
					t.Errorf("%d lost, %v", len(lost), err)
				}
			}
		})
	}
	wg.Wait()
	for key, times := range count {
		if times != 1 {
			t.Errorf("row %s was claimed %d times", key, times)
		}
	}
	for _, row := range e.rows() {
		if row.Status != adaptertest.QueueDone {
			t.Errorf("row %s is %s", row.Key, row.Status)
		}
	}
}

// foreignClaim claims and completes rows as the original does.
func (e *env) foreignClaim(most int) (keys []string, err error) {
	tx, err := e.db.Begin()
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // the first error says more
	rows, err := tx.Query("SELECT id FROM outbox_events WHERE status = 'PENDING' ORDER BY message_group, created_at LIMIT ? FOR UPDATE SKIP LOCKED", most)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	var ids []any
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		keys, ids = append(keys, id), append(ids, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(ids) == 0 {
		return nil, err
	}
	if _, err := tx.Exec("UPDATE outbox_events SET status = 'PROCESSING', processed_at = NOW() WHERE id IN ("+strings.TrimSuffix(strings.Repeat("?, ", len(ids)), ", ")+")", ids...); err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	err = my.RetryConflict(context.Background(), func() error {
		_, err := e.db.Exec("UPDATE outbox_events SET status = 'COMPLETED', processed_at = NOW() WHERE id IN ("+strings.TrimSuffix(strings.Repeat("?, ", len(ids)), ", ")+")", ids...)
		return err
	})
	return keys, err
}

// TestCreatedAtKeepsItsValueWhereTheColumnUpdatesItself: servers with explicit_defaults_for_timestamp=OFF make such a column of the
// document's DDL. Doctor says so.
func TestCreatedAtKeepsItsValueWhereTheColumnUpdatesItself(t *testing.T) {
	t.Parallel()
	e := document(t)
	e.exec("ALTER TABLE outbox_events MODIFY created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP")
	for i, outcome := range []outbox.Outcome{outbox.OutcomeDelivered, outbox.OutcomeRetry, outbox.OutcomeDead, outbox.OutcomeReleased} {
		e.insert(event(fmt.Sprintf("%013d", i), string(rune('a'+i)), born))
		_ = outcome
	}
	q := e.open()
	rows := e.claim(q, 10)
	claims := make([]*adapters.Claim, len(rows))
	for i, row := range rows {
		claims[i] = row.Claim
	}
	if lost, err := q.Extend(t.Context(), claims); err != nil || len(lost) > 0 {
		t.Fatalf("%d lost, %v", len(lost), err)
	}
	results := delivered(rows...)
	results[1].Outcome, results[2].Outcome, results[3].Outcome = outbox.OutcomeRetry, outbox.OutcomeDead, outbox.OutcomeReleased
	if lost, err := q.Settle(t.Context(), results); err != nil || len(lost) > 0 {
		t.Fatalf("%d lost, %v", len(lost), err)
	}
	e.exec("UPDATE outbox_events SET status = 'PROCESSING', processed_at = '2020-01-01', created_at = created_at WHERE status = 'PENDING'")
	if n, err := q.Recover(t.Context()); err != nil || n != 2 {
		t.Fatalf("recovered %d rows, %v", n, err)
	}
	for _, row := range e.rows() {
		if !row.CreatedAt.Equal(born) {
			t.Errorf("row %s (%s) was created at %v", row.Key, row.Status, row.CreatedAt)
		}
	}
	e.wantFinding(q, "updates itself")
}

// wantFinding requires that doctor says something.
func (e *env) wantFinding(q *Queue, part string) {
	e.t.Helper()
	var all []string
	for _, f := range q.Examine(context.Background()) {
		all = append(all, f.Subject+": "+f.Text+" | "+f.Fix)
	}
	if text := strings.Join(all, "\n"); !strings.Contains(text, part) {
		e.t.Errorf("doctor does not say %q:\n%s", part, text)
	}
}

// A row that is being processed and does not say since when is put back by no relay: doctor says that it holds its group up.
func TestDoctorNamesClaimsWithoutATime(t *testing.T) {
	t.Parallel()
	e := document(t)
	e.insert(event("0000000000001", "a", born))
	q := e.open()
	e.exec("UPDATE outbox_events SET status = 'PROCESSING'")
	if n, err := q.Recover(t.Context()); err != nil || n != 0 {
		t.Fatalf("recovered %d rows, %v", n, err)
	}
	e.wantFinding(q, "1 have no time in processed_at")
}

// TestG12_TheGrantsThatInitPrintsAreEnough works as an account with just these, on a server in another time zone.
func TestG12_TheGrantsThatInitPrintsAreEnough(t *testing.T) {
	t.Parallel()
	e := document(t)
	u, err := url.Parse(e.url)
	must(t, err)
	name := "relay" + u.Path[len(u.Path)-8:]
	e.exec("CREATE USER " + my.Account(name) + " IDENTIFIED BY 'secret'")
	t.Cleanup(func() { e.exec("DROP USER " + my.Account(name)) })
	e.insert(event("0000000000001", "a", born))
	u.User = url.UserPassword(name, "secret")
	own := *e
	own.url = u.String()
	q := own.open()
	if err := q.Check(t.Context()); err == nil {
		t.Error("an account without a grant passed the check")
	}
	for line := range strings.SplitSeq(Grants(e.layout, e.tables...).SQL(name, "", ""), "\n") {
		if strings.HasPrefix(line, "GRANT") {
			e.exec(strings.TrimSuffix(line, ";"))
		}
	}
	must(t, q.Check(t.Context()))
	rows := own.claim(q, 10)
	if len(rows) != 1 {
		t.Fatalf("claimed %d rows", len(rows))
	}
	if lost, err := q.Settle(t.Context(), delivered(rows...)); err != nil || len(lost) > 0 {
		t.Errorf("%d lost, %v", len(lost), err)
	}
	if n, err := q.Recover(t.Context()); err != nil || n != 0 {
		t.Errorf("recovered %d, %v", n, err)
	}
}

// TestInitIsRepeatableAndFollowsTheLayout: a second run changes nothing; another mapping of the same table has the column made anew. An
// INSERT without a list of columns and SELECT * go on as before.
func TestInitIsRepeatableAndFollowsTheLayout(t *testing.T) {
	t.Parallel()
	e := document(t)
	did, err := Init(t.Context(), e.db, e.layout, true, e.tables...)
	if err != nil || slices.ContainsFunc(did, func(s string) bool { return !strings.HasSuffix(s, "exists") }) {
		t.Errorf("a second init did %q, %v", did, err)
	}
	e.exec("INSERT INTO outbox_events VALUES ('1', 'x', NULL, '{}', 'PENDING', 0, '2026-01-01', NULL, NULL)")
	columns, err := e.db.QueryContext(t.Context(), "SELECT * FROM outbox_events")
	must(t, err)
	defer func() { _ = columns.Close() }() // Err returns the error
	names, err := columns.Columns()
	must(t, errors.Join(err, columns.Err()))
	if len(names) != 9 {
		t.Errorf("SELECT * has %v", names)
	}
	other := e.layout
	other.DefaultGroup, other.Statuses.Dead = "elsewhere", "DEAD"
	q, err := New(Config{URL: e.url, Tables: e.tables, Layout: other})
	must(t, err)
	defer func() { must(t, q.Close()) }()
	if err := q.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "outrider init") {
		t.Errorf("a column of another layout passed the check: %v", err)
	}
	did, err = Init(t.Context(), e.db, other, true, e.tables...)
	must(t, errors.Join(err, q.Check(t.Context())))
	for _, made := range []string{"column outrider_queue", "index outbox_events_outrider_queue_idx", "column outrider_state", "index outbox_events_outrider_age_idx"} {
		if !slices.Contains(did, "dropped former "+made) || !slices.Contains(did, "created "+made) {
			t.Errorf("the %s was not made anew: %q", made, did)
		}
	}
	rows, err := q.Claim(t.Context(), everything(5))
	if err != nil || len(rows) != 1 || rows[0].Group != "EVENT:elsewhere" {
		t.Errorf("claimed %d rows, %v", len(rows), err)
	}
}

// A table that the application has not created yet is not said to exist before it is said not to.
func TestInitSaysNothingOfATableThatIsMissing(t *testing.T) {
	t.Parallel()
	e := document(t)
	e.exec("DROP TABLE outbox_events")
	did, err := Init(t.Context(), e.db, e.layout, false, e.tables...)
	if len(did) > 0 || err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("did %q, %v", did, err)
	}
}

// TestInitAddsAnIndexOfStatusesOnlyWhereTheTableHasNone: one more would make each claim dearer.
func TestInitAddsAnIndexOfStatusesOnlyWhereTheTableHasNone(t *testing.T) {
	t.Parallel()
	const ours = "_outrider_status_idx"
	if e := document(t); strings.Contains(InitSQL(e.layout, true, e.tables...), ours) || e.indexed(ours) {
		t.Error("a table whose own index begins with the status got another one")
	}
	e := custom(t, "varchar(36)", "tinyint", "datetime(6)")
	if !strings.Contains(InitSQL(e.layout, true, e.tables...), ours) || !e.indexed(ours) {
		t.Error("a table without an index that begins with the status got none")
	}
}

// indexed reports whether a table has an index whose name ends so.
func (e *env) indexed(name string) bool {
	e.t.Helper()
	var n int
	must(e.t, e.db.QueryRowContext(e.t.Context(), "SELECT count(*) FROM information_schema.statistics WHERE table_schema = database() AND index_name LIKE ?", "%"+name).Scan(&n))
	return n > 0
}

// unanswered has the connection break when the next transaction has been committed.
func (q *Queue) unanswered() {
	q.transact = func(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
		q.transact = my.Transact
		return cmp.Or(my.Transact(ctx, db, f), driver.ErrBadConn)
	}
}

// TestG1_SettledTwiceIsNotLost: a result of which it is not known whether it was written is given again.
func TestG1_SettledTwiceIsNotLost(t *testing.T) {
	t.Parallel()
	e := document(t)
	e.insert(event("0000000000001", "a", born), event("0000000000002", "b", born), event("0000000000003", "c", born))
	q := e.open()
	rows := e.claim(q, 10)
	results := delivered(rows...)
	results[1].Outcome, results[2].Outcome = outbox.OutcomeReleased, outbox.OutcomeDead
	q.unanswered()
	if _, err := q.Settle(t.Context(), results); !errors.Is(err, driver.ErrBadConn) {
		t.Fatalf("settled by a transaction of which nothing is known: %v", err)
	}
	lost, err := q.Settle(t.Context(), results)
	if err != nil || len(lost) > 0 {
		t.Errorf("%d lost, %v", len(lost), err)
	}
}

// A settle locks lanes in the order in which operators' commands do, whatever it writes: otherwise they would wait for each other. It
// waits for the lower of two lanes, and the higher one is free meanwhile.
func TestG13_ASettleLocksLanesInTheOrderOfCommands(t *testing.T) {
	t.Parallel()
	const low, high = 3, 9
	for name, second := range map[string]outbox.Outcome{"one statement": outbox.OutcomeDelivered, "two statements": outbox.OutcomeRetry} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			e := preset(t, layout.OutboxFramework())
			e.exec(`INSERT INTO outrider_cursor VALUES ('suite', ?, 1), ('suite', ?, 1)`, low, high)
			e.insert(adaptertest.QueueRow{Table: e.tables[0].Name, Key: "1", Group: "a", Payload: "{}", CreatedAt: born},
				adaptertest.QueueRow{Table: e.tables[0].Name, Key: "2", Group: "b", Payload: "{}", CreatedAt: born.Add(time.Second)})
			q := e.open()
			rows := e.claim(q, 10)
			if len(rows) != 2 {
				t.Fatalf("%d rows were claimed, want 2", len(rows))
			}
			command, err := e.db.BeginTx(ctx, nil)
			must(t, err)
			defer func() { _ = command.Rollback() }() // after a failure
			const lock = `SELECT slot FROM outrider_cursor WHERE route = 'suite' AND slot = ? FOR UPDATE NOWAIT`
			var slot int
			must(t, command.QueryRowContext(ctx, lock, low).Scan(&slot))
			settled := make(chan error, 1)
			go func() {
				lost, err := q.Settle(ctx, []adapters.ClaimResult{
					{Claim: rows[0].Claim, Outcome: outbox.OutcomeDelivered, Lane: adapters.LaneRef{Route: "suite", Slot: high}, Epoch: 1},
					{Claim: rows[1].Claim, Outcome: second, Attempts: 1, Error: "refused", Lane: adapters.LaneRef{Route: "suite", Slot: low}, Epoch: 1},
				})
				if err == nil && len(lost) > 0 {
					err = fmt.Errorf("%d claims are lost, want none", len(lost))
				}
				settled <- err
			}()
			for waits := 0; waits == 0; time.Sleep(time.Millisecond) {
				must(t, e.db.QueryRowContext(ctx, fmt.Sprintf(`SELECT count(*) FROM information_schema.processlist
WHERE db = database() AND info LIKE 'SELECT 1 FROM outrider_cursor%%slot = %d %%'`, low)).Scan(&waits))
			}
			if err := command.QueryRowContext(ctx, lock, high).Scan(&slot); err != nil {
				t.Errorf("the settle waits for lane %d and holds lane %d: %v", low, high, err)
			}
			must(t, command.Rollback())
			must(t, <-settled)
		})
	}
}

// TestG1_G2_AClaimOfWhichNothingIsKnownGoesBack: the connection of a claim broke while it committed. The next claim finds its rows, in their
// order, and waits for no timeout; a row that another process has claimed meanwhile stays its own.
func TestG1_G2_AClaimOfWhichNothingIsKnownGoesBack(t *testing.T) {
	t.Parallel()
	e := document(t)
	e.insert(event("0000000000001", "a", born), event("0000000000002", "a", born.Add(time.Second)), event("0000000000003", "b", born))
	q, other := e.open(), e.open()
	q.unanswered()
	if rows, err := q.Claim(t.Context(), everything(10)); len(rows) > 0 || !errors.Is(err, driver.ErrBadConn) {
		t.Fatalf("claimed %d rows by a transaction of which nothing is known: %v", len(rows), err)
	}
	e.exec("UPDATE outbox_events SET status = 'PENDING' WHERE id = '0000000000003'")
	if theirs := e.claim(other, 10); len(theirs) != 1 || theirs[0].ID != "0000000000003" {
		t.Fatalf("the other process claimed %d rows", len(theirs))
	}
	again := e.claim(q, 10)
	if len(again) != 2 || again[0].ID != "0000000000001" || again[1].ID != "0000000000002" {
		t.Fatalf("claimed %d rows again, want the first two", len(again))
	}
	if lost, err := q.Settle(t.Context(), delivered(again...)); err != nil || len(lost) > 0 {
		t.Errorf("%d lost, %v", len(lost), err)
	}
}

// An error is cut to what its column holds, and what the column's character set cannot hold is replaced.
func TestErrorsFitTheirColumn(t *testing.T) {
	t.Parallel()
	const text = "éé受😀 1234567890"
	for typ, want := range map[string]string{
		"varchar(10)": "éé受😀 12345", "varchar(8) CHARACTER SET latin1": "???? 123", "text CHARACTER SET utf8mb3": "éé受? 1234567890", "char(3)": "éé受",
		"tinytext": text, "varbinary(4)": "éé",
	} {
		e := custom(t, "varchar(36)", "integer", "datetime(6)")
		e.exec("ALTER TABLE `Out ``Box` MODIFY last_error " + typ)
		for _, key := range []string{"a", "b"} {
			e.insert(adaptertest.QueueRow{Table: e.tables[0].Name, Key: key, Payload: "{}", CreatedAt: born})
		}
		q := e.open()
		rows := e.claim(q, 10)
		for i, outcome := range []outbox.Outcome{outbox.OutcomeDead, outbox.OutcomeRetry} {
			long := text
			if typ == "tinytext" && i == 1 {
				long = strings.Repeat(text, 100)
			}
			lost, err := q.Settle(t.Context(), []adapters.ClaimResult{{Claim: rows[i].Claim, Outcome: outcome, Attempts: 1, Error: long}})
			if err != nil || len(lost) > 0 {
				t.Fatalf("%s: %d lost, %v", typ, len(lost), err)
			}
		}
		for _, row := range e.rows() {
			if !strings.HasPrefix(row.Error, want) || len(row.Error) > 255 {
				t.Errorf("%s has %q, want %q", typ, row.Error, want)
			}
		}
	}
}

// When a row is due is said by the server's clock, and compared with it. A row is due whose time is none, and one that waits for ever stops no other.
func TestG13_TheServersClockDecidesWhatIsDue(t *testing.T) {
	t.Parallel()
	e := custom(t, "varchar(36)", "integer", "datetime(6)")
	for _, key := range []string{"now", "later", "zero", "never"} {
		e.insert(adaptertest.QueueRow{Table: e.tables[0].Name, Key: key, Group: key, Payload: "{}", CreatedAt: born})
	}
	ahead, err := (&my.Connection{URL: e.url}).Open() // a session in which it is a year later
	must(t, err)
	t.Cleanup(func() { must(t, ahead.Close()) })
	ahead.SetMaxOpenConns(1)
	_, err = ahead.Exec("SET timestamp = UNIX_TIMESTAMP() + 365 * 86400")
	must(t, err)
	q := e.open()
	q.db, ahead = ahead, q.db
	defer func() { q.db, ahead = ahead, q.db }()
	rows := e.claim(q, 10)
	for _, row := range rows {
		at := time.Now()
		if row.ID == "later" {
			at = at.Add(time.Hour)
		}
		lost, err := q.Settle(t.Context(), []adapters.ClaimResult{{Claim: row.Claim, Outcome: outbox.OutcomeRetry, Attempts: 1, Error: "no", At: at}})
		if err != nil || len(lost) > 0 {
			t.Fatalf("%d lost, %v", len(lost), err)
		}
	}
	var left float64
	must(t, q.db.QueryRow("SELECT TIMESTAMPDIFF(SECOND, NOW(), next_try_at) FROM `Out ``Box` WHERE `Event Id` = 'later'").Scan(&left))
	if left < 3500 || left > 3600 {
		t.Errorf("the row is due in %v s", left)
	}
	e.exec("SET STATEMENT sql_mode = '' FOR UPDATE `Out ``Box` SET next_try_at = '0000-00-00' WHERE `Event Id` = 'zero'")
	e.exec("UPDATE `Out ``Box` SET next_try_at = '9999-12-31' WHERE `Event Id` = 'never'")
	var due []string
	for _, row := range e.claim(q, 10) {
		due = append(due, row.ID)
	}
	if slices.Sort(due); !slices.Equal(due, []string{"now", "zero"}) {
		t.Errorf("due are %q", due)
	}
}

// A column that does not take every status is refused before anything is claimed, with the values that it does not take.
func TestStatusesThatTheColumnDoesNotTake(t *testing.T) {
	t.Parallel()
	for typ, refused := range map[string]string{
		"enum('0','1','2','4')": "3", "enum('0','1','2','3','4')": "", "varchar(1)": "", "smallint": "", "varchar(20)": "",
		"ENUM('PENDING','PROCESSING','COMPLETED')": "FAILED", "enum('pending','processing','completed','failed')": "", "varchar(9)": "PROCESSING", "char(10)": "",
	} {
		e := newEnv(t, customLayout(), Table{Name: "jobs"})
		pending := "0"
		if strings.Contains(strings.ToLower(typ), "pending") || strings.Contains(typ, "char") && typ != "varchar(1)" {
			pending = "PENDING"
			e.layout.Statuses = layout.Statuses{Pending: pending, Processing: "PROCESSING", Done: "COMPLETED", Dead: "FAILED"}
		}
		e.exec("CREATE TABLE jobs (`Event Id` varchar(36) PRIMARY KEY, event_type text NOT NULL, aggregate varchar(200), kind text, tenant text, headers text, body longtext NOT NULL, state " + typ +
			" NOT NULL DEFAULT '" + pending + "', tries integer, next_try_at datetime(6), created datetime(6) NOT NULL DEFAULT '2020-01-01', locked_at datetime(6), locked_by varchar(20), sent_at datetime(6), last_error text)")
		_, err := Init(t.Context(), e.db, e.layout, false, e.tables...)
		if said := fmt.Sprintf("does not take the value %q", refused); (err == nil) != (refused == "") || refused != "" && (!strings.Contains(err.Error(), said) || strings.Count(err.Error(), "does not take") != 1) {
			t.Errorf("%s: %v", typ, err)
		}
		if q := e.open(); (q.Check(t.Context()) == nil) != (refused == "") {
			t.Errorf("%s: check: %v", typ, q.Check(t.Context()))
		}
	}
}
