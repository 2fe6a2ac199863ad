package owntable_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/adapters/sqlite/owntable"
)

func TestRolledBackPositionsAreNotMissed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, source := openApp(t, path), openSource(t, path)
	insert(t, db, adapters.Row{ID: "a", Type: "t", Payload: []byte("1")})
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(`INSERT INTO outrider_outbox (id, type, payload) VALUES ('lost', 't', '1')`); err != nil {
		t.Fatal(err)
	}
	got, cursors := readAll(t, source, [adapters.Slots]adapters.Cursor{}) // beside an open transaction
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	insert(t, db, adapters.Row{ID: "b", Type: "t", Payload: []byte("1")})
	more, cursors := readAll(t, source, cursors)
	if _, err := db.Exec(`DELETE FROM outrider_outbox`); err != nil { // retention
		t.Fatal(err)
	}
	insert(t, db, adapters.Row{ID: "c", Type: "t", Payload: []byte("1")})
	last, _ := readAll(t, source, cursors)
	if ids := slices.Concat(got, more, last); !slices.Equal(ids, []string{"a", "b", "c"}) {
		t.Errorf("got %v", ids)
	}
}

// readAll fetches every slot once and returns the ids.
func readAll(t *testing.T, source *owntable.Source, from [adapters.Slots]adapters.Cursor) (ids []string, next [adapters.Slots]adapters.Cursor) {
	t.Helper()
	reads := make([]adapters.Read, adapters.Slots)
	for slot := range reads {
		reads[slot] = adapters.Read{Slot: slot, From: from[slot], Limit: 100}
	}
	results, err := source.Fetch(t.Context(), reads, func(_ int, row *adapters.Row) bool {
		ids = append(ids, row.ID)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	for slot := range results {
		next[slot] = results[slot].Next
	}
	return ids, next
}

func TestG7_LargePayloadsComeInPages(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, source := openApp(t, path), openSource(t, path)
	const n = 12
	big := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	for i := range n {
		insert(t, db, adapters.Row{ID: strconv.Itoa(i), Type: "t", Payload: big})
	}
	var cursors [adapters.Slots]adapters.Cursor
	total := 0
	for fetches := 1; total < n; fetches++ {
		var ids []string
		ids, cursors = readAll(t, source, cursors)
		if len(ids) > 9 || len(ids) == 0 {
			t.Fatalf("one fetch held %d payloads of 1 MiB", len(ids))
		}
		total += len(ids)
	}
	if total != n {
		t.Errorf("got %d rows of %d", total, n)
	}
}

func TestBrokenRowsNameTheColumn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, source := openApp(t, path), openSource(t, path)
	for column, value := range map[string]string{
		"tags": `{"a": 1}`, "headers": `nonsense`, "occurred_at": `yesterday`, "created_at": `1`, "payload": `{"a":`,
	} {
		row := map[string]string{"payload": "{}", column: value}
		var names, values []string
		for n, v := range row {
			names, values = append(names, n), append(values, "'"+v+"'")
		}
		sql := `INSERT INTO outrider_outbox (type, ` + strings.Join(names, ", ") + `) VALUES ('` + column + `', ` + strings.Join(values, ", ") + `)`
		if _, err := db.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	reads := make([]adapters.Read, adapters.Slots)
	for slot := range reads {
		reads[slot] = adapters.Read{Slot: slot, Limit: 100}
	}
	_, err := source.Fetch(t.Context(), reads, func(_ int, row *adapters.Row) bool {
		seen++
		if row.Err == nil || !strings.Contains(row.Err.Error(), row.Type) || row.ID == "" {
			t.Errorf("the row with a broken %s has the error %v", row.Type, row.Err)
		}
		return true
	})
	if err != nil || seen != 5 {
		t.Errorf("%d rows, %v", seen, err)
	}
	for _, payloads := range []string{"NULL, NULL", "'{}', x'00'"} {
		if _, err := db.Exec(`INSERT INTO outrider_outbox (type, payload, payload_bytes) VALUES ('t', ` + payloads + `)`); err == nil {
			t.Errorf("the table took payloads %s", payloads)
		}
	}
}

func TestTimesAsDriversWriteThem(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, source := openApp(t, path), openSource(t, path)
	at := time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, text := range []string{
		"2024-02-03T04:05:06Z", "2024-02-03T05:05:06+01:00", "2024-02-03 04:05:06", "2024-02-03 04:05:06+00:00",
		"2024-02-03T04:05:06", at.String(), at.String() + " m=+0.01",
	} {
		if _, err := db.Exec(`INSERT INTO outrider_outbox (type, payload, occurred_at) VALUES ('t', '1', ?)`, text); err != nil {
			t.Fatal(err)
		}
	}
	reads := make([]adapters.Read, adapters.Slots)
	for slot := range reads {
		reads[slot] = adapters.Read{Slot: slot, Limit: 100}
	}
	if _, err := source.Fetch(t.Context(), reads, func(_ int, row *adapters.Row) bool {
		if row.Err != nil || !row.OccurredAt.Equal(at) {
			t.Errorf("position %d: %v, %v", row.Position, row.OccurredAt, row.Err)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db := openApp(t, path)
	for table, ddl := range map[string]string{
		"reused": `CREATE TABLE reused (position INTEGER PRIMARY KEY)`,
		"narrow": `CREATE TABLE narrow (position INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT)`,
	} {
		if _, err := db.Exec(ddl); err != nil {
			t.Fatal(err)
		}
		if _, err := owntable.Init(t.Context(), db, table); err == nil {
			t.Errorf("init took table %s for ours", table)
		}
	}
	for table, want := range map[string]string{
		"absent": "outrider init", "reused": "AUTOINCREMENT", "narrow": "payload",
	} {
		source, err := owntable.New(owntable.Config{Path: path, Table: table})
		if err != nil {
			t.Fatal(err)
		}
		if err := source.Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("table %s: %v", table, err)
		}
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	}
	missing := filepath.Join(t.TempDir(), "none.db")
	source := openSource(t, missing)
	if err := source.Check(t.Context()); err == nil {
		t.Error("a file that does not exist was checked")
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the source created the file")
	}
	for _, path := range []string{"", ":memory:"} {
		if _, err := sqlite.Open(path); err == nil {
			t.Errorf("opened %q", path)
		}
	}
}
