package owntable

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// A trigger on a table runs with the rights of whoever writes to it, so a superuser
// is warned of tables that others own, and has no need to be one.
func TestG12_ASuperuserIsWarnedOfTablesOfOthers(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	owner, _ := e.Role()
	relay, asRelay := e.Role()
	e.Exec(Grants("public.outrider_outbox", adapters.RetainRows).SQL(postgres.Grantees{Relay: relay}))
	warned := func(s *Source) string {
		found := s.Examine(e.Ctx)
		i := slices.IndexFunc(found, func(f adapters.Finding) bool {
			return f.Level == adapters.LevelWarning && strings.Contains(f.Subject, "owner")
		})
		if i < 0 {
			return ""
		}
		return found[i].Text
	}
	if got := warned(e.src); got != "" {
		t.Errorf("of its own table: %s", got)
	}
	e.Exec("ALTER TABLE outrider_outbox OWNER TO " + owner)
	if got := warned(e.src); !strings.Contains(got, owner) || !strings.Contains(got, "superuser") {
		t.Errorf("of another's table: %q", got)
	}
	if got := warned(e.source(asRelay, "")); got != "" {
		t.Errorf("no superuser is warned: %s", got)
	}
	pgtest.Must(t, e.source(asRelay, "").CheckRetention(e.Ctx, adapters.Retention{Mode: adapters.RetainRows}))
}

// Publishers insert with their grant alone.
func TestG12_PublishersNeedTheirGrantAlone(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	e.Exec("CREATE SCHEMA shop")
	_, err := Init(e.Ctx, e.Pool, "shop.events")
	pgtest.Must(t, err)
	pgtest.Must(t, e.source(e.URL, "shop.events").Check(e.Ctx))
	_, err = postgres.InitWake(e.Ctx, e.Pool, "shop.events")
	pgtest.Must(t, err)
	role, as := e.Role()
	conn, err := pgx.Connect(e.Ctx, as)
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, conn.Close(e.Ctx)) })
	client, err := outbox.NewClient(outbox.ClientConfig{Table: "shop.events", Dialect: outbox.PostgreSQL, Notify: true})
	pgtest.Must(t, err)
	message, err := outbox.New("t").JSON(1).Build()
	pgtest.Must(t, err)
	publish := func() error {
		return pgx.BeginFunc(e.Ctx, conn, func(tx pgx.Tx) error {
			return client.Publish(e.Ctx, tx, message, message)
		})
	}
	for _, one := range pgtest.EachGrant(Grants("shop.events", ""), pg.TaskPublish) {
		if err := publish(); !pg.FailedWith(err, pg.InsufficientPrivilege) {
			t.Errorf("before %s: %v", one.SQL(role), err)
		}
		e.Exec(one.SQL(role))
	}
	pgtest.Must(t, publish())
}
