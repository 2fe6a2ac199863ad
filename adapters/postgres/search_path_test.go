package postgres

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// withPath adds a search path to a URL.
func withPath(t *testing.T, address, path string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	q := u.Query()
	q.Set("search_path", path)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}

// Tables are found where the search path of the role or of the URL has them, as
// ever, and where a pool's own hook says.
func TestTablesAreFoundByTheOriginalPath(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	e.exec(`CREATE SCHEMA "My ""Shop"`)
	shop := withPath(t, e.url, `nowhere, "My ""Shop", public`)
	pool, err := Open(e.ctx, shop, TLS{})
	must(t, err)
	t.Cleanup(pool.Close)
	for table, want := range map[string]pgx.Identifier{
		"outrider_outbox": {"public", "outrider_outbox"}, "mine": {`My "Shop`, "mine"}, `"outrider""s"`: {`My "Shop`, `outrider"s`}, "public.other": {"public", "other"},
	} {
		_, err = Init(e.ctx, pool, table)
		must(t, err)
		if got, err := Locate(e.ctx, pool, table); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", table, got, err, want)
		}
		must(t, e.source(shop, table).Check(e.ctx))
	}
	if _, err := Locate(e.ctx, pool, "missing"); err == nil || !strings.Contains(err.Error(), `relation "My "Shop.missing" does not exist`) {
		t.Errorf("missing: %v", err)
	}
	pc, err := pgxpool.ParseConfig(e.url)
	must(t, err)
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SET search_path = "My ""Shop"`)
		return err
	}
	src, err := NewSource(e.ctx, SourceConfig{Config: pc, Table: "mine"})
	must(t, err)
	must(t, src.Check(e.ctx))
	must(t, src.Close())
	nothing := e.source(withPath(t, e.url, "nowhere"), "")
	wantError(t, nothing.Check(e.ctx), `write schema."outrider_outbox"`)
}

// An installation of a former build has its state tables wherever the search path
// led. They are found again, also when another schema has come in front since.
func TestStateTablesAreFoundWhereTheyAre(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
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
	e := newSourceEnv(t)
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
