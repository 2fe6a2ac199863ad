package postgres

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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
