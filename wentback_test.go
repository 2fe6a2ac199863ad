package outrider_test

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/internal/testenv"
)

// copyDir puts a copy of a directory in place of another one.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// dataOf returns a server's data directory.
func dataOf(t *testing.T, db *sql.DB) (dir string) {
	t.Helper()
	must(t, db.QueryRowContext(t.Context(), "SHOW data_directory").Scan(&dir))
	return dir
}

// A database that was put back to an earlier state and has caught up with the cursors is
// noticed: by a relay that runs, with its state in the same database, which begins anew
// with the durable cursors; and by one whose state is elsewhere, which stops and says
// rebase. Either way everything arrives.
func TestG1_ADatabaseThatWentBackAndCaughtUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		running   bool // the relay runs meanwhile
		elsewhere bool // the state is in another database
	}{
		{"running, state beside", true, false},
		{"running, state elsewhere", true, true},
		{"stopped, state elsewhere", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartPostgres(t)
			state := ""
			if tt.elsewhere {
				state = fmt.Sprintf("state: {url: %q}\n", testenv.Postgres(t))
			}
			cfg := configured(t, state+`sources: {app: {type: postgres, url: %q}}`+allRoutes, server.URL())
			db := openPostgres(t, server.URL())
			data := dataOf(t, db)
			bus := newCollector()
			all := write(t, db, "outrider_outbox", "first", 50)
			r := begin(t, cfg, bus)
			bus.awaits(t, all)
			r.stop(t)

			server.Stop("fast")
			saved := filepath.Join(t.TempDir(), "copy")
			copyDir(t, data, saved)
			server.Start()
			_ = db.Close()
			db = openPostgres(t, server.URL())
			r = begin(t, cfg, bus)
			lost := write(t, db, "outrider_outbox", "lost", 100)
			bus.awaits(t, lost)
			if !tt.running {
				r.stop(t)
			} else {
				// Its cursors are durable before the server ends.
				eventually(t, "all is settled", func() bool { return behind(t, cfg) == 0 })
			}
			server.Stop("immediate")
			copyDir(t, saved, data)
			server.Start()
			_ = db.Close()
			db = openPostgres(t, server.URL())
			all = write(t, db, "outrider_outbox", "new", 150)
			if !tt.running {
				r = begin(t, cfg, bus)
			}
			if tt.elsewhere {
				r.refuses(t, "outrider rebase orders")
				relocate(t, cfg, rebase)
				r = begin(t, cfg, bus)
			}
			bus.awaits(t, all)
			r.stop(t)
		})
	}
}

// behind counts rows that the route has not settled.
func behind(t *testing.T, cfg *outrider.Config) (n int) {
	t.Helper()
	operate(t, cfg, func(op *outrider.Operator) {
		b, err := op.Lag(t.Context(), "orders")
		must(t, err)
		n = b.Rows
	})
	return n
}

// An older copy of a SQLite file, and one that lost its last commits with the power
// (synchronous=NORMAL: the end of its WAL was not written), are noticed when they have
// caught up. After the rebase everything arrives.
func TestG1_AnOlderSQLiteFile(t *testing.T) {
	t.Parallel()
	for _, power := range []bool{false, true} {
		t.Run(fmt.Sprintf("power loss %t", power), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, saved := filepath.Join(dir, "app.db"), filepath.Join(dir, "saved.db")
			cfg := configured(t, `state: {url: "sqlite:%s"}
sources: {app: {type: sqlite, path: %q}}`+allRoutes, filepath.Join(dir, "state.db"), path)
			bus := newCollector()
			db := openSQLite(t, path)
			all := write(t, db, "outrider_outbox", "first", 50)
			size := fileSize(t, path+"-wal")
			if !power {
				_, err := db.ExecContext(t.Context(), "VACUUM INTO '"+saved+"'")
				must(t, err)
			}
			all = append(all, write(t, db, "outrider_outbox", "lost", 100)...)
			if power { // what is on the disk: the file, and its WAL up to the first commit
				must(t, os.WriteFile(saved, read(t, path), 0o600))
				must(t, os.WriteFile(saved+"-wal", read(t, path+"-wal")[:size], 0o600))
			}
			r := begin(t, cfg, bus)
			bus.awaits(t, all)
			r.stop(t)
			must(t, db.Close())
			for _, suffix := range []string{"", "-wal", "-shm"} {
				_ = os.Remove(path + suffix)
				_ = os.Rename(saved+suffix, path+suffix)
			}
			db = openSQLite(t, path)
			all = write(t, db, "outrider_outbox", "new", 150)
			begin(t, cfg, bus).refuses(t, "outrider rebase orders")
			relocate(t, cfg, rebase)
			r = begin(t, cfg, bus)
			bus.awaits(t, all)
			r.stop(t)
		})
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}
