package postgres

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/internal/testenv"
)

func TestDoctorTellsATransactionPoolerFromAServer(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	for url, want := range map[string]bool{server: false, startPooler(t, server): true} {
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		for range 3 { // what an examination leaves behind does not mislead the next
			if shared, err := poolSharesSessions(t.Context(), pool); err != nil || shared != want {
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
		url := startPoolerThat(t, server, keeps) + "&default_query_exec_mode=simple_protocol"
		pool, err := Open(t.Context(), url, TLS{})
		must(t, err)
		t.Cleanup(pool.Close)
		for range 2 {
			_, err = Init(t.Context(), pool, "")
			must(t, err)
		}
		src, err := NewSource(t.Context(), SourceConfig{URL: url})
		must(t, err)
		must(t, src.Check(t.Context()))
		_ = src.Examine(t.Context()) // what it finds is TestDoctorTells...'s
		want := "pg_catalog, pg_temp"
		for range 3 { // other clients of the pooler, and ours
			other, err := pgx.Connect(t.Context(), url)
			must(t, err)
			rows, err := other.Query(t.Context(), "SELECT count(*) FROM outrider_outbox", pgx.QueryExecModeSimpleProtocol)
			must(t, err)
			_, err = pgx.CollectRows(rows, pgx.RowTo[int])
			must(t, err)
			must(t, other.Close(t.Context()))
		}
		if !keeps {
			want = `"$user", public`
		}
		var path string
		must(t, pool.QueryRow(t.Context(), "SELECT current_setting('search_path')", pgx.QueryExecModeSimpleProtocol).Scan(&path))
		if path != want {
			t.Errorf("sessions are kept %v: search_path is %s, want %s", keeps, path, want)
		}
		must(t, src.Close())
	}
}
