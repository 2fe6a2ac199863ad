package owntable_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// A row at the cursor that somebody has deleted alone says nothing of the file's age,
// and one that was deleted while a younger row is before it says that it went back.
func TestRowsThatTheUserDeletes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, source := openApp(t, path), openSource(t, path)
	for i := range 5 {
		insert(t, db, adapters.Row{ID: strconv.Itoa(i), Type: "t", Group: "g", Payload: []byte("1")})
	}
	_, next := readAll(t, source, [adapters.Slots]adapters.Cursor{})
	at := next[adapters.SlotOf("g", "4")]
	if at.Position != 5 || at.Anchor.IsZero() {
		t.Fatalf("the cursor is %+v", at)
	}
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("DELETE FROM outrider_outbox WHERE position IN (2, 5)")
	if err := source.Validate(t.Context(), at); err != nil {
		t.Errorf("the last row was deleted: %v", err)
	}
	exec("UPDATE outrider_outbox SET created_at = ? WHERE position = 4", time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano))
	if err := source.Validate(t.Context(), at); err == nil || !strings.Contains(err.Error(), "is not there, though rows before it are") {
		t.Errorf("with a younger row before it: %v", err)
	}
}

// An application dates rows as it likes, and removes rows by date. That proves nothing.
func TestDatesOfRowsProveNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, source := openApp(t, path), openSource(t, path)
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
	for i := range 20 {
		insert(t, db, adapters.Row{ID: strconv.Itoa(i), Type: "t", Group: "g", Payload: []byte("1")})
		exec("UPDATE outrider_outbox SET created_at = ? WHERE position = ?", at(-time.Duration(i)*time.Minute), i+1)
	}
	_, next := readAll(t, source, [adapters.Slots]adapters.Cursor{})
	cursor := next[adapters.SlotOf("g", "")]
	if cursor.Position != 20 {
		t.Fatalf("the cursor is %+v", cursor)
	}
	exec("UPDATE outrider_outbox SET created_at = ? WHERE position = 20", at(-time.Hour))
	if err := source.Validate(t.Context(), cursor); err != nil {
		t.Errorf("the row was given an earlier date: %v", err)
	}
	exec("DELETE FROM outrider_outbox WHERE position > 10")
	if err := source.Validate(t.Context(), cursor); err != nil {
		t.Errorf("old rows were removed: %v", err)
	}
}
