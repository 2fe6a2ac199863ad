package statestore

import (
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// An installation of a former build has its state tables wherever the search path
// led. They are found again, also when another schema has come in front since.
func TestStateTablesAreFoundWhereTheyAre(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	address := pgtest.WithPath(t, e.URL, "late, shop, public")
	e.Exec("CREATE SCHEMA shop")
	open := func() *Store {
		s, err := New(e.Ctx, Config{URL: address})
		pgtest.Must(t, err)
		t.Cleanup(func() { pgtest.Must(t, s.Close()) })
		pgtest.Must(t, s.Migrate(e.Ctx))
		return s
	}
	open()
	e.Exec("INSERT INTO shop.outrider_pause (route, reason, by) VALUES ('r', '', '')")
	e.Exec("CREATE SCHEMA late")
	pauses, err := open().Pauses(e.Ctx, "")
	if err != nil || len(pauses) != 1 {
		t.Errorf("%v, %v", pauses, err)
	}
	var others int
	pgtest.Must(t, e.Pool.QueryRow(e.Ctx, `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname LIKE 'outrider\_cursor%' AND n.nspname <> 'shop'`).Scan(&others))
	if others != 0 {
		t.Errorf("%d tables elsewhere", others)
	}
}

// What a role without rights has put in place of the state tables is not used with
// the rights of a superuser.
func TestASuperuserDoesNotUseStateTablesOfOthers(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	role, as := e.Role()
	e.Exec("GRANT CREATE ON SCHEMA public TO " + role)
	mine, err := New(e.Ctx, Config{URL: as})
	pgtest.Must(t, err)
	pgtest.Must(t, mine.Migrate(e.Ctx)) // its own it may use
	pgtest.Must(t, mine.Close())
	_, err = New(e.Ctx, Config{URL: e.URL})
	pgtest.WantError(t, err, role, "superuser", "OWNER TO")
	for _, table := range append(slices.Clone(stateTables), stateVersionTable) {
		e.Exec("ALTER TABLE " + table + " OWNER TO CURRENT_USER")
	}
	_, err = New(e.Ctx, Config{URL: e.URL})
	pgtest.WantError(t, err, "function", "trigger", role, "superuser", "OWNER TO")
	e.Exec("ALTER FUNCTION outrider_fold OWNER TO CURRENT_USER")
	s, err := New(e.Ctx, Config{URL: e.URL})
	pgtest.Must(t, err)
	pgtest.Must(t, s.Close())
}

// A PgBouncer that keeps a session for each client refuses parameters of the start that it does not know.
func TestTheStateIsReachedThroughAPoolerThatKeepsSessions(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	for _, url := range []string{e.URL, pgtest.StartPoolerThat(t, e.URL, true)} {
		s, err := New(e.Ctx, Config{URL: url})
		pgtest.Must(t, err)
		t.Cleanup(func() { pgtest.Must(t, s.Close()) })
		pgtest.Must(t, s.Migrate(e.Ctx))
		var jit string
		pgtest.Must(t, s.pool.Pool.QueryRow(e.Ctx, "SELECT current_setting('jit')").Scan(&jit))
		if jit != "off" {
			t.Errorf("jit is %s", jit)
		}
	}
}

// Without more it is not known why a role's transactions are read-only.
func TestARoleThatIsReadOnlyIsNotTakenForAStandby(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	role, as := e.Role()
	e.Exec("GRANT CREATE ON SCHEMA public TO " + role)
	e.Exec("ALTER ROLE " + role + " SET default_transaction_read_only = on")
	s, err := New(e.Ctx, Config{URL: as})
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, s.Close()) })
	err = s.Migrate(e.Ctx)
	if err == nil || !strings.Contains(err.Error(), "default_transaction_read_only = off") || strings.Contains(err.Error(), "leads to a standby") {
		t.Errorf("got %v", err)
	}
}
