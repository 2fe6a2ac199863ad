package postgres

import (
	"slices"
	"testing"
)

// An installation of a former build has its state tables wherever the search path
// led. They are found again, also when another schema has come in front since.
func TestStateTablesAreFoundWhereTheyAre(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	address := withPath(t, e.url, "late, shop, public")
	e.exec("CREATE SCHEMA shop")
	open := func() *State {
		s, err := NewState(e.ctx, StateConfig{URL: address})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		must(t, s.Migrate(e.ctx))
		return s
	}
	open()
	e.exec("INSERT INTO shop.outrider_pause (route, reason, by) VALUES ('r', '', '')")
	e.exec("CREATE SCHEMA late")
	pauses, err := open().Pauses(e.ctx, "")
	if err != nil || len(pauses) != 1 {
		t.Errorf("%v, %v", pauses, err)
	}
	var others int
	must(t, e.pool.QueryRow(e.ctx, `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname LIKE 'outrider\_cursor%' AND n.nspname <> 'shop'`).Scan(&others))
	if others != 0 {
		t.Errorf("%d tables elsewhere", others)
	}
}

// What a role without rights has put in place of the state tables is not used with
// the rights of a superuser.
func TestASuperuserDoesNotUseStateTablesOfOthers(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	role, as := e.role()
	e.exec("GRANT CREATE ON SCHEMA public TO " + role)
	mine, err := NewState(e.ctx, StateConfig{URL: as})
	must(t, err)
	must(t, mine.Migrate(e.ctx)) // its own it may use
	must(t, mine.Close())
	_, err = NewState(e.ctx, StateConfig{URL: e.url})
	wantError(t, err, role, "superuser", "OWNER TO")
	for _, table := range append(slices.Clone(stateTables), stateVersionTable) {
		e.exec("ALTER TABLE " + table + " OWNER TO CURRENT_USER")
	}
	s, err := NewState(e.ctx, StateConfig{URL: e.url})
	must(t, err)
	must(t, s.Close())
}
