package testenv_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPostgresGivesEachTestItsOwnEmptyDatabase(t *testing.T) {
	t.Parallel()
	one, two := testenv.Postgres(t), testenv.Postgres(t)
	exec(t, one, "CREATE TABLE here (id int)")
	for url, want := range map[string]bool{one: true, two: false} {
		if got := query[bool](t, url, "SELECT to_regclass('here') IS NOT NULL"); got != want {
			t.Errorf("table in the database: %v, want %v", got, want)
		}
	}
	if zone := query[string](t, one, "SHOW timezone"); zone == "" {
		t.Error("the server has no time zone")
	}
}

func TestPostgresIsDroppedWhenTheTestEnds(t *testing.T) {
	t.Parallel()
	other := testenv.Postgres(t)
	var name string
	t.Run("owner", func(t *testing.T) {
		name = query[string](t, testenv.Postgres(t), "SELECT current_database()::text")
	})
	if name == "" {
		t.Fatal("the subtest had no database")
	}
	if n := query[int](t, other, "SELECT count(*) FROM pg_database WHERE datname = '"+name+"'"); n != 0 {
		t.Errorf("database %s is still there", name)
	}
}

// There is no such test of Kafka here, because starting a broker twice takes long:
// adapters/kafka kills a private one and counts its records.
func TestPrivatePostgresKeepsItsDataOverStopAndKill(t *testing.T) {
	t.Parallel()
	s := testenv.StartPostgres(t)
	url := s.URL()
	exec(t, url, "CREATE TABLE kept (id int)")
	if got := query[string](t, url, "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s: a private server must survive being killed", got)
	}
	ends := []func(){
		func() { s.Stop(server.Fast) },
		func() { s.Stop("immediate") },
		s.Kill,
	}
	for i, end := range ends {
		exec(t, url, "INSERT INTO kept DEFAULT VALUES")
		end()
		if _, err := pgx.Connect(t.Context(), url); err == nil {
			t.Fatalf("end %d: the server still answers", i)
		}
		s.Start()
		if got := query[int](t, url, "SELECT count(*) FROM kept"); got != i+1 {
			t.Errorf("end %d: %d rows after the restart, want %d", i, got, i+1)
		}
	}
}

// Private servers are copies of one cluster, and the relay tells clusters apart by their identifiers.
func TestPrivatePostgresIsAClusterOfItsOwn(t *testing.T) {
	t.Parallel()
	const identifier = "SELECT system_identifier FROM pg_control_system()"
	seen := make(map[int64]bool)
	for _, url := range []string{testenv.Postgres(t), testenv.StartPostgres(t).URL(), testenv.StartPostgres(t).URL()} {
		seen[query[int64](t, url, identifier)] = true
	}
	if len(seen) != 3 {
		t.Errorf("three servers have %d identifiers", len(seen))
	}
}

// exec runs a statement on a connection of its own.
func exec(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// query returns the single value of a query.
func query[T any](t *testing.T, url, statement string) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if err := conn.QueryRow(t.Context(), statement).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
