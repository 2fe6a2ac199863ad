package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/internal/testenv"
)

// State tables that a later release has changed so that this one cannot use them are refused by each command, and stay as they are; those to which
// it has only added are used.
func TestStateTablesOfALaterRelease(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (url string, db *sql.DB, err error){
		"PostgreSQL": func(t *testing.T) (string, *sql.DB, error) {
			url := testenv.Postgres(t)
			db, err := sql.Open("pgx", url)
			return url, db, err
		},
		"MariaDB": func(t *testing.T) (string, *sql.DB, error) {
			url := testenv.MySQL(t)
			db, err := mysql.Open(url, mysql.TLS{})
			return url, db, err
		},
		"SQLite": func(t *testing.T) (string, *sql.DB, error) {
			path := filepath.Join(t.TempDir(), "state.db")
			db, err := sqlite.Open(path)
			return "sqlite:" + path, db, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, db, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			s := newSite(t, "")
			s.write(fmt.Sprintf(`
admin: {listen: off}
state: {url: %q}
sources: {app: {type: sqlite, path: %q}}
destinations: {nowhere: {type: discard}}
routes: {orders: {from: app, to: nowhere}}
`, url, filepath.Join(t.TempDir(), "app.db")))
			becomes := func(version int) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO outrider_migrations (version_id, is_applied) VALUES (%d, true)", version)); err != nil {
					t.Fatal(err)
				}
			}
			step{args: "init", out: []string{"created the state tables"}}.run(t, s)
			becomes(999)
			step{args: "init", out: []string{"up to date"}}.run(t, s)
			step{args: "pause orders", out: []string{"orders"}}.run(t, s)
			becomes(1000)
			refusal := []string{"version 1000", "below 1000", "run the release that upgraded them"}
			step{args: "doctor", code: 1, out: refusal}.run(t, s)
			step{args: "init", code: 1, out: []string{"source app"}, err: refusal}.run(t, s)
			for _, args := range []string{"run", "status", "resume orders", "parked list", "seek orders --to end --yes"} {
				step{args: args, code: 1, err: refusal}.run(t, s)
			}
		})
	}
}
