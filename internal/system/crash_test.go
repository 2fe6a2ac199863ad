package system_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

// A server that crashes forgets transactions that were rolled back and are not in its log yet, and gives out their numbers again; so does a standby
// that takes over. A route with its progress elsewhere has seen them end. None of its rows is missing: it continues, and delivers what
// is written under these numbers.
func TestG1_ACrashForgetsRolledBackTransactions(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running %t", running), func(t *testing.T) {
			t.Parallel()
			server := testenv.StartPostgres(t)
			cfg := configured(t, `state: {url: %q}
sources: {app: {type: postgres, url: %q, poll: {max: 50ms}}}`+allRoutes, testenv.Postgres(t), server.URL())
			db := openPostgres(t, server.URL())
			for _, s := range []string{"ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()"} {
				_, err := db.ExecContext(t.Context(), s)
				must(t, err)
			}
			bus := newCollector()
			var all []string
			r := begin(t, cfg, bus)
			for forgot := false; !forgot; { // the log may be written by chance
				if !running {
					r.stop(t)
				}
				all = append(all, write(t, db, "outrider_outbox", fmt.Sprint("before ", len(all)), 50)...)
				if running {
					bus.awaits(t, all)
				}
				for range 20 {
					rollBack(t, db)
				}
				before := nextTransaction(t, db)
				if running {
					awaitRead(t, db)
				} else {
					r = begin(t, cfg, bus)
					bus.awaits(t, all)
					eventually(t, "all is settled", func() bool { return behind(t, cfg) == 0 })
					r.stop(t)
				}
				server.Stop("immediate")
				server.Start()
				_ = db.Close()
				db = openPostgres(t, server.URL())
				forgot = nextTransaction(t, db) < before
				if !running {
					r = begin(t, cfg, bus)
				}
			}
			for i := range 30 {
				all = append(all, write(t, db, "outrider_outbox", fmt.Sprint("again ", i), 2)...)
				if i == 0 {
					bus.awaits(t, all) // before numbers are beyond the former ones
				}
			}
			bus.awaits(t, all)
			r.stop(t)
		})
	}
}

func rollBack(t *testing.T, db *sql.DB) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO outrider_outbox (type, payload) VALUES ('t', '1')")
	must(t, err)
	must(t, tx.Rollback())
}

func nextTransaction(t *testing.T, db *sql.DB) (xid int64) {
	t.Helper()
	must(t, db.QueryRowContext(t.Context(), "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&xid))
	return xid
}

// awaitRead waits until the relay has begun to read the table after now.
func awaitRead(t *testing.T, db *sql.DB) {
	t.Helper()
	var now string
	must(t, db.QueryRowContext(t.Context(), "SELECT clock_timestamp()::text").Scan(&now))
	for range 2 { // the first has ended when the second begins
		eventually(t, "the relay has read", func() (read bool) {
			must(t, db.QueryRowContext(t.Context(), `SELECT count(*) > 0 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND query_start > $1::text::timestamptz`, now).Scan(&read))
			return read
		})
		must(t, db.QueryRowContext(t.Context(), "SELECT clock_timestamp()::text").Scan(&now))
	}
}
