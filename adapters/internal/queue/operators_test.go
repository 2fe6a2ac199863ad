package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
)

// plain is a dialect for tables in SQLite with times in milliseconds.
type plain struct {
	name  string
	l     *layout.Queue
	lacks string
}

func (p plain) Table() string           { return p.name }
func (p plain) Layout() *layout.Queue   { return p.l }
func (p plain) Quote(s string) string   { return `"` + s + `"` }
func (p plain) Attempts() string        { return `coalesce("attempts", 0)` }
func (p plain) Group() string           { return `"grp"` }
func (p plain) Lacks(State) string      { return p.lacks }
func (p plain) SkipLocked() string      { return "" }
func (p plain) Grouped() string         { return "FROM " + p.name + ` WHERE "grp" = ? AND ` + p.in(Unfinished) }
func (p plain) Aged(state State) string { return "FROM " + p.name + " WHERE " + p.in(state) }
func (p plain) Redrive() Statement {
	return Statement{Text: "UPDATE " + p.name + " SET status = 'PENDING', attempts = 0"}
}
func (p plain) Key(text string) any     { return text }
func (p plain) KeyText(v any) string    { return fmt.Sprint(v) }
func (p plain) Text(v any) string       { return fmt.Sprint(v) }
func (p plain) GroupValue(s string) any { return s }

func (p plain) GroupName(value string) (string, bool) { return value, true }
func (p plain) BytePayloads() (bytes, orJSON bool)    { return false, false }

func (p plain) Raw(column string) string {
	if column == "" {
		return "NULL"
	}
	return p.Quote(column)
}

func (p plain) Statuses(all ...string) string {
	return "status IN ('" + strings.Join(all, "', '") + "')"
}

func (p plain) in(state State) string {
	switch state {
	case Dead:
		return p.Statuses(p.l.Dead()...)
	case Delivered:
		return p.Statuses(p.l.Statuses.Done)
	case Unfinished:
	}
	return p.Statuses(append(p.l.Statuses.Waiting(), p.l.Statuses.Processing)...)
}

func (p plain) After(at adapters.DeadKey) Statement {
	return Statement{"(created, id) > (CAST(? AS INTEGER), ?)", []any{at.Created, at.Key}}
}

func (p plain) Time(column string, v any) (time.Time, error) {
	switch n := v.(type) {
	case nil:
		return time.Time{}, nil
	case int64:
		return time.UnixMilli(n), nil
	}
	return time.Time{}, fmt.Errorf("%s is no time", column)
}

// operated are the operators' methods over two tables.
type operated struct {
	Operators
	t     *testing.T
	db    *sql.DB
	lacks string
}

func newOperated(t *testing.T) *operated {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	l := &layout.Queue{Columns: layout.Columns{Key: "id", Payload: "payload", Status: "status", Created: "created", Claimed: "claimed", Type: "type", Group: "grp",
		Attempts: "attempts", NextAttempt: "due", Error: "error", Done: "done"},
		Statuses: layout.Statuses{Pending: "PENDING", Processing: "PROCESSING", Done: "DONE", Dead: "DEAD"}}
	o := &operated{t: t, db: db}
	o.Operators = NewOperators(Database{Queue: "plain queue", DB: db, Tables: []layout.Table{{Name: "a", Kind: "A"}, {Name: "b"}}, Layout: l, MaxRow: 8 << 20,
		Describe: func(_ context.Context, table string) (Dialect, error) { return plain{table, l, o.lacks}, nil },
		Transact: func(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if err := f(tx); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		},
		Wrap: func(table, what string, err error) error {
			if err == nil {
				return nil
			}
			return fmt.Errorf("%s: %s: %w", table, what, err)
		}})
	for _, table := range []string{"a", "b"} {
		o.exec("CREATE TABLE " + table + " (id TEXT COLLATE NOCASE PRIMARY KEY, payload TEXT, status TEXT, created INTEGER, claimed INTEGER, type TEXT, grp TEXT, attempts INTEGER, due INTEGER, error TEXT, done INTEGER)")
	}
	return o
}

func (o *operated) exec(text string, args ...any) {
	o.t.Helper()
	if _, err := o.db.Exec(text, args...); err != nil {
		o.t.Fatal(err)
	}
}

// insert writes a row; age is that of its creation.
func (o *operated) insert(table, id, status string, age time.Duration) {
	o.t.Helper()
	o.exec("INSERT INTO "+table+" (id, payload, status, created, type, grp, attempts, error) VALUES (?, '{}', ?, ?, 'made', 'g', 1, 'It failed')",
		id, status, time.Now().Add(-age).UnixMilli())
}

// dead are the keys of all pages.
func (o *operated) dead(f adapters.DeadFilter) (keys []string, pages int) {
	o.t.Helper()
	for {
		page, err := o.Dead(o.t.Context(), f)
		if err != nil {
			o.t.Fatal(err)
		}
		if len(page) == 0 {
			return keys, pages
		}
		pages++
		for i := range page {
			keys = append(keys, page[i].At.Table+page[i].At.Key)
		}
		f.After = page[len(page)-1].At
	}
}

func TestPagesOfDeadRows(t *testing.T) {
	o := newOperated(t)
	for i := range 3 {
		o.insert("a", strconv.Itoa(i), "DEAD", time.Duration(9-i)*time.Hour)
		o.insert("b", strconv.Itoa(i), "DEAD", time.Duration(3-i)*time.Hour)
	}
	o.insert("a", "done", "DONE", time.Hour)
	o.insert("a", "fails", "PENDING", time.Hour)
	o.insert("a", "failed", "PENDING", time.Hour)
	o.exec("UPDATE a SET due = ? WHERE id = 'fails'", time.Now().Add(time.Hour).UnixMilli())
	o.exec("UPDATE a SET due = ? WHERE id = 'failed'", time.Now().Add(-time.Minute).UnixMilli())
	o.exec("UPDATE b SET error = 'another', grp = 'h' WHERE id = '1'")
	o.exec("UPDATE a SET claimed = ? WHERE id = '0'", time.Now().UnixMilli())
	o.insert("b", "Z", "DEAD", 0)
	for name, c := range map[string]struct {
		filter adapters.DeadFilter
		want   []string
	}{
		"all":                {adapters.DeadFilter{}, []string{"a0", "a1", "a2", "b0", "b1", "b2", "bZ"}},
		"in pages":           {adapters.DeadFilter{Limit: 2}, []string{"a0", "a1", "a2", "b0", "b1", "b2", "bZ"}},
		"those in backoff":   {adapters.DeadFilter{Retrying: true}, []string{"a0", "a1", "a2", "afails", "b0", "b1", "b2", "bZ"}},
		"of an id":           {adapters.DeadFilter{ID: "1"}, []string{"a1", "b1"}},
		"of no id":           {adapters.DeadFilter{ID: "z"}, nil},
		"of a group":         {adapters.DeadFilter{Group: "A:g"}, []string{"a0", "a1", "a2"}},
		"of another group":   {adapters.DeadFilter{Group: "h"}, []string{"b1"}},
		"by error":           {adapters.DeadFilter{Error: "it FAILED", Limit: 1}, []string{"a0", "a1", "a2", "b0", "b2", "bZ"}},
		"that died before":   {adapters.DeadFilter{Before: time.Now().Add(-150 * time.Minute), Limit: 1}, []string{"a1", "a2", "b0"}},
		"behind all of them": {adapters.DeadFilter{After: adapters.DeadKey{Table: "b", Created: strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)}}, nil},
	} {
		if got, _ := o.dead(c.filter); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if _, err := o.Dead(t.Context(), adapters.DeadFilter{After: adapters.DeadKey{Table: "c"}}); err == nil {
		t.Error("a page of a table that the queue does not have")
	}
	o.exec("UPDATE a SET payload = '\"' || printf('%.*c', ?, 'x') || '\"'", DeadPageBytes-1)
	if _, pages := o.dead(adapters.DeadFilter{Payload: true}); pages != 4 {
		t.Errorf("%d pages with payloads that fill one each, and of another table", pages)
	}
}

func TestDeadRowsChangeWithTheirRecord(t *testing.T) {
	o := newOperated(t)
	o.insert("a", "1", "DEAD", time.Hour)
	o.insert("a", "2", "DONE", time.Hour)
	o.insert("b", "1", "DEAD", time.Hour)
	keys := []adapters.DeadKey{{Table: "a", Key: "1"}, {Table: "a", Key: "2"}, {Table: "b", Key: "1"}}
	refused, recorded := errors.New("refused"), 0
	count := func(_ context.Context, n int) error {
		if recorded += n; n == 0 {
			return refused
		}
		return nil
	}
	for _, c := range []struct {
		name    string
		action  adapters.ParkedAction
		keys    []adapters.DeadKey
		record  func(context.Context, int) error
		changed int
		fails   bool
	}{
		{"the record fails", adapters.ParkedPurge, keys, func(context.Context, int) error { return refused }, 0, true},
		{"no table of the queue's", adapters.ParkedPurge, []adapters.DeadKey{{Table: "c", Key: "1"}}, count, 0, true},
		{"no change of dead rows", "skip", keys, count, 0, true},
		{"redrive", adapters.ParkedRedrive, keys[:2], count, 1, false},
		{"again", adapters.ParkedRedrive, keys[:2], count, 0, false},
		{"purge", adapters.ParkedPurge, keys, count, 1, false},
	} {
		if n, err := o.ChangeDead(t.Context(), c.action, c.keys, c.record); n != c.changed || (err != nil) != c.fails {
			t.Errorf("%s: %d rows, %v", c.name, n, err)
		}
	}
	var status string
	var attempts, left int
	if err := o.db.QueryRow("SELECT status, attempts, (SELECT COUNT(*) FROM b) FROM a WHERE id = '1'").Scan(&status, &attempts, &left); err != nil || status != "PENDING" || attempts != 0 || left != 0 {
		t.Errorf("%s after %d attempts, %d rows that were purged are left, %v", status, attempts, left, err)
	}
	if recorded != 2 {
		t.Errorf("recorded %d changes, want 2", recorded)
	}
}

func TestCountsStopAtTheirLimit(t *testing.T) {
	o := newOperated(t)
	for i := range 5 {
		o.insert("a", fmt.Sprint("d", i), "DEAD", time.Hour)
		o.insert("a", fmt.Sprint("w", i), "PENDING", time.Duration(i+1)*time.Hour)
	}
	o.insert("b", "w", "PROCESSING", 9*time.Hour)
	for most, want := range map[int]int{3: 3, 5: 5, 9: 5} {
		counts, more, err := o.CountDead(t.Context(), most, true)
		if err != nil || len(counts) != 1 || counts[0].Rows != want || counts[0].Row.Type != "made" || more != (most < 5) {
			t.Errorf("at most %d dead rows: %+v, %v, %v", most, counts, more, err)
		}
	}
	for most, want := range map[int]int{4: 4, 6: 6, 7: 6} {
		b, err := o.Unfinished(t.Context(), most)
		if err != nil || b.Rows != want || b.More != (most < 6) || time.Since(b.Oldest).Round(time.Hour) != 9*time.Hour {
			t.Errorf("at most %d unfinished rows: %+v, %v", most, b, err)
		}
	}
}

func TestRowsThatWait(t *testing.T) {
	o := newOperated(t)
	o.insert("a", "late", "PENDING", time.Hour)
	o.insert("a", "7f", "PENDING", 2*time.Hour)
	o.insert("a", "held", "PROCESSING", 3*time.Hour)
	o.insert("b", "7F", "PENDING", time.Hour)
	var keys []string
	for after := (adapters.DeadKey{}); ; {
		page, err := o.WaitingByAge(t.Context(), after, 1)
		if err != nil || len(page) > 1 {
			t.Fatal(len(page), err)
		}
		if len(page) == 0 {
			break
		}
		after = page[0].At
		keys = append(keys, after.Table+after.Key)
	}
	if want := []string{"a7f", "alate", "b7F"}; !slices.Equal(keys, want) {
		t.Errorf("%v wait, want %v", keys, want)
	}
	for key, want := range map[string]bool{"a7f": false, "b7F": true, "aheld": false, "anone": false} { // the first one is behind what is processed
		first, err := o.IsFirst(t.Context(), adapters.DeadKey{Table: key[:1], Key: key[1:]})
		if err != nil || first != want {
			t.Errorf("%s is the first of its group: %v, %v", key, first, err)
		}
	}
	if rows, err := o.Waiting(t.Context(), 1); err != nil || len(rows) != 2 || rows[0].ID != "7f" || rows[0].Group != "A:g" || rows[0].Payload != nil {
		t.Errorf("shown: %+v, %v", rows, err)
	}
	found, err := o.Find(t.Context(), "7f", 9)
	if err != nil || len(found.Rows) != 1 || found.Rows[0].Table != "a" || found.Rows[0].Status != adapters.RowWaiting || found.Rows[0].Attempts != 1 {
		t.Errorf("found %+v, %v", found.Rows, err)
	}
}

func TestRetentionRemovesOldRowsInSteps(t *testing.T) {
	o := newOperated(t)
	for i := range 5 {
		o.insert("a", strconv.Itoa(i), "DONE", time.Duration(i+1)*time.Hour)
	}
	o.insert("a", "dead", "DEAD", 9*time.Hour)
	for _, c := range []struct {
		r      adapters.Retention
		rows   int64
		more   bool
		oldest time.Duration
	}{
		{adapters.Retention{Keep: 150 * time.Minute, Batch: 2, DryRun: true}, 3, false, 5 * time.Hour},
		{adapters.Retention{Keep: 150 * time.Minute, Batch: 2}, 2, true, 0},
		{adapters.Retention{Keep: 150 * time.Minute, Batch: 2}, 1, false, 2 * time.Hour},
		{adapters.Retention{Keep: 150 * time.Minute, Batch: 2}, 0, false, 2 * time.Hour},
	} {
		step, err := o.RetainDelivered(t.Context(), c.r)
		if err != nil || step.Rows != c.rows || step.More != c.more || step.Oldest.Round(time.Hour) != c.oldest {
			t.Errorf("%+v: %+v, %v", c.r, step, err)
		}
	}
	for _, lacks := range []string{"", "done_index"} {
		if o.lacks = lacks; (o.CheckRetention(t.Context(), adapters.Retention{}) != nil) != (lacks != "") {
			t.Errorf("without the index %q", lacks)
		}
	}
}
