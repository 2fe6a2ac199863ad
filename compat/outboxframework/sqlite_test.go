package outboxframework_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/compat/outboxframework"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/outbox"
)

// The framework's acceptance tests on SQLite, chapters 18.1, 18.2 and 18.4 to 18.6, without a hot path: after the commit the relay is woken.
func TestOutboxFrameworkOnSQLite_18_1_18_2_18_4_18_5_18_6(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.db")
	cfg, err := outboxframework.NewSettings().SetRetryMaxAttempts(3).SetRetryBaseDelay(time.Millisecond).SetPollerInterval(5 * time.Millisecond).Config("sqlite:" + path)
	must(t, err)
	if src, _ := cfg.Sources[outboxframework.Source].(*config.SQLite); src == nil || src.Path != path {
		t.Fatalf("the source is %+v", cfg.Sources[outboxframework.Source])
	}
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	registry, seen := userListeners()
	relay, err := outrider.New(cfg, outrider.WithListeners(outboxframework.Destination, registry), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := relay.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer func() {
		stop()
		running.Wait()
	}()

	db, err := sqlite.Open(path)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	client, err := outbox.NewClient(outbox.ClientConfig{Layout: "outbox-framework", Dialect: outbox.SQLite})
	must(t, err)
	publish := func(end error, aggregate string, names ...string) error {
		return outbox.InTx(t.Context(), db, func(ctx context.Context, _ *sql.Tx) error {
			must(t, outbox.AfterCommit(ctx, func(context.Context) { relay.Wake(outboxframework.Source) }))
			var all []outbox.Envelope
			for _, name := range names {
				e, err := userCreated.New(user{name}).Aggregate(string(userAggregate), aggregate).ID(name).Tenant("acme").Header("k", "v").Build()
				must(t, err)
				all = append(all, e)
			}
			must(t, client.Publish(ctx, nil, all...))
			return end
		})
	}
	failure := errors.New("rolled back")
	if err := publish(failure, "0", "gone"); !errors.Is(err, failure) { // 18.1
		t.Error(err)
	}
	must(t, publish(nil, "1", "never"))
	must(t, publish(nil, "2", "heron", "bittern", "egret")) // whatever their ids are
	for _, want := range []string{"heron", "bittern", "egret"} {
		got := <-seen // 18.6: the aggregate type is the constant's text
		if got.AggregateType() != "USER" || got.ID() != want || got.Tenant() != "acme" || string(got.Payload()) != `{"Name":"`+want+`"}` || got.Headers()["k"] != "v" {
			t.Errorf("the listener got %+v, want %s", got, want)
		}
	}
	for id, want := range map[string]string{ // 18.2 and 18.4
		"heron": "1 0 1 ",
		"never": "3 2 0 the listener fails",
	} {
		var row string
		for ok := false; !ok; { // the relay writes results when they have gathered
			must(t, db.QueryRow(`SELECT status || ' ' || attempts || ' ' || (done_at IS NOT NULL) || ' ' ||
				CASE WHEN last_error LIKE '%the listener fails%' THEN 'the listener fails' ELSE '' END FROM outbox_event WHERE event_id = ?`, id).Scan(&row))
			ok = row[0] == '1' || row[0] == '3'
		}
		if row != want {
			t.Errorf("%s: %q, want %q", id, row, want)
		}
	}
	var rolledBack int
	must(t, db.QueryRow(`SELECT count(*) FROM outbox_event WHERE event_id = 'gone'`).Scan(&rolledBack))
	if rolledBack != 0 {
		t.Error("18.1: the row of a transaction that was rolled back is there")
	}
}

// Chapter 18.3 on SQLite: with room for one event in memory, and that one at a listener, publishing goes on. The others stay NEW, and the poller
// takes them to DONE.
func TestG13_OutboxFrameworkOnSQLite_18_3_Overflow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.db")
	cfg, err := outboxframework.NewSettings().SetColdQueueCapacity(1).SetDispatcherWorkers(1).SetPollerInterval(5 * time.Millisecond).Config("sqlite:" + path)
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	registry, began, goOn := listeners.New(), make(chan string, 10), make(chan struct{})
	listeners.Listen(registry, userCreated, func(_ context.Context, u user) error {
		began <- u.Name
		<-goOn
		return nil
	})
	relay, err := outrider.New(cfg, outrider.WithListeners(outboxframework.Destination, registry), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	db, err := sqlite.Open(path)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	client, err := outbox.NewClient(outbox.ClientConfig{Layout: "outbox-framework", Dialect: outbox.SQLite})
	must(t, err)
	publish := func(name string) {
		must(t, outbox.InTx(t.Context(), db, func(ctx context.Context, _ *sql.Tx) error {
			e, err := userCreated.New(user{name}).Aggregate(string(userAggregate), name).ID(name).Build()
			must(t, err)
			return client.Publish(ctx, nil, e)
		}))
	}
	count := func(status int) (n int) {
		must(t, db.QueryRow("SELECT count(*) FROM outbox_event WHERE status = ?", status).Scan(&n))
		return n
	}
	publish("heron")
	<-began
	publish("bittern")
	publish("egret")
	time.Sleep(100 * time.Millisecond) // twenty polls
	if len(began) > 0 || count(0) != 3 {
		t.Errorf("%d rows are NEW, want 3, and %d more events are at the listener, want none", count(0), len(began))
	}
	close(goOn)
	for count(1) < 3 {
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	must(t, <-ended)
}
