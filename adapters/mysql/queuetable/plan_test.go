package queuetable

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// reads counts the rows and index entries that the server has read for the queue's only connection, by the counters of
// the session: others on the server do not count.
func (e *env) reads(q *Queue) (n int) {
	e.t.Helper()
	rows, err := q.db.QueryContext(context.Background(), "SHOW SESSION STATUS LIKE 'Handler_read%'")
	must(e.t, err)
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var name string
		var value int
		must(e.t, rows.Scan(&name, &value))
		n += value
	}
	must(e.t, rows.Err())
	return n
}

// read is how many rows a question reads. What asking itself reads is not in it.
func (e *env) read(q *Queue, ask func() error) int {
	e.t.Helper()
	e.reads(q)
	first := e.reads(q)
	asking := e.reads(q) - first
	before := e.reads(q)
	must(e.t, ask())
	return e.reads(q) - before - asking
}

// finished inserts rows of a status in bulk.
func (e *env) finished(prefix string, status adaptertest.QueueStatus, n int) {
	e.t.Helper()
	const most = 5000
	for at := 0; at < n; at += most {
		rows := make([]adaptertest.QueueRow, min(most, n-at))
		for i := range rows {
			rows[i] = adaptertest.QueueRow{Table: e.tables[0].Name, Key: fmt.Sprintf("%s%08d", prefix, at+i), Group: fmt.Sprint("g", i%10), Payload: `{"type": "x"}`,
				CreatedAt: born.Add(time.Duration(at+i) * time.Second), Status: status}
		}
		e.insert(rows...)
	}
}

// waitingRows and deadRows are how many rows are beside the finished ones.
const waitingRows, deadRows = 60, 300

// work is what a relay and operators do with a table, with what each reads. In the end the table is as it was.
func (e *env) work(q *Queue) map[string]int {
	e.t.Helper()
	ctx := e.t.Context()
	var rows []*adapters.Row
	var claims []*adapters.Claim
	back := func(outcome outbox.Outcome) func() error {
		return func() error {
			results := make([]adapters.ClaimResult, len(rows))
			for i, row := range rows {
				results[i] = adapters.ClaimResult{Claim: row.Claim, Outcome: outcome}
			}
			lost, err := q.Settle(ctx, results)
			if err == nil && len(lost) > 0 {
				err = fmt.Errorf("%d claims were lost", len(lost))
			}
			return err
		}
	}
	claim := func() (err error) {
		if rows, err = q.Claim(ctx, everything(1000)); err == nil && len(rows) != waitingRows {
			err = fmt.Errorf("claimed %d rows, want %d", len(rows), waitingRows)
		}
		claims = nil
		for _, row := range rows {
			claims = append(claims, row.Claim)
		}
		return err
	}
	page, err := q.Dead(ctx, adapters.DeadFilter{Limit: 20})
	must(e.t, err)
	read := map[string]int{}
	for _, does := range []struct {
		what string
		ask  func() error
	}{
		{"a claim", claim},
		{"a claim that finds nothing", func() error { _, err := q.Claim(ctx, everything(1000)); return err }},
		{"an extension", func() error { _, err := q.Extend(ctx, claims); return err }},
		{"a recovery", func() error { _, err := q.Recover(ctx); return err }},
		{"a count of claimed rows", func() error { _, err := q.Processing(ctx, 1000); return err }},
		{"a settle", back(outbox.OutcomeReleased)},
		{"a count of unfinished rows", func() error { _, err := q.Unfinished(ctx, 1000); return err }},
		{"the oldest that wait", func() error { _, err := q.Waiting(ctx, 20); return err }},
		{"waiting rows by age", func() error { _, err := q.WaitingByAge(ctx, adapters.DeadKey{}, 20); return err }},
		{"a page of dead rows", func() error { _, err := q.Dead(ctx, adapters.DeadFilter{Limit: 20}); return err }},
		{"the page behind it", func() error { _, err := q.Dead(ctx, adapters.DeadFilter{Limit: 20, After: page[19].At}); return err }},
		{"a count of dead rows", func() error { _, _, err := q.CountDead(ctx, 1000, false); return err }},
		{"where an event is", func() error { _, err := q.Find(ctx, page[0].Row.ID, 1); return err }},
	} {
		read[does.what] = e.read(q, does.ask)
	}
	return read
}

// TestG8_ClaimsAreFlatBesideFinishedRows: what a relay and operators do reads as many rows beside finished ones as without
// them, with statistics from before they came and with fresh ones.
func TestG8_ClaimsAreFlatBesideFinishedRows(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(testing.TB) *env{
		"FlowCatalyst":    document,
		"OutboxFramework": func(t testing.TB) *env { e := preset(t, layout.OutboxFramework()); e.fenced = false; return e },
		"Talkie":          talkie,
		"Custom":          func(t testing.TB) *env { return custom(t, "varchar(36)", "tinyint", "datetime(6)") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := prepare(t)
			e.tables = e.tables[:1]
			e.finished("w", adaptertest.QueueWaiting, waitingRows)
			e.finished("d", adaptertest.QueueDead, deadRows)
			analyse := "ANALYZE TABLE " + e.name(e.tables[0].Name)
			e.exec(analyse)
			q := e.open()
			q.db.SetMaxOpenConns(1)
			must(t, q.Check(t.Context()))
			none := e.work(q)
			e.finished("f", adaptertest.QueueDone, testenv.Size(20_000, 1_000_000))
			stale := e.work(q)
			e.exec(analyse)
			fresh := e.work(q)
			for what, least := range none {
				t.Logf("%s: %d rows are read without finished rows, %d with, %d with fresh statistics", what, least, stale[what], fresh[what])
				const more = 100 // a look into the catalogue, or what a server keeps of indexes until it has cleaned up
				if most := least + more; least == 0 && strings.HasPrefix(what, "a claim") || stale[what] > most || fresh[what] > most {
					t.Errorf("%s reads %d and %d rows beside finished ones, %d without", what, stale[what], fresh[what], least)
				}
			}
		})
	}
}

// passes claims until everything has been looked at, and returns how many rows that read.
func (e *env) passes(q *Queue, req adapters.ClaimRequest) (read int) {
	e.t.Helper()
	for began := time.Now(); ; {
		read += e.read(q, func() error {
			rows, err := q.Claim(e.t.Context(), req)
			if err == nil && len(rows) > 0 {
				err = fmt.Errorf("claimed %d rows", len(rows))
			}
			return err
		})
		if !q.Coverage().Since.Before(began) {
			return read
		}
	}
}

// TestG8_UnwantedRowsOfOneTimeAreReadOnce: rows that no route wants are gone through page by page, also if one statement has inserted
// all of them, and so at one time.
func TestG8_UnwantedRowsOfOneTimeAreReadOnce(t *testing.T) {
	t.Parallel()
	const n = 8 * pageRows
	e := talkie(t)
	rows := make([]adaptertest.QueueRow, n)
	for i := range rows {
		rows[i] = adaptertest.QueueRow{Table: e.tables[0].Name, Key: fmt.Sprintf("u%08d", i), Payload: `{}`, CreatedAt: born}
	}
	e.insert(rows...)
	q := e.open()
	q.db.SetMaxOpenConns(1)
	must(t, q.Check(t.Context()))
	req := everything(1000)
	req.Wants, req.Match = 1, func(*adapters.Row) bool { return false }
	req.Later = req.Match
	first := e.passes(q, req)
	time.Sleep(time.Until(q.Coverage().Next))
	second := e.passes(q, req)
	t.Logf("%d rows of one time: %d are read to look at them, and %d to pass over them", n, first, second)
	if most := n + n/4; first > n+most || second > most {
		t.Errorf("%d and %d rows are read for %d", first, second, n)
	}
}

// TestG9_AnIdleClaimLooksAtEverything: one statement per poll is enough to know that nothing waits.
func TestG9_AnIdleClaimLooksAtEverything(t *testing.T) {
	t.Parallel()
	e := talkie(t)
	e.finished("f", adaptertest.QueueDone, 10)
	q := e.open()
	for range 3 {
		began := time.Now()
		_, err := q.Claim(t.Context(), everything(10))
		must(t, err)
		if l := q.Coverage(); l.Since.Before(began) {
			t.Errorf("a claim has looked at everything as of %v before it began", began.Sub(l.Since))
		}
	}
}

// TestG8_AKeyThatIsNotPrimaryIsFoundByItsIndex: the key may be unique without being the primary key. Without an index Check and the
// doctor say so.
func TestG8_AKeyThatIsNotPrimaryIsFoundByItsIndex(t *testing.T) {
	t.Parallel()
	e := custom(t, "varchar(36)", "tinyint", "datetime(6)")
	table := e.name(e.tables[0].Name)
	e.exec("ALTER TABLE " + table + " DROP PRIMARY KEY, ADD UNIQUE by_key (`Event Id`), ADD COLUMN n bigint NOT NULL AUTO_INCREMENT PRIMARY KEY")
	e.finished("w", adaptertest.QueueWaiting, waitingRows)
	e.finished("d", adaptertest.QueueDead, deadRows)
	q := e.open()
	q.db.SetMaxOpenConns(1)
	must(t, q.Check(t.Context()))
	none := e.work(q)
	e.finished("f", adaptertest.QueueDone, 5_000)
	for what, read := range e.work(q) {
		if read > none[what]+100 {
			t.Errorf("%s reads %d rows beside finished ones, %d without", what, read, none[what])
		}
	}
	warned := func() bool {
		return slices.ContainsFunc(q.Examine(t.Context()), func(f adapters.Finding) bool { return f.Text == keyless && strings.Contains(f.Fix, "ADD UNIQUE") })
	}
	if warned() {
		t.Error("the doctor misses an index that is there")
	}
	e.exec("ALTER TABLE " + table + " DROP INDEX by_key")
	must(t, q.Check(t.Context()))
	if !warned() {
		t.Error("the doctor does not miss an index of the key")
	}
}
