package outboxframework_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/compat/outboxframework"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSettingsHaveTheFrameworksDefaults(t *testing.T) {
	t.Parallel()
	const url = "postgres://app@127.0.0.1/app"
	cfg, err := outboxframework.NewSettings().Config(url)
	must(t, err)
	check(t, cfg, 4, 1000, 200, 5*time.Second, config.HotPath{Queue: 1000, SkipRecent: config.Duration(time.Second)}, config.Retry{Attempts: 10, Base: config.Duration(200 * time.Millisecond), Max: config.Duration(time.Minute), Jitter: 0.5, Growth: "exponential"})
	cfg, err = outboxframework.NewSettings().SetDispatcherWorkers(8).SetHotQueueCapacity(1).SetColdQueueCapacity(50).SetPollerEnabled(true).
		SetPollerInterval(time.Second).SetPollerBatchSize(20).SetPollerSkipRecent(0).SetRetryBaseDelay(time.Second).SetRetryMaxDelay(time.Hour).
		SetRetryMaxAttempts(3).Config(url)
	must(t, err)
	check(t, cfg, 8, 50, 20, time.Second, config.HotPath{Queue: 1}, config.Retry{Attempts: 3, Base: config.Duration(time.Second), Max: config.Duration(time.Hour), Jitter: 0.5, Growth: "exponential"})
	if _, err := outboxframework.NewSettings().SetPollerEnabled(false).Config(url); err == nil || !strings.Contains(err.Error(), "pollerEnabled") {
		t.Errorf("without polls: %v", err)
	}
	if _, err := outboxframework.NewSettings().Config(""); err == nil || !strings.Contains(err.Error(), "URL of the database is empty") {
		t.Errorf("without a URL: %v", err)
	}
	if _, err := outboxframework.NewSettings().SetDispatcherWorkers(-1).Config(url); err == nil || !strings.Contains(err.Error(), "workers") {
		t.Errorf("-1 workers: %v", err)
	}
}

func check(t *testing.T, cfg *config.Config, workers, inMemory, batch int, every time.Duration, hot config.HotPath, retry config.Retry) {
	t.Helper()
	src, _ := cfg.Sources[outboxframework.Source].(*config.Postgres)
	to, _ := cfg.Destinations[outboxframework.Destination].(*config.Listeners)
	r, _ := cfg.Routes[0].Middleware[1].(*config.Retry)
	if to.Workers != workers || src.Claims.InMemory != inMemory || src.Poll.Batch != batch || src.Poll.Min.Std() != every || src.Poll.Max.Std() != every || src.HotPath != hot || *r != retry {
		t.Errorf("workers %d, claims %+v, poll %+v, hot path %+v, retry %+v", to.Workers, src.Claims, src.Poll, src.HotPath, *r)
	}
}

type user struct{ Name string }

const userCreated outbox.Type[user] = "USER_CREATED"

type aggregate string

const userAggregate aggregate = "USER"

// userListeners has a listener that fails for users whose names begin with "never", and tells which other events it has got.
func userListeners() (*listeners.Registry, <-chan outbox.Envelope) {
	registry := listeners.New()
	seen := make(chan outbox.Envelope, 10)
	listeners.Listen(registry, userCreated, func(ctx context.Context, u user) error { // 18.5: the constant that publishes
		if strings.HasPrefix(u.Name, "never") {
			return errors.New("the listener fails")
		}
		e, _ := listeners.EnvelopeOf(ctx)
		seen <- e
		return nil
	}, listeners.OfAggregate(userAggregate))
	return registry, seen
}

// The framework's acceptance tests, chapters 18.2 and 18.4 to 18.6, without a hot path: after the commit the relay is woken.
func TestOutboxFramework_18_2_18_4_18_5_18_6(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	cfg, err := outboxframework.NewSettings().SetRetryMaxAttempts(3).SetRetryBaseDelay(time.Millisecond).SetPollerInterval(5 * time.Millisecond).Config(url)
	must(t, err)
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
	exported := &exporter{counts: map[string]int{}}
	running.Go(func() { outboxframework.Export(ctx, relay.Stats, exported, time.Hour) })
	defer func() {
		stop()
		running.Wait()
	}()

	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	defer pool.Close()
	client, err := outbox.NewClient(outbox.ClientConfig{Layout: "outbox-framework"})
	must(t, err)
	must(t, outbox.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		must(t, outbox.AfterCommit(ctx, func(context.Context) { relay.Wake(outboxframework.Source) }))
		for i, name := range []string{"heron", "never"} {
			e, err := userCreated.New(user{name}).Aggregate(string(userAggregate), strconv.Itoa(i)).ID(name).Tenant("acme").Build()
			must(t, err)
			must(t, client.Publish(ctx, tx, e))
		}
		return nil
	}))
	got := <-seen // 18.6: the aggregate type is the constant's text
	if got.AggregateType() != "USER" || got.ID() != "heron" || got.Tenant() != "acme" || string(got.Payload()) != `{"Name":"heron"}` {
		t.Errorf("the listener got %+v", got)
	}
	for id, want := range map[string]string{ // 18.2 and 18.4
		"heron": "1 0 true ",
		"never": "3 2 false the listener fails",
	} {
		var row string
		for ok := false; !ok; { // the relay writes results when they have gathered
			must(t, pool.QueryRow(t.Context(), `SELECT concat_ws(' ', status, attempts, CASE WHEN done_at IS NULL THEN 'false' ELSE 'true' END,
				CASE WHEN last_error LIKE '%the listener fails%' THEN 'the listener fails' ELSE '' END) FROM outbox_event WHERE event_id = $1`, id).Scan(&row))
			ok = row[0] == '1' || row[0] == '3'
		}
		if row != want {
			t.Errorf("%s: %q, want %q", id, row, want)
		}
	}
	stop()
	running.Wait()
	if exported.counts["success"] != 1 || exported.counts["failure"] != 2 || exported.counts["dead"] != 1 || exported.counts["cold"] < 2 {
		t.Errorf("exported %v", exported.counts)
	}
}

// exporter counts calls.
type exporter struct {
	outboxframework.Noop
	counts map[string]int
}

func (e *exporter) IncrementColdEnqueued()       { e.counts["cold"]++ }
func (e *exporter) IncrementDispatchSuccess()    { e.counts["success"]++ }
func (e *exporter) IncrementDispatchFailure()    { e.counts["failure"]++ }
func (e *exporter) IncrementDispatchDead()       { e.counts["dead"]++ }
func (e *exporter) IncrementHotEnqueued()        { e.counts["hot"]++ }
func (e *exporter) IncrementHotDropped()         { e.counts["dropped"]++ }
func (e *exporter) RecordQueueDepths(hot, n int) { e.counts["waiting"], e.counts["depth"] = hot, n }
func (e *exporter) RecordOldestLag(d time.Duration) {
	e.counts["lag"], e.counts["longest lag"] = int(d), max(e.counts["longest lag"], int(d))
}

func TestExportTellsWhatHasHappenedSince(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	asked := 0
	stats := func() []adapters.RouteStats {
		asked++
		switch asked {
		case 1:
			return []adapters.RouteStats{{Delivered: 2, Retried: 1, InFlight: 3, Oldest: 7}, {Dead: 1, Oldest: 5, Skipped: map[string]int64{"x": 1}}}
		case 2: // a reload
			return []adapters.RouteStats{{}}
		}
		stop()
		return []adapters.RouteStats{{Delivered: 1}}
	}
	e := &exporter{counts: map[string]int{}}
	outboxframework.Export(ctx, stats, e, time.Millisecond)
	if c := e.counts; c["success"] != 3 || c["failure"] != 1 || c["dead"] != 1 || c["cold"] != 9 || c["depth"] != 0 || c["lag"] != 0 || c["longest lag"] != 7 {
		t.Errorf("counts %v", c)
	}
}
