package owntable_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// replace puts another file in the place of one, as a rename does.
func replace(t *testing.T, path, by string) {
	t.Helper()
	for _, beside := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + beside); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Rename(by, path); err != nil {
		t.Fatal(err)
	}
}

// A file that is replaced under a running source: what is written to the new one would
// never be read by the connections that are open.
func TestG1_AReplacedFileIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "o.db"), filepath.Join(dir, "other.db")
	db, source := openApp(t, path), openSource(t, path)
	insert(t, db, adapters.Row{ID: "a", Type: "t", Payload: []byte("1")})
	got, cursors := readAll(t, source, [adapters.Slots]adapters.Cursor{})
	if _, err := db.Exec(`VACUUM INTO '` + other + `'`); err != nil {
		t.Fatal(err)
	}
	copied := openApp(t, other)
	insert(t, copied, adapters.Row{ID: "b", Type: "t", Payload: []byte("1")}, adapters.Row{ID: "c", Type: "t", Payload: []byte("1")})
	if err := copied.Close(); err != nil { // with what is beside the file
		t.Fatal(err)
	}
	replace(t, path, other)

	_, err := source.Fetch(t.Context(), []adapters.Read{{Slot: 0, From: cursors[0], Limit: 1}}, func(int, *adapters.Row) bool { return true })
	if !errors.Is(err, adapters.ErrWentBack) || !strings.Contains(fmt.Sprint(err), "outrider rebase") {
		t.Errorf("the file was replaced: %v", err)
	}
	// The cursors mean the same in a copy that continued.
	more, _ := readAll(t, source, cursors)
	slices.Sort(more)
	if ids := slices.Concat(got, more); !slices.Equal(ids, []string{"a", "b", "c"}) {
		t.Errorf("got %v", ids)
	}
}
