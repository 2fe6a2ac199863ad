package owntable

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/internal/testenv"
)

func TestDoctorTellsATransactionPoolerFromAServer(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	for url, want := range map[string]bool{server: false, pgtest.StartPooler(t, server): true} {
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		for range 3 { // what an examination leaves behind does not mislead the next
			if shared, err := pg.PoolSharesSessions(t.Context(), pool); err != nil || shared != want {
				t.Errorf("%s: shared %v, %v; want %v", fmt.Sprintf("pooler in between: %v", want), shared, err, want)
			}
		}
	}
}

// Behind a pooler that lends sessions for a transaction, a search path would stay
// with whoever is given the session next; behind one that keeps them it is set.
func TestThePathIsSetOnSessionsOfOurOwnOnly(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		server := testenv.Postgres(t)
		url := pgtest.StartPoolerThat(t, server, keeps) + "&default_query_exec_mode=simple_protocol"
		pool, err := postgres.Open(t.Context(), url, postgres.TLS{})
		pgtest.Must(t, err)
		t.Cleanup(pool.Close)
		for range 2 {
			_, err = Init(t.Context(), pool, "")
			pgtest.Must(t, err)
		}
		src, err := New(t.Context(), Config{URL: url})
		pgtest.Must(t, err)
		if err := src.Check(t.Context()); keeps != (err == nil) || err != nil && !errors.Is(err, pg.ErrLentSessions) {
			t.Errorf("sessions are kept %v: Check finds %v", keeps, err)
		}
		at := adapters.Cursor{Snapshot: "1:1:"}
		if _, err := src.Fetch(t.Context(), []adapters.Read{{From: at, Limit: 1}}, func(int, *adapters.Row) bool { return true }); keeps != (err == nil) || err != nil && !errors.Is(err, pg.ErrLentSessions) {
			t.Errorf("sessions are kept %v: Fetch says %v", keeps, err)
		}
		_ = src.Examine(t.Context()) // what it finds is TestDoctorTells...'s
		want := "pg_catalog, pg_temp"
		for range 3 { // other clients of the pooler, and ours
			other, err := pgx.Connect(t.Context(), url)
			pgtest.Must(t, err)
			rows, err := other.Query(t.Context(), "SELECT count(*) FROM outrider_outbox", pgx.QueryExecModeSimpleProtocol)
			pgtest.Must(t, err)
			_, err = pgx.CollectRows(rows, pgx.RowTo[int])
			pgtest.Must(t, err)
			pgtest.Must(t, other.Close(t.Context()))
		}
		if !keeps {
			want = `"$user", public`
		}
		var path string
		pgtest.Must(t, pool.QueryRow(t.Context(), "SELECT current_setting('search_path')", pgx.QueryExecModeSimpleProtocol).Scan(&path))
		if path != want {
			t.Errorf("sessions are kept %v: search_path is %s, want %s", keeps, path, want)
		}
		pgtest.Must(t, src.Close())
	}
}
