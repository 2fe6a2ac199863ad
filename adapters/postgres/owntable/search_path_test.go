package owntable

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// Tables are found where the search path of the role or of the URL has them, as
// ever, and where a pool's own hook says.
func TestTablesAreFoundByTheOriginalPath(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	e.Exec(`CREATE SCHEMA "My ""Shop"`)
	shop := pgtest.WithPath(t, e.URL, `nowhere, "My ""Shop", public`)
	pool, err := postgres.Open(e.Ctx, shop, postgres.TLS{})
	pgtest.Must(t, err)
	t.Cleanup(pool.Close)
	for table, want := range map[string]pgx.Identifier{
		"outrider_outbox": {"public", "outrider_outbox"}, "mine": {`My "Shop`, "mine"}, `"outrider""s"`: {`My "Shop`, `outrider"s`}, "public.other": {"public", "other"},
	} {
		_, err = Init(e.Ctx, pool, table)
		pgtest.Must(t, err)
		if got, err := postgres.Locate(e.Ctx, pool, table); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", table, got, err, want)
		}
		pgtest.Must(t, e.source(shop, table).Check(e.Ctx))
	}
	if _, err := postgres.Locate(e.Ctx, pool, "missing"); err == nil || !strings.Contains(err.Error(), `relation "My "Shop.missing" does not exist`) {
		t.Errorf("missing: %v", err)
	}
	pc, err := pgxpool.ParseConfig(e.URL)
	pgtest.Must(t, err)
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SET search_path = "My ""Shop"`)
		return err
	}
	src, err := New(e.Ctx, Config{Config: pc, Table: "mine"})
	pgtest.Must(t, err)
	pgtest.Must(t, src.Check(e.Ctx))
	pgtest.Must(t, src.Close())
	nothing := e.source(pgtest.WithPath(t, e.URL, "nowhere"), "")
	pgtest.WantError(t, nothing.Check(e.Ctx), `write schema."outrider_outbox"`)
}
