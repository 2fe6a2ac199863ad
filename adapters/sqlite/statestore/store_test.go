package statestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/adapters/sqlite/statestore"
)

// holdEnv makes the test binary a process that holds the lock of the database
// at this path.
const holdEnv = "OUTRIDER_TEST_HOLD_LOCK"

func TestLockOfAKilledProcessIsFree(t *testing.T) {
	if path := os.Getenv(holdEnv); path != "" {
		holdLock(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "o.db")
	state := openState(t, path)
	if err := state.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestLockOfAKilledProcessIsFree$")
	child.Env = append(os.Environ(), holdEnv+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.StdinPipe(); err != nil { // closed when we end: the child does not outlive us
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	err = state.Join(t.Context(), "second", time.Hour)
	if !errors.Is(err, adapters.ErrSecondInstance) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d on host", child.Process.Pid)) {
		t.Errorf("beside process %d: %v", child.Process.Pid, err)
	}
	_ = child.Process.Kill()
	_ = child.Wait() // ends with the signal
	if err := state.Join(t.Context(), "second", time.Hour); err != nil {
		t.Errorf("after the process was killed: %v", err)
	}
	lanes, err := state.Acquire(t.Context(), "second", "r", []int{0}, adapters.Slots)
	if err != nil || len(lanes) != 1 || lanes[0].Cursor.Position != 7 {
		t.Errorf("acquired %+v, %v", lanes, err)
	}
}

func holdLock(t *testing.T, path string) {
	state := openState(t, path)
	if err := state.Join(t.Context(), "first", time.Hour); err != nil {
		t.Fatal(err)
	}
	lanes, err := state.Acquire(t.Context(), "first", "r", []int{0}, adapters.Slots)
	if err != nil {
		t.Fatal(err)
	}
	s := adapters.Settlement{LaneRef: lanes[0].LaneRef, Epoch: lanes[0].Epoch, Cursor: adapters.Cursor{Position: 7}, NextSeq: 1}
	if _, err := state.Settle(t.Context(), []adapters.Settlement{s}); err != nil {
		t.Fatal(err)
	}
	fmt.Print(".")
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or until the parent has ended
}

func TestLinksAndURIsLeadToOneLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "o.db")
	state := openState(t, path)
	if err := state.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := state.Join(t.Context(), "a", time.Hour); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	for _, other := range []string{link, "file:" + path, "file://" + path + "?cache=private"} {
		if err := openState(t, other).Join(t.Context(), "b", time.Hour); !errors.Is(err, adapters.ErrSecondInstance) {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// TestSettleWaitsForTheApplication: the application holds the write lock while
// the state store settles; the settle succeeds when the lock is free.
func TestSettleWaitsForTheApplication(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, state := openApp(t, path), openState(t, path)
	if err := state.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := state.Join(t.Context(), "a", time.Hour); err != nil {
		t.Fatal(err)
	}
	lanes, err := state.Acquire(t.Context(), "a", "r", []int{0}, adapters.Slots)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(context.Background(), nil) // immediate: holds the lock
	if err != nil {
		t.Fatal(err)
	}
	settled := make(chan error, 1)
	go func() {
		_, err := state.Settle(t.Context(), []adapters.Settlement{{LaneRef: lanes[0].LaneRef, Epoch: lanes[0].Epoch, NextSeq: 1}})
		settled <- err
	}()
	if _, err := tx.Exec(`INSERT INTO app (value) VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-settled:
		t.Fatalf("settled beside another writer: %v", err)
	default:
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
}

func TestEveryCommandIsAudited(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, state := openApp(t, path), openState(t, path)
	if err := state.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := state.ChangeParked(t.Context(), adapters.ParkedCommand{
		Action: adapters.ParkedRedrive, Filter: adapters.ParkedFilter{ID: "e", Limit: 3}, By: "alice",
	}); err != nil {
		t.Fatal(err)
	}
	var got string
	err := db.QueryRow(`SELECT by || ' ' || action || ' ' || filter || ' ' || changed FROM outrider_audit`).Scan(&got)
	if want := `alice redrive {"id":"e","limit":"3"} 0`; err != nil || got != want {
		t.Errorf("audited %q, %v, want %q", got, err, want)
	}
}

// What a state store writes goes to the file that is there.
func TestG1_AStateStoreFollowsItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "s.db"), filepath.Join(dir, "other.db")
	state := openState(t, path)
	if err := state.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := openApp(t, path)
	if _, err := db.Exec(`VACUUM INTO '` + other + `'`); err != nil {
		t.Fatal(err)
	}
	paused := func(s *statestore.Store) int {
		t.Helper()
		pauses, err := s.Pauses(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		return len(pauses)
	}
	if _, err := state.Pause(t.Context(), adapters.Pause{Route: "r", By: "t"}); err != nil {
		t.Fatal(err)
	}
	for _, besides := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + besides); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if n := paused(state); n != 0 {
		t.Errorf("%d pauses are read from the file that is gone", n)
	}
	if _, err := state.Pause(t.Context(), adapters.Pause{Route: "r", By: "t"}); err != nil {
		t.Fatal(err)
	}
	if n := paused(openState(t, path)); n != 1 {
		t.Errorf("%d pauses are in the file, want 1", n)
	}
}

// openApp opens a file as its application does, with a table of its own.
func openApp(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE app (value)`); err != nil {
		t.Fatal(err)
	}
	return db
}
