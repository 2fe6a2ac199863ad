package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/polling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// wakingSource is a source whose writers call a reader that sleeps. They follow
// the rules of [adapters.Waker].
type wakingSource struct {
	*memSource
	woken chan struct{}

	mu     sync.Mutex
	asleep bool
	deaf   bool // nobody listens
	open   int  // transactions that took the reader to be awake
	sleeps int
	calls  int
}

func newWakingSource(m *memSource) *wakingSource {
	return &wakingSource{memSource: m, woken: make(chan struct{}, 1)}
}

func (w *wakingSource) Wake() <-chan struct{} { return w.woken }

func (w *wakingSource) Sleep(context.Context) adapters.Sleep {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sleeps++
	switch {
	case w.deaf:
		return adapters.Unsupported
	case w.open > 0:
		return adapters.Draining
	}
	w.asleep = true
	return adapters.Armed
}

func (w *wakingSource) Follows() bool { return false }

func (w *wakingSource) Awake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asleep = false
}

// begin opens a transaction; what it returns commits it. Whether it calls is
// decided at its begin.
func (w *wakingSource) begin(r *rig, group, id string) (commit func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	call := w.asleep
	if !call {
		w.open++
	}
	return func() {
		r.add(group, id)
		w.mu.Lock()
		defer w.mu.Unlock()
		if !call {
			w.open--
			return
		}
		w.calls++
		if w.asleep {
			w.asleep = false
			signal.Send(w.woken)
		}
	}
}

// An idle minute of a source that is notified costs one query per poll, too.
func TestG9_OneQueryPerPollBesideNotifications(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		src := newWakingSource(r.source)
		r.fill(20, 5)
		r.start(r.route(func(rt *Route) { rt.Source, rt.Poll.Max = src, time.Second }))
		r.await(100)
		time.Sleep(10 * time.Second)
		r.source.polls()
		time.Sleep(time.Minute)
		if fetches, reads := r.source.polls(); fetches < 59 || fetches > 61 || reads != 16*fetches {
			t.Errorf("%d queries with %d reads in an idle minute, want 60 with 960", fetches, reads)
		}
		if src.sleeps != 1 {
			t.Errorf("the reader asked to sleep %d times, want once", src.sleeps)
		}
		r.stop()
	})
}

// With polls an hour apart everything arrives, whatever lies between publishing
// and committing, and only those who meet a sleeping reader call.
func TestG1_NothingWaitsForThePollOfASleepingReader(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		src := newWakingSource(r.source)
		r.start(r.route(func(rt *Route) { rt.Source, rt.Poll.Max = src, time.Hour }))
		const writers, each = 4, 60
		begun := time.Now()
		var writing sync.WaitGroup
		for g := range writers {
			writing.Go(func() {
				for i := range each {
					commit := src.begin(r, fmt.Sprintf("g%d", g), fmt.Sprintf("g%d-%d", g, i))
					time.Sleep(time.Duration((i*7919+g*31)%40) * time.Millisecond)
					commit()
					time.Sleep(time.Duration((i*104729+g*17)%90) * time.Millisecond)
				}
			})
		}
		writing.Wait()
		written := time.Now()
		r.await(writers * each)
		if late := time.Since(written); late > polling.DrainingPause+20*time.Millisecond {
			t.Errorf("the last message came %v after its commit", late)
		}
		if time.Since(begun) > time.Minute || src.calls == 0 || src.calls > writers*each/2 {
			t.Errorf("%d calls for %d messages", src.calls, writers*each)
		}
		r.stop()
		r.checkOrdered(writers, each)
	})
}

// While nobody listens a source is polled as if it were never notified, and a
// call ends the pause that began before.
func TestAReaderThatIsNotHeardPolls(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		src := newWakingSource(r.source)
		src.deaf = true
		r.start(r.route(func(rt *Route) { rt.Source, rt.Poll.Max = src, time.Second }))
		time.Sleep(10 * time.Second)
		r.source.polls()
		time.Sleep(time.Minute)
		if fetches, _ := r.source.polls(); fetches < 59 || fetches > 61 {
			t.Errorf("%d queries in an idle minute, want 60", fetches)
		}
		r.add("g0", "g0-0")
		r.await(1)
		r.stop()
	})
}

// Somebody in the process who has committed wakes the reader, of a source that
// only polls too.
func TestWakeReadsAtOnce(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.start(r.route(func(rt *Route) { rt.Poll.Max = time.Hour }))
		for i := range 10 {
			time.Sleep(time.Duration(i*i) * time.Second)
			r.add("g0", fmt.Sprintf("g0-%d", i))
			r.router.Wake(r.source)
			committed := time.Now()
			r.await(i + 1)
			if late := time.Since(committed); late > 20*time.Millisecond {
				t.Fatalf("message %d came %v after its commit", i, late)
			}
		}
		r.router.Wake(&memSource{}) // nobody reads it
		r.stop()
		r.checkOrdered(1, 10)
	})
}

// The same with PostgreSQL: only notifications can bring what is published.
func TestG1_NotificationsAloneDeliverEverything(t *testing.T) {
	t.Parallel()
	const writers, each = 4, 25
	ctx := context.Background()
	url := testenv.Postgres(t)
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := owntable.Init(ctx, pool, ""); err != nil {
		t.Fatal(err)
	}
	dest := &receiver{ordering: wave}
	stop := startNotified(t, url, dest)
	client, err := outbox.NewClient(outbox.ClientConfig{Notify: true})
	if err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	for g := range writers {
		writing.Go(func() {
			for i := range each {
				time.Sleep(time.Duration((i*7919+g*31)%60) * time.Millisecond)
				m, err := outbox.New("t").ID(fmt.Sprintf("g%d-%d", g, i)).Group(fmt.Sprintf("g%d", g)).JSON(i).Build()
				if err == nil {
					err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return client.Publish(ctx, tx, m) })
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	for end := time.Now().Add(30 * time.Second); dest.count() < writers*each; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d messages arrived", dest.count(), writers*each)
		}
	}
	stop()
	(&rig{t: t, dest: dest}).checkOrdered(writers, each)
}

// startNotified runs a relay that polls once an hour while it sleeps, until the
// returned function is called.
func startNotified(t *testing.T, url string, dest adapters.Destination) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	src, err := owntable.New(ctx, owntable.Config{URL: url, Wake: postgres.WakeNotify})
	if err != nil {
		t.Fatal(err)
	}
	state, err := statestore.New(ctx, statestore.Config{URL: url})
	if err == nil {
		err = state.Migrate(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	rt, err := New(Config{Logger: slog.New(slog.DiscardHandler)}, []Route{{
		Name: "orders", Source: src, State: state, Destination: dest, Poll: Poll{Min: time.Hour, Max: time.Hour},
	}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- rt.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := errors.Join(<-done, src.Close(), state.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
