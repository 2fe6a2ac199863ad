package system_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/doctor"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

// pooled is a server that wants a password, which only the hook of a pool knows, and
// hands it out as token services do.
type pooled struct {
	app   *pgxpool.Pool // of database shop
	state *pgxpool.Pool // of database state
	asked atomic.Int64
}

func newPooled(t *testing.T) *pooled {
	t.Helper()
	server := testenv.StartSecurePostgres(t, testenv.NewAuthority(t), "host all relay 127.0.0.1/32 scram-sha-256")
	admin, err := pgx.Connect(t.Context(), server.URL())
	must(t, err)
	defer func() { _ = admin.Close(context.Background()) }()
	for _, sql := range []string{"CREATE ROLE relay LOGIN PASSWORD 'token'", "GRANT pg_read_all_settings, pg_read_all_stats TO relay",
		"GRANT EXECUTE ON FUNCTION pg_control_system() TO relay", "CREATE DATABASE shop OWNER relay", "CREATE DATABASE state OWNER relay"} {
		_, err := admin.Exec(t.Context(), sql)
		must(t, err)
	}
	p := &pooled{}
	open := func(database string) *pgxpool.Pool {
		cfg, err := pgxpool.ParseConfig(fmt.Sprintf("postgres://relay@127.0.0.1:%d/%s?sslmode=disable", admin.Config().Port, database))
		must(t, err)
		cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			p.asked.Add(1)
			c.Password = "token"
			return nil
		}
		// What an application does for each of its queries is not for ours.
		cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return false, errors.New("no tenant in the context") }
		cfg.AfterRelease = func(*pgx.Conn) bool { return false }
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		must(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	p.app, p.state = open("shop"), open("state")
	return p
}

// exec runs a statement of the application. Its pool's hooks are not for tests either.
func (p *pooled) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	cfg := p.app.Config().ConnConfig
	cfg.Password = "token"
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	must(t, err)
	_, err = conn.Exec(t.Context(), sql, args...)
	must(t, err)
	must(t, conn.Close(t.Context()))
}

// Where a program gives its pool, everything connects as that one does: its hook
// supplies the password, and the URLs of the configuration lead nowhere.
func TestEverythingConnectsAsTheGivenPool(t *testing.T) {
	t.Parallel()
	p := newPooled(t)
	p.exec(t, "CREATE TABLE jobs (id text PRIMARY KEY, kind text, body json, status text NOT NULL, created timestamptz NOT NULL, claimed timestamptz)")
	for name, state := range map[string]string{"beside": "", "apart": `state: {url: "postgres://nobody@127.0.0.1:1/none?sslmode=disable"}`} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // the leader lock is one
			p.run(t, name, state)
		})
	}
}

func (p *pooled) run(t *testing.T, name, state string) {
	t.Helper()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: off}
%[2]s
sources:
  log: {type: postgres, url: "postgres://relay@127.0.0.1:1/shop?sslmode=disable", table: %[1]s_outbox, wake: notify, retention: {}, leader: true, leader_lock: 7}
  queue:
    type: postgres
    url: "postgres://relay@127.0.0.1:1/shop?sslmode=disable"
    layout: custom
    table: jobs
    wake: notify
    queue: {key: id, type: kind, payload: body, status: status, created: created, claimed: claimed,
      statuses: {pending: NEW, processing: BUSY, done: DONE, retrying: RETRY, dead: FAILED}}
destinations: {here: {type: publisher, topic: t}}
routes:
  %[1]s_log: {from: log, to: here, middleware: [dedupe: 1h]}
  %[1]s_queue: {from: queue, to: here}
`, name, state))
	must(t, err)
	options := []outrider.Option{outrider.WithPool("log", p.app), outrider.WithPool("queue", p.app), outrider.WithLogger(slog.New(slog.DiscardHandler))}
	if state != "" {
		options = append(options, outrider.WithStatePool(p.state))
	}
	_, err = operate.Init(t.Context(), cfg, options...)
	must(t, err)
	_, err = operate.InitWake(t.Context(), cfg, options...)
	must(t, err)
	_, err = operate.InitIndexes(t.Context(), cfg, nil, options...)
	must(t, err)
	var got atomic.Int64
	publisher := &supplied{publish: func(*message.Message) error { got.Add(1); return nil }}
	withHere := append(slices.Clone(options), outrider.WithDestination("here", publisher))
	o, err := outrider.New(cfg, withHere...)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	p.exec(t, "INSERT INTO "+name+"_outbox (type, payload) VALUES ('a', '1')")
	p.exec(t, "INSERT INTO jobs VALUES ($1, 'b', '2', 'NEW', now(), NULL)", name)
	eventually(t, "both arrive", func() bool {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
		return got.Load() == 2
	})
	for _, d := range doctor.Doctor(ctx, cfg, withHere...) {
		if d.Level == adapters.LevelBroken {
			t.Errorf("doctor: %s: %s: %s", d.Part, d.Subject, d.Text)
		}
	}
	op, err := operate.NewOperator(ctx, cfg, options...)
	must(t, err)
	_, err = op.Retain(ctx, true, "test")
	must(t, err)
	must(t, op.Close())
	cancel()
	must(t, <-done)
	if p.asked.Load() == 0 {
		t.Error("the hook was never asked")
	}
	if n := p.app.Stat().NewConnsCount(); n != 0 {
		t.Errorf("the given pool made %d connections", n)
	}
}

func TestPoolsOfNoSourceAreRefused(t *testing.T) {
	t.Parallel()
	cfg := embedded(t, "")
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/none")
	must(t, err)
	defer pool.Close()
	for name, opt := range map[string]outrider.Option{
		`WithPool("app"): the configuration has no source`:     outrider.WithPool("app", pool), // of SQLite
		`WithPool("nowhere"): the configuration has no source`: outrider.WithPool("nowhere", pool),
		`WithPool("app"): it was given nil`:                    outrider.WithPool("app", nil),
		`WithStatePool: the configuration names no`:            outrider.WithStatePool(pool),
		`WithStatePool: it was given nil`:                      outrider.WithStatePool(nil),
	} {
		if _, err := outrider.New(cfg, outrider.WithDestination("here", &supplied{}), opt); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
