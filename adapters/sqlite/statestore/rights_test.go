package statestore_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// A file that is made here, and those that SQLite makes beside it, are their owner's alone. The doctor names others.
func TestG12_SQLiteFilesArePrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("its files have no modes")
	}
	path := filepath.Join(t.TempDir(), "state.db")
	s := openState(t, path)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has the mode %o, want 600", file, mode)
		}
	}
	warned := func() string {
		var fixes []string
		for _, f := range s.Examine(t.Context()) {
			if f.Level == adapters.LevelWarning {
				fixes = append(fixes, f.Fix)
			}
		}
		return strings.Join(fixes, "; ")
	}
	if fix := warned(); fix != "" {
		t.Errorf("the doctor warns of a private file: %s", fix)
	}
	for _, file := range []string{path, path + "-wal"} {
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if fix := warned(); !strings.Contains(fix, "chmod o= "+path+" "+path+"-wal") {
		t.Errorf("the fix of files that all can read: %q", fix)
	}
}
