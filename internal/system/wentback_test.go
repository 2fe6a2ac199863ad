package system_test

import (
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
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
// noticed: by a relay that runs, with its state in the same database, which starts again
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
			state, elsewhere := "", ""
			if tt.elsewhere {
				elsewhere = testenv.Postgres(t)
				state = fmt.Sprintf("state: {url: %q}\n", elsewhere)
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
				if !tt.running { // as if something had been in flight when the database went back, and was settled late
					_, err := openPostgres(t, elsewhere).ExecContext(t.Context(), "UPDATE outrider_cursor SET updated_at = clock_timestamp() + interval '1 hour'")
					must(t, err)
				}
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
	asOperator(t, cfg, func(op *operate.Operator) {
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

// A route whose cursor no row was read for (it was placed by a seek, or is one of an
// older version) notices as well that the table went back and has caught up: when it
// began, the row at its cursor was looked up and written down.
func TestG1_CursorsThatNoRowWasReadForAreAnchored(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, cfg *outrider.Config, state *sql.DB){
		"older version": func(t *testing.T, _ *outrider.Config, state *sql.DB) {
			_, err := state.ExecContext(t.Context(), "UPDATE outrider_cursor SET anchor = ''")
			must(t, err)
		},
		"seek": func(t *testing.T, cfg *outrider.Config, _ *sql.DB) { relocate(t, cfg, seekTo(adapters.StartEnd)) },
	}
	for name, place := range ways {
		t.Run("PostgreSQL "+name, func(t *testing.T) {
			t.Parallel()
			server, state := testenv.StartPostgres(t), testenv.Postgres(t)
			cfg := configured(t, `state: {url: %q}
sources: {app: {type: postgres, url: %q}}`+allRoutes, state, server.URL())
			db := openPostgres(t, server.URL())
			data, saved := dataOf(t, db), filepath.Join(t.TempDir(), "copy")
			unread(t, cfg, db, openPostgres(t, state), place, func() {
				server.Stop("fast")
				copyDir(t, data, saved)
				server.Start()
			}, func() *sql.DB {
				server.Stop("immediate")
				copyDir(t, saved, data)
				server.Start()
				return openPostgres(t, server.URL())
			})
		})
		t.Run("SQLite "+name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, saved, state := filepath.Join(dir, "app.db"), filepath.Join(dir, "saved.db"), filepath.Join(dir, "state.db")
			cfg := configured(t, `state: {url: "sqlite:%s"}
sources: {app: {type: sqlite, path: %q}}`+allRoutes, state, path)
			db, err := sqlite.Open(path)
			must(t, err)
			unread(t, cfg, db, openSQLite(t, state), place, func() {
				_, err := db.ExecContext(t.Context(), "VACUUM INTO '"+saved+"'")
				must(t, err)
			}, func() *sql.DB {
				must(t, db.Close())
				for _, suffix := range []string{"", "-wal", "-shm"} {
					_ = os.Remove(path + suffix)
				}
				must(t, os.Rename(saved, path))
				return openSQLite(t, path)
			})
		})
	}
}

// unread is the test of a table that can be saved and put back. Its cursors have no
// anchors once place was called.
func unread(t *testing.T, cfg *outrider.Config, db, state *sql.DB, place func(*testing.T, *outrider.Config, *sql.DB), save func(), back func() *sql.DB) {
	t.Helper()
	anchored := func() (with, without int) { // where no row was read yet there is none
		must(t, state.QueryRowContext(t.Context(), `SELECT coalesce(sum(CASE WHEN anchor <> '' THEN 1 ELSE 0 END), 0),
coalesce(sum(CASE WHEN anchor = '' THEN 1 ELSE 0 END), 0) FROM outrider_cursor WHERE position > 0`).Scan(&with, &without))
		return with, without
	}
	bus := newCollector()
	write(t, db, "outrider_outbox", "first", 50)
	save()
	var all []string
	eventually(t, "the server answers", func() bool { return db.PingContext(t.Context()) == nil })
	all = write(t, db, "outrider_outbox", "lost", 100)
	r := begin(t, cfg, bus)
	bus.awaits(t, all)
	r.stop(t)
	place(t, cfg, state)
	if with, without := anchored(); with != 0 || without == 0 {
		t.Fatalf("%d cursors have an anchor, %d have none", with, without)
	}
	r = begin(t, cfg, bus)
	eventually(t, "all cursors have an anchor", func() bool {
		with, without := anchored()
		return with > 0 && without == 0
	})
	r.stop(t)
	db = back()
	all = write(t, db, "outrider_outbox", "new", 150)
	begin(t, cfg, bus).refuses(t, "outrider rebase orders")
	relocate(t, cfg, rebase)
	r = begin(t, cfg, bus)
	bus.awaits(t, all)
	r.stop(t)
}

// A standby that lacks the last commits becomes the primary, after a relay has
// delivered those: the route stops, before or after the new primary has caught up, and
// after the rebase everything arrives that the new primary has.
func TestG1_AFailoverThatLostTheLastCommits(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running %t", running), func(t *testing.T) {
			t.Parallel()
			first := testenv.StartPostgres(t)
			second := standbyOf(t, first)
			both := strings.Replace(first.URL(), "/postgres?", ","+hostOf(t, second.URL())+"/postgres?target_session_attrs=read-write&", 1)
			cfg := configured(t, `state: {url: %q}
sources: {app: {type: postgres, url: %q}}`+allRoutes, testenv.Postgres(t), both)
			bus := newCollector()
			db, standby := openPostgres(t, first.URL()), openPostgres(t, second.URL())
			all := write(t, db, "outrider_outbox", "first", 50)
			r := begin(t, cfg, bus)
			bus.awaits(t, all)
			eventually(t, "the standby has the first rows", func() bool {
				var n int
				err := standby.QueryRowContext(t.Context(), "SELECT count(*) FROM outrider_outbox").Scan(&n)
				return err == nil && n == 50
			})
			for _, s := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
				_, err := standby.ExecContext(t.Context(), s)
				must(t, err)
			}
			eventually(t, "the standby receives nothing", func() bool {
				var n int
				must(t, standby.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_wal_receiver").Scan(&n))
				return n == 0
			})
			bus.awaits(t, write(t, db, "outrider_outbox", "lost", 100))
			eventually(t, "all is settled", func() bool { return behind(t, cfg) == 0 })
			if !running {
				r.stop(t)
			}
			first.Stop("immediate")
			_, err := standby.ExecContext(t.Context(), "SELECT pg_promote()")
			must(t, err)
			for i := range 5 { // more transactions than were lost
				all = append(all, write(t, standby, "outrider_outbox", fmt.Sprint("new ", i), 40)...)
			}
			if !running {
				r = begin(t, cfg, bus)
			}
			r.refuses(t, "outrider rebase orders")
			relocate(t, cfg, rebase)
			r = begin(t, cfg, bus)
			bus.awaits(t, all)
			r.stop(t)
		})
	}
}

// standbyOf starts a server that replicates another one as it streams.
func standbyOf(t *testing.T, primary *testenv.PostgresServer) *testenv.PostgresServer {
	t.Helper()
	standby := testenv.StartPostgres(t)
	dir := dataOf(t, openPostgres(t, standby.URL()))
	conf := filepath.Join(dir, "postgresql.conf")
	settings := read(t, conf) // its port is among them
	standby.Stop("fast")
	from := dataOf(t, openPostgres(t, primary.URL()))
	primary.Stop("fast")
	copyDir(t, from, dir)
	primary.Start()
	host, port, err := net.SplitHostPort(hostOf(t, primary.URL()))
	must(t, err)
	settings = fmt.Appendf(settings, "\nprimary_conninfo = 'host=%s port=%s user=postgres'\n", host, port)
	must(t, os.WriteFile(conf, settings, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "standby.signal"), nil, 0o644))
	standby.Start()
	return standby
}

// hostOf is the host and port of a URL.
func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	must(t, err)
	return u.Host
}
