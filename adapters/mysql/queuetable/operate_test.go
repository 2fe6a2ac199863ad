package queuetable

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
	"github.com/outriderhq/outrider/outbox"
)

// TestOperatorsSeeAndChangeRows: what `parked`, `journey`, the watchdog and the doctor ask for.
func TestOperatorsSeeAndChangeRows(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(testing.TB) *env{
		"FlowCatalyst":    document,
		"OutboxFramework": func(t testing.TB) *env { e := preset(t, layout.OutboxFramework()); e.fenced = false; return e },
		"Custom":          func(t testing.TB) *env { return custom(t, "varchar(36)", "tinyint", "datetime(6)") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testOperators(t, prepare(t))
		})
	}
}

func testOperators(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	var rows []adaptertest.QueueRow
	for i := range 6 {
		rows = append(rows, adaptertest.QueueRow{Table: e.tables[0].Name, Key: fmt.Sprintf("%013d", i), Group: string(rune('a' + i/2)),
			Payload: `{"type": "x"}`, CreatedAt: born.Add(time.Duration(i) * time.Second)})
	}
	e.insert(rows...)
	q := e.open()
	claimed := e.claim(q, 100)
	if len(claimed) != 6 {
		t.Fatalf("claimed %d rows", len(claimed))
	}
	if p, err := q.Processing(ctx, 4); err != nil || !e.layout.Claimless() && (p.Rows != 4 || !p.More) {
		t.Errorf("processing %+v, %v", p, err)
	}
	results := delivered(claimed...)
	for i := range results {
		switch claimed[i].ID {
		case rows[0].Key, rows[2].Key:
			results[i].Outcome, results[i].Attempts, results[i].Error = outbox.OutcomeDead, 2, "It FAILED"
		case rows[4].Key, rows[5].Key:
			results[i].Outcome = outbox.OutcomeReleased
		}
	}
	if lost, err := q.Settle(ctx, results); err != nil || len(lost) > 0 {
		t.Fatalf("%d lost, %v", len(lost), err)
	}

	waiting, err := q.Waiting(ctx, 10)
	if err != nil || len(waiting) != 2 || waiting[0].ID != rows[4].Key || waiting[0].Group != claimed[len(claimed)-1].Group {
		t.Errorf("waiting are %+v, %v", waiting, err)
	}
	if b, err := q.Unfinished(ctx, 10); err != nil || b.Rows != 2 || !b.Oldest.Equal(rows[4].CreatedAt) {
		t.Errorf("unfinished %+v, %v", b, err)
	}
	page, err := q.WaitingByAge(ctx, adapters.DeadKey{}, 1)
	if err != nil || len(page) != 1 || page[0].At.Key != rows[4].Key {
		t.Fatalf("by age %+v, %v", page, err)
	}
	next, err := q.WaitingByAge(ctx, page[0].At, 5)
	if err != nil || len(next) != 1 || next[0].At.Key != rows[5].Key {
		t.Fatalf("then %+v, %v", next, err)
	}
	for at, want := range map[adapters.DeadKey]bool{page[0].At: true, next[0].At: false} {
		if first, err := q.IsFirst(ctx, at); err != nil || first != want {
			t.Errorf("row %s is first: %t, %v", at.Key, first, err)
		}
	}
	found, err := q.Find(ctx, rows[1].Key, 5)
	if err != nil || len(found.Rows) != 1 || found.Rows[0].Status != adapters.RowDone || found.Rows[0].Row.Group == "" {
		t.Errorf("found %+v, %v", found, err)
	}
	testDead(t, e, q, rows)
}

// testDead looks at the two rows that are dead, redrives one and purges the other.
func testDead(t *testing.T, e *env, q *Queue, rows []adaptertest.QueueRow) {
	t.Helper()
	ctx := t.Context()
	dead, err := q.Dead(ctx, adapters.DeadFilter{Limit: 1})
	if err != nil || len(dead) != 1 || dead[0].At.Key != rows[0].Key || dead[0].Error != "It FAILED" || dead[0].Died.IsZero() {
		t.Fatalf("dead are %+v, %v", dead, err)
	}
	more, err := q.Dead(ctx, adapters.DeadFilter{After: dead[0].At})
	if err != nil || len(more) != 1 || more[0].At.Key != rows[2].Key {
		t.Fatalf("then %+v, %v", more, err)
	}
	for name, f := range map[string]adapters.DeadFilter{
		"group": {Group: more[0].Row.Group}, "id": {ID: rows[2].Key}, "error": {Error: "failed", After: dead[0].At},
		"before": {Before: time.Now().Add(time.Hour), After: dead[0].At},
	} {
		if got, err := q.Dead(ctx, f); err != nil || len(got) != 1 || got[0].At != more[0].At {
			t.Errorf("by %s: %+v, %v", name, got, err)
		}
	}
	counts, _, err := q.CountDead(ctx, 10, false)
	total := 0
	for _, c := range counts {
		total += c.Rows
	}
	if err != nil || total != 2 {
		t.Errorf("counted %+v, %v", counts, err)
	}
	record := func(context.Context, int) error { return nil }
	if n, err := q.ChangeDead(ctx, adapters.ParkedRedrive, []adapters.DeadKey{dead[0].At}, record); err != nil || n != 1 {
		t.Errorf("redriven %d, %v", n, err)
	}
	if n, err := q.ChangeDead(ctx, adapters.ParkedPurge, []adapters.DeadKey{dead[0].At, more[0].At}, record); err != nil || n != 1 {
		t.Errorf("purged %d, %v: a row that waits again is not dead", n, err)
	}
	if left := e.rows(); len(left) != 5 || left[0].Status != adaptertest.QueueWaiting || left[0].Attempts != 0 {
		t.Errorf("left are %+v", left)
	}
	for _, f := range q.Examine(ctx) {
		if f.Level == adapters.LevelBroken || f.Level == adapters.LevelUnknown {
			t.Errorf("doctor: %+v", f)
		}
	}
}

// TestG1_KeysOfEveryType: an id names one row whatever the type of keys is.
func TestG1_KeysOfEveryType(t *testing.T) {
	t.Parallel()
	lookalikes := []string{"8xyz", "1e1", "08", "+8", " 8", "8.0", "8 ", "7f3c9a1e-1111-4222-8333-444455556666"}
	for kind, keys := range map[string]struct {
		inserted []any
		ids      []string
		others   []string
	}{
		"bigint":                          {[]any{7, 8, 10, 9007199254740992, 9007199254740993}, []string{"7", "8", "10", "9007199254740992", "9007199254740993"}, lookalikes},
		"bigint unsigned":                 {[]any{8, uint64(18446744073709551615)}, []string{"8", "18446744073709551615"}, append(lookalikes, "18446744073709551616", "18446744073709551614")},
		"int(4) zerofill":                 {[]any{8, 10}, []string{"8", "10"}, append(lookalikes, "0008")},
		"decimal(30, 0)":                  {[]any{8, "9007199254740992", "9007199254740993"}, []string{"8", "9007199254740992", "9007199254740993"}, lookalikes},
		"varchar(40)":                     {[]any{"8", "08", "a"}, []string{"8", "08", "a"}, []string{"A", "a ", "á", "8 "}},
		"varchar(40) collate utf8mb4_bin": {[]any{"a", "A", "b"}, []string{"a", "A", "b"}, []string{"a ", "B"}},
		"char(36)":                        {[]any{"7f3c9a1e-1111-4222-8333-444455556666"}, []string{"7f3c9a1e-1111-4222-8333-444455556666"}, []string{"7f3c9a1e-1111-4222-8333-444455556666 "}},
		"binary(4)":                       {[]any{[]byte("abcd"), []byte("ab\x00\x00")}, []string{"61626364", "61620000"}, []string{"abcd", "6162", "6162636", "ab"}},
		"varbinary(20)":                   {[]any{[]byte("ab"), []byte("ab\x00"), []byte("AB")}, []string{"6162", "616200", "4142"}, []string{"ab", "61"}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := custom(t, kind, "tinyint", "datetime(6)")
			q := e.queue()
			t.Cleanup(func() { must(t, q.Close()) })
			for _, key := range keys.inserted {
				e.exec("INSERT INTO `Out ``Box` (`Event Id`, event_type, body, state) VALUES (?, 't', '{}', 3)", key)
			}
			adaptertest.QueueIDs(t, q, keys.ids, keys.others...)
		})
	}
}

// TestAChangeThatIsRepeatedIsRecordedOnce: a conflict with another transaction at the commit, as members of a cluster have it, undoes a change
// that is recorded already.
func TestAChangeThatIsRepeatedIsRecordedOnce(t *testing.T) {
	t.Parallel()
	e := document(t)
	row := adaptertest.QueueRow{Table: e.tables[0].Name, Key: "a", Payload: "{}", CreatedAt: time.UnixMilli(1_700_000_000_000), Status: adaptertest.QueueDead}
	e.insert(row)
	s, conflicts := e.statements(e.tables[0]), 2
	o := queue.NewOperators(queue.Database{Queue: "mysql queue", DB: e.db, Tables: e.tables, Layout: &e.layout, Wrap: wrap,
		Describe: func(context.Context, string) (queue.Dialect, error) { return s, nil },
		Transact: func(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
			return my.Transact(ctx, db, func(tx *sql.Tx) error {
				if err := f(tx); err != nil || conflicts == 0 {
					return err
				}
				conflicts--
				return &mysql.MySQLError{Number: my.Deadlock}
			})
		}})
	recorded := 0
	n, err := o.ChangeDead(t.Context(), adapters.ParkedPurge, []adapters.DeadKey{{Table: row.Table, Key: row.Key}}, func(context.Context, int) error { recorded++; return nil })
	if err != nil || n != 1 || recorded != 1 || conflicts != 0 || len(e.rows()) != 0 {
		t.Errorf("changed %d rows, recorded %d times, %v", n, recorded, err)
	}
}
