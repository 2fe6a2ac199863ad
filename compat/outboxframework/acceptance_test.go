package outboxframework_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// app is a program of the framework: a client, listeners and a relay.
type app struct {
	t        *testing.T
	pool     *pgxpool.Pool
	registry *listeners.Registry
	client   *outbox.Client
	relay    *outrider.Outrider
	log      *lines
	start    func()
	stop     func()
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(of string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), of)
}

// newApp makes a program whose relay has not started.
func newApp(t *testing.T, url string, s *outboxframework.Settings) *app {
	t.Helper()
	a := &app{t: t, registry: listeners.New(), log: &lines{}}
	cfg, err := s.Config(url)
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	a.pool, err = pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(a.pool.Close)
	a.relay, err = outrider.New(cfg, outrider.WithListeners(outboxframework.Destination, a.registry), outrider.WithLogger(slog.New(slog.NewTextHandler(a.log, nil))))
	must(t, err)
	hot, err := a.relay.HotPath(outboxframework.Source)
	must(t, err)
	a.client, err = outbox.NewClient(outbox.ClientConfig{Layout: "outbox-framework", Hot: hot})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	a.start = func() {
		running.Go(func() {
			if err := a.relay.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		a.warmUp()
	}
	a.stop = func() { cancel(); running.Wait() }
	t.Cleanup(a.stop)
	return a
}

// warmUp waits until events are delivered from memory: the relay has its lanes, and has looked at its table.
func (a *app) warmUp() {
	a.t.Helper()
	<-a.relay.Ready()
	var last outbox.Envelope
	for i, n := 0, a.hot(); a.hot() == n; i++ {
		last = a.publish("WARM_UP", fmt.Sprint("warm-up ", i%100)) // some lanes may be another program's
	}
	a.await(last.ID(), "1 0")
}

// hot is how many events came into the hot queue.
func (a *app) hot() (n int64) {
	for _, s := range a.relay.Stats() {
		n += s.Queue.HotTaken
	}
	return n
}

// publish publishes an event in a transaction.
func (a *app) publish(typ, aggregate string) outbox.Envelope {
	a.t.Helper()
	e, err := outbox.New(typ).JSON(map[string]string{"of": aggregate}).Aggregate(string(userAggregate), aggregate).Build()
	must(a.t, err)
	must(a.t, a.inTx(func(ctx context.Context) error { return a.client.Publish(ctx, nil, e) }))
	return e
}

func (a *app) inTx(fn func(context.Context) error) error {
	return outbox.InTx(a.t.Context(), a.pool, func(ctx context.Context, _ pgx.Tx) error { return fn(ctx) })
}

// status is a row's status and attempts; empty: there is none.
func (a *app) status(id string) (row string) {
	a.t.Helper()
	if err := a.pool.QueryRow(a.t.Context(), "SELECT status || ' ' || attempts FROM outbox_event WHERE event_id = $1", id).Scan(&row); !errors.Is(err, pgx.ErrNoRows) {
		must(a.t, err)
	}
	return row
}

// await waits for a row's status.
func (a *app) await(id, want string) {
	a.t.Helper()
	for a.status(id) != want {
		if a.t.Context().Err() != nil {
			a.t.Fatalf("%s is %q, want %q", id, a.status(id), want)
		}
		time.Sleep(time.Millisecond)
	}
}

// awaitLog waits for a line of the log.
func (a *app) awaitLog(text string) {
	a.t.Helper()
	for a.log.count(text) == 0 {
		if a.t.Context().Err() != nil {
			a.t.Fatalf("the log has no %s", text)
		}
		time.Sleep(time.Millisecond)
	}
}

// rarely has settings whose poller finds nothing during a test.
func rarely() *outboxframework.Settings {
	return outboxframework.NewSettings().SetPollerInterval(time.Hour).SetPollerSkipRecent(time.Hour)
}

// 18.1: what is rolled back leaves no row, and reaches no listener.
func TestG1_OutboxFramework_18_1_Atomicity(t *testing.T) {
	t.Parallel()
	a := newApp(t, testenv.Postgres(t), rarely())
	seen := make(chan string, 10)
	listeners.Listen(a.registry, outbox.Type[user]("USER_CREATED"), func(ctx context.Context, _ user) error {
		e, _ := listeners.EnvelopeOf(ctx)
		seen <- e.ID()
		return nil
	})
	a.start()
	e, err := userCreated.New(user{"heron"}).Aggregate(string(userAggregate), "1").Build()
	must(t, err)
	failed := errors.New("the order was refused")
	if err := a.inTx(func(ctx context.Context) error {
		must(t, a.client.Publish(ctx, nil, e))
		return failed
	}); !errors.Is(err, failed) {
		t.Errorf("the transaction ended with %v", err)
	}
	if got := a.status(e.ID()); got != "" {
		t.Errorf("the row is %q", got)
	}
	next := a.publish("USER_CREATED", "1")
	if got := <-seen; got != next.ID() {
		t.Errorf("the listener got %s, want %s", got, next.ID())
	}
	if err := a.client.Publish(t.Context(), nil, e); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("outside of a transaction: %v", err)
	}
}

// 18.2: after the commit the listener is called from memory, and the row is DONE.
func TestOutboxFramework_18_2_HotPath(t *testing.T) {
	t.Parallel()
	a := newApp(t, testenv.Postgres(t), rarely())
	got := make(chan outbox.Envelope, 1)
	listeners.Listen(a.registry, userCreated, func(ctx context.Context, _ user) error {
		e, _ := listeners.EnvelopeOf(ctx)
		got <- e
		return nil
	})
	a.start()
	before := a.hot()
	e, err := userCreated.New(user{"heron"}).Aggregate(string(userAggregate), "1").Tenant("acme").Header("k", "v").Build()
	must(t, err)
	must(t, a.inTx(func(ctx context.Context) error { return a.client.Publish(ctx, nil, e) }))
	g := <-got
	if g.ID() != e.ID() || string(g.Payload()) != `{"Name":"heron"}` || g.Tenant() != "acme" || g.Headers()["k"] != "v" || g.AggregateType() != "USER" {
		t.Errorf("the listener got %+v", g)
	}
	a.await(e.ID(), "1 0")
	if n := a.hot() - before; n != 1 {
		t.Errorf("%d events came by the hot path, want 1", n)
	}
}

// 18.3: with a hot queue of one, publish returns nil, the row is NEW, and the poller has it DONE. One WARN and a count say so.
func TestG13_OutboxFramework_18_3_Overflow(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	a := newApp(t, url, rarely().SetHotQueueCapacity(1))
	a.start()
	e := []outbox.Envelope{}
	must(t, a.inTx(func(ctx context.Context) error {
		for range 3 {
			m, err := outbox.New("USER_CREATED").JSON(1).Aggregate(string(userAggregate), "1").Build()
			must(t, err)
			e = append(e, m)
		}
		return a.client.Publish(ctx, nil, e...)
	}))
	a.await(e[0].ID(), "1 0")
	for _, m := range e[1:] {
		if got := a.status(m.ID()); got != "0 0" {
			t.Errorf("the row is %q, want NEW", got)
		}
	}
	stats := a.relay.Stats()[0].Queue
	if stats.HotDropped != 2 || a.log.count("the hot queue is full") != 1 || a.log.count("level=WARN") != 1 {
		t.Errorf("%d events were dropped, with %d warnings", stats.HotDropped, a.log.count("level=WARN"))
	}
	a.stop()
	b := newApp(t, url, outboxframework.NewSettings().SetPollerInterval(5*time.Millisecond))
	b.start()
	for _, m := range e[1:] {
		b.await(m.ID(), "1 0")
	}
}

// 18.4: attempts grow while the row is RETRY, and after the last one it is DEAD. The log has WARN for the one and ERROR for the other.
func TestOutboxFramework_18_4_RetryAndDead(t *testing.T) {
	t.Parallel()
	a := newApp(t, testenv.Postgres(t), outboxframework.NewSettings().SetPollerInterval(5*time.Millisecond).SetPollerSkipRecent(0).
		SetRetryMaxAttempts(3).SetRetryBaseDelay(time.Millisecond))
	failures, seen := make(chan error), make(chan string)
	listeners.Listen(a.registry, listeners.Any, func(_ context.Context, e outbox.Envelope) error {
		if e.Type() != "USER_CREATED" {
			return nil
		}
		seen <- a.status(e.ID())
		return <-failures
	})
	a.start()
	e := a.publish("USER_CREATED", "1")
	for _, want := range []string{"0 0", "2 1", "2 2"} {
		if got := <-seen; got != want {
			t.Errorf("in an attempt the row is %q, want %q", got, want)
		}
		failures <- errors.New("the listener fails")
	}
	a.await(e.ID(), "3 2")
	if a.log.count("level=ERROR") != 1 || a.log.count("level=WARN") != 1 {
		t.Errorf("%d errors and %d warnings in the log, want one for the dead row and one for the first failure", a.log.count("level=ERROR"), a.log.count("level=WARN"))
	}
}

// The exporter hears of both queues.
func TestOutboxFrameworkExportsBothQueues(t *testing.T) {
	t.Parallel()
	queue := &adapters.QueueStats{HotTaken: 4, HotDropped: 3, HotWaiting: 1} // of both routes
	stats := []adapters.RouteStats{{Delivered: 4, InFlight: 2, Queue: queue}, {Delivered: 1, Queue: queue}}
	e := &exporter{counts: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	outboxframework.Export(ctx, func() []adapters.RouteStats { return stats }, e, time.Hour)
	if c := e.counts; c["hot"] != 4 || c["dropped"] != 3 || c["cold"] != 4 || c["waiting"] != 1 || c["depth"] != 2 {
		t.Errorf("counts %v", c)
	}
}
