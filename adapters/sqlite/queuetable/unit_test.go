package queuetable

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// texts are the statements for a layout whose columns of the key and times have these types.
func texts(key, times string) *statements {
	l := customLayout()
	types := map[string]string{"event id": key, "created": times, "locked_at": times, "next_try_at": times, "sent_at": times, "state": "text"}
	return newStatements(newTable(Table{Name: "t"}, &l, 0), types)
}

// TestKeysComeBack: the text of a key leads to the key again, and two keys have two texts, whatever a column keeps.
func TestKeysComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := texts(rapid.SampledFrom([]string{"text", "", "blob"}).Draw(t, "type"), "text")
		value := func(name string) any {
			text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"8", "'8'", "x'38'", "X'38'", "''", "'", "0.5", "1e3", "x'"})).Draw(t, name)
			switch rapid.IntRange(0, 3).Draw(t, name+" is") {
			case 0:
				return []byte(text)
			case 1:
				if s.affinity("Event Id") == affinityNone { // otherwise the column makes text of numbers
					return rapid.Int64().Draw(t, name+" number")
				}
			}
			return text
		}
		a, b := value("a"), value("b")
		if got := s.Key(s.KeyText(a)); fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", a, a) {
			t.Fatalf("%T %q has the text %q, which is read as %T %q", a, a, s.KeyText(a), got, got)
		}
		if same := fmt.Sprintf("%T %v", a, a) == fmt.Sprintf("%T %v", b, b); same != (s.KeyText(a) == s.KeyText(b)) {
			t.Fatalf("%T %q and %T %q have the texts %q and %q", a, a, b, b, s.KeyText(a), s.KeyText(b))
		}
	})
	s := texts("", "text")
	for text, want := range map[string]any{"a'": "a'", "'a'": "a", "'a''b'": "a'b", "'a'b'": "'a'b'", "x'3A'": "x'3A'", "x'3'": "x'3'", "8": int64(8), "+8": "+8", "8.0": "8.0", "0.5": 0.5} {
		if got := s.Key(text); got != want {
			t.Errorf("%s is read as %T %v, want %T %v", text, got, got, want, want)
		}
	}
}

// TestAffinities are those of https://www.sqlite.org/datatype3.html.
func TestAffinities(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]affinity{"INTEGER": affinityInteger, "bigint": affinityInteger, "CHARINT": affinityInteger, "varchar(9)": affinityText, "Clob": affinityText,
		"": affinityNone, "BLOB": affinityNone, "timestamp": affinityNumeric, "DECIMAL(10,5)": affinityNumeric, "boolean": affinityNumeric, "string": affinityNumeric} {
		if got := affinityOf(declared); got != want {
			t.Errorf("%q has affinity %d, want %d", declared, got, want)
		}
	}
}

func TestTimesOfColumns(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123)
	for value, want := range map[any]time.Time{nil: {}, int64(1_700_000_000_123): at, at: at, "2023-11-14T22:13:20.123Z": at, "2023-11-14 22:13:20.123": at} {
		if got, err := timeOf("c", value); err != nil || !got.Equal(want) {
			t.Errorf("%v is read as %v, %v, want %v", value, got, err, want)
		}
	}
	for _, value := range []any{"yesterday", 0.5, []byte("x")} {
		if got, err := timeOf("c", value); err == nil || !got.IsZero() || !strings.Contains(err.Error(), "c ") {
			t.Errorf("%v is read as %v, %v", value, got, err)
		}
	}
	stamp := time.UnixMicro(1_700_000_000_123_456)
	for times, want := range map[string]any{"text": "2023-11-14T22:13:20.123456Z", "integer": int64(1_700_000_000_123)} {
		s := texts("text", times)
		kept := s.timeValue("locked_at", textStamp, stamp)
		if back, err := timeOf("", kept); kept != want || err != nil || !back.Equal(s.stamp(stamp)) {
			t.Errorf("in a column of %s a stamp is kept as %v and read as %v, want %v", times, kept, back, s.stamp(stamp))
		}
	}
}

// TestValuesOfOutcomes: each outcome has its statement, and gives what that names.
func TestValuesOfOutcomes(t *testing.T) {
	t.Parallel()
	s := texts("text", "text")
	s.build()
	now := time.UnixMilli(1_700_000_000_000)
	for name, tt := range map[string]struct {
		effect       queue.Effect
		text         string
		message, due any
	}{
		"done":     {queue.Effect{Change: queue.Done, Attempts: 2}, s.Done, nil, nil},
		"dead":     {queue.Effect{Change: queue.DeadLetter, Status: "3", Error: "late"}, s.Dead["3"], "late", nil},
		"retry":    {queue.Effect{Change: queue.Retry, Error: "late", Due: now}, s.Retry, "late", "2023-11-14T22:13:20.000Z"},
		"at once":  {queue.Effect{Change: queue.Retry}, s.Retry, nil, nil},
		"released": {queue.Effect{Change: queue.Release}, s.Put, nil, nil},
		"left":     {queue.Effect{Change: queue.Leave}, "", nil, nil},
	} {
		text, values := s.settle(&settled{Effect: tt.effect, Lease: &queue.Lease{Key: "k", Stamp: now}}, now)
		if text != tt.text || values["error"] != tt.message || values["due"] != tt.due || values["key"] != "k" || values["attempts"] != tt.effect.Attempts {
			t.Errorf("%s: %q with %v", name, text, values)
		}
	}
}

func TestLayoutsAreChecked(t *testing.T) {
	t.Parallel()
	noted := *layout.OutboxFramework().Queue
	noted.Columns.Attempts, noted.Statuses.Processing, noted.Columns.Claimed = "", "", ""
	for want, cfg := range map[string]Config{
		"in SQLite a table without a status": {Layout: noted, Tables: noted.Tables},
		"no table is named":                  {Layout: customLayout()},
		"must not be negative":               {Layout: customLayout(), Tables: []Table{{Name: "t"}}, Batch: -1},
		"named twice":                        {Layout: customLayout(), Tables: []Table{{Name: "t"}, {Name: "T"}}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestInitIsRepeatable: a second init changes nothing, and an index of another layout is made again.
func TestInitIsRepeatable(t *testing.T) {
	t.Parallel()
	for _, p := range layout.All() {
		if p.Queue == nil || queue.Validate(p.Queue, "SQLite") != nil || p.Queue.Definitions[layout.SQLite].Columns == nil {
			continue
		}
		e := preset(t, p)
		schema := func() string {
			var all strings.Builder
			rows, err := e.db.Query("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
			must(t, err)
			defer func() { must(t, rows.Close()) }()
			for rows.Next() {
				var text string
				must(t, rows.Scan(&text))
				all.WriteString(text + "\n")
			}
			must(t, rows.Err())
			return all.String()
		}
		before := schema()
		did, err := Init(t.Context(), e.db, e.layout, true, e.tables...)
		must(t, err)
		if i := slices.IndexFunc(did, func(s string) bool { return !strings.HasSuffix(s, " exists") }); i >= 0 || schema() != before {
			t.Errorf("%s: a second init says %q", p.Name, did)
		}
		index := e.statements(e.tables[0]).byAge.name
		e.exec("DROP INDEX " + lite.Quote(index))
		e.exec("CREATE INDEX " + lite.Quote(index) + " ON " + lite.Quote(e.tables[0].Name) + " (" + lite.Quote(e.layout.Columns.Key) + ")")
		did, err = Init(t.Context(), e.db, e.layout, true, e.tables...)
		must(t, err)
		if n := len(slices.DeleteFunc(did, func(s string) bool { return s != "created index "+index })); n != 1 || schema() != before {
			t.Errorf("%s: after an index of another layout init says %q", p.Name, did)
		}
	}
}

// TestFindingsOfTheDoctor: each thing that is wrong is found, with its fix.
func TestFindingsOfTheDoctor(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		breaks string
		level  adapters.Level
		text   string
	}{
		"fine":            {"", 0, "they find unfinished rows by group and by age, and dead ones"},
		"no index":        {"DROP INDEX outbox_events_outrider_dead_idx", adapters.LevelWarning, "outbox_events_outrider_dead_idx is missing"},
		"no column":       {"ALTER TABLE outbox_events RENAME COLUMN retry_count TO tries", adapters.LevelBroken, "has no column retry_count"},
		"no table":        {"DROP TABLE outbox_events", adapters.LevelBroken, "does not exist"},
		"not WAL":         {"PRAGMA journal_mode = DELETE", adapters.LevelWarning, "wait for each other"},
		"unreadable time": {"UPDATE outbox_events SET created_at = 'yesterday'", adapters.LevelBroken, "of row 0000000000001"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := preset(t, layout.FlowCatalyst())
			e.tables = e.tables[:1]
			e.insert(adaptertest.QueueRow{Table: e.tables[0].Name, Key: "0000000000001", Group: "g", Payload: "{}", CreatedAt: time.Now()})
			if tt.breaks != "" {
				e.exec(tt.breaks)
			}
			q := e.queue()
			t.Cleanup(func() { must(t, q.Close()) })
			found := q.Examine(t.Context())
			worst := adapters.Level(0)
			for _, f := range found {
				worst = max(worst, f.Level)
			}
			if !slices.ContainsFunc(found, func(f adapters.Finding) bool { return f.Level == tt.level && strings.Contains(f.Text, tt.text) }) || worst != tt.level {
				t.Errorf("found %+v, want %q", found, tt.text)
			}
			if err := q.Check(t.Context()); (err != nil) != (tt.level == adapters.LevelBroken && name != "unreadable time") {
				t.Errorf("the check says %v", err)
			}
		})
	}
}

// TestRetentionKeepsWhatIsYoung: rows are removed by the time of their creation, no more than a batch at once, and none that is not delivered.
func TestRetentionKeepsWhatIsYoung(t *testing.T) {
	t.Parallel()
	e := preset(t, layout.FlowCatalyst())
	e.tables, e.layout.OldIsDeleted = e.tables[:1], true
	_, err := Init(t.Context(), e.db, e.layout, true, e.tables...)
	must(t, err)
	q := e.queue()
	t.Cleanup(func() { must(t, q.Close()) })
	for i, status := range []adaptertest.QueueStatus{adaptertest.QueueDone, adaptertest.QueueDone, adaptertest.QueueDone, adaptertest.QueueDead, adaptertest.QueueWaiting} {
		e.insert(adaptertest.QueueRow{Table: e.tables[0].Name, Key: fmt.Sprintf("old%010d", i), Payload: "{}", CreatedAt: time.Now().Add(-2 * time.Hour), Status: status})
	}
	e.insert(adaptertest.QueueRow{Table: e.tables[0].Name, Key: "young", Payload: "{}", CreatedAt: time.Now().Add(-time.Minute), Status: adaptertest.QueueDone})
	for i, tt := range []struct {
		r    adapters.Retention
		rows int64
		more bool
		left int
	}{
		{adapters.Retention{Keep: 3 * time.Hour}, 0, false, 6},
		{adapters.Retention{Keep: time.Hour, DryRun: true, Batch: 2}, 3, false, 6},
		{adapters.Retention{Keep: time.Hour, Batch: 2}, 2, true, 4},
		{adapters.Retention{Keep: time.Hour, Batch: 2}, 1, false, 3},
		{adapters.Retention{Keep: time.Hour}, 0, false, 3},
		{adapters.Retention{}, 1, false, 2},
	} {
		must(t, q.CheckRetention(t.Context(), tt.r))
		got, err := q.RetainDelivered(t.Context(), tt.r)
		var left int
		must(t, e.db.QueryRow("SELECT count(*) FROM outbox_events").Scan(&left))
		if err != nil || got.Rows != tt.rows || got.More != tt.more || left != tt.left {
			t.Errorf("step %d: %+v, %v, %d rows are left; want %d removed and %d left", i, got, err, left, tt.rows, tt.left)
		}
	}
	e.exec("DROP INDEX outbox_events_outrider_done_idx")
	again := e.queue()
	t.Cleanup(func() { must(t, again.Close()) })
	if err := again.CheckRetention(t.Context(), adapters.Retention{}); err == nil || !strings.Contains(err.Error(), "outrider_done_idx is missing") {
		t.Errorf("without the index of delivered rows: %v", err)
	}
}
