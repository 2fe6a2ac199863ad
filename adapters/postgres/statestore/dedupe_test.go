package statestore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"

	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

func TestDedupeConformance(t *testing.T) {
	t.Parallel()
	adaptertest.DedupeStore(t, func(tb testing.TB) func() adapters.DedupeStore {
		url := testenv.Postgres(tb)
		return func() adapters.DedupeStore { return migratedState(tb, url) }
	})
}

func migratedState(tb testing.TB, url string) *statestore.Store {
	tb.Helper()
	state := openState(tb, statestore.Config{URL: url})
	if err := state.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return state
}

// However large the table has become since its statistics were made, a look-up
// reads the rows that it asks for and no others.
func TestG8_DedupeReadsByKey(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	state := migratedState(t, url)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if v := conn.PgConn().ParameterStatus("server_version"); strings.HasPrefix(v, "14.") {
		t.Skip("PostgreSQL 14 does not write its statistics when it is told to: its plans are those of 15, which is tested")
	}
	// Statistics of an empty table, and statements that were used with it.
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run(`ALTER TABLE outrider_dedupe SET (autovacuum_enabled = false)`)
	run(`VACUUM ANALYZE outrider_dedupe`)
	use := func() {
		t.Helper()
		for range 10 {
			if _, err := state.Seen(t.Context(), []adapters.EventRef{{Route: "r", ID: "x"}, {Route: "r", ID: "y"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := state.Expire(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			if err := state.Record(t.Context(), []adapters.SeenEvent{{EventRef: adapters.EventRef{Route: "r", ID: "x"}, Keep: time.Hour}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	use()
	run(`INSERT INTO outrider_dedupe SELECT 'r', 'e' || n, now() + interval '1 hour' FROM generate_series(1, 200000) AS n`)
	scans := func() (n int64) {
		t.Helper()
		run(`SELECT pg_stat_force_next_flush()`)
		err := conn.QueryRow(t.Context(), `SELECT coalesce(max(seq_tup_read), 0) FROM pg_stat_user_tables WHERE relname = 'outrider_dedupe'`).Scan(&n)
		if err != nil {
			if strings.Contains(err.Error(), "does not exist") {
				t.Skip(err)
			}
			t.Fatal(err)
		}
		return n
	}
	use()
	if err := state.Close(); err != nil { // its connections report what they did
		t.Fatal(err)
	}
	if n := scans(); n > 1000 {
		t.Errorf("%d rows were read by scanning the table", n)
	}
}
