package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/internal/lanectx"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// eventStore is a DedupeStore that remembers forever, counts calls and fails if
// told to.
type eventStore struct {
	slow time.Duration

	mu      sync.Mutex
	known   map[adapters.EventRef]bool
	err     error
	calls   int
	expired int
}

func (e *eventStore) begin() error {
	time.Sleep(e.slow)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	return e.err
}

func (e *eventStore) Seen(_ context.Context, events []adapters.EventRef) ([]bool, error) {
	if err := e.begin(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []bool
	for _, event := range events {
		out = append(out, e.known[event])
	}
	return out, nil
}

func (e *eventStore) Record(_ context.Context, events []adapters.SeenEvent) error {
	if err := e.begin(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range events {
		if e.known == nil {
			e.known = map[adapters.EventRef]bool{}
		}
		e.known[s.EventRef] = true
	}
	return nil
}

func (e *eventStore) Expire(_ context.Context, limit int) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expired += limit
	return 0, nil
}

func (e *eventStore) setErr(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// quiet is a logger for tests that provoke warnings.
var quiet = slog.New(slog.DiscardHandler)

// laneContext is a lane's context with a place, which knows of the delivery.
type laneContext struct {
	context.Context
	delivered *bool
}

func (c laneContext) Value(key any) any {
	if key == lanectx.Delivered {
		return *c.delivered
	}
	return c.Context.Value(key)
}

// onLaneAt is a message of a lane, and whether it counts as delivered.
func onLaneAt(ctx context.Context, id string, place uint64) (msg *message.Message, delivered *bool) {
	delivered = new(bool)
	ctx = context.WithValue(ctx, lanectx.Attempt, &outbox.Attempt{Route: "orders", Lane: "orders/07", Number: 1, Place: place})
	return message.NewMessageWithContext(laneContext{ctx, delivered}, id, nil), delivered
}

// The trap of Watermill's Deduplicator: a message whose first attempt failed is
// delivered by the next one, and by no further one.
func TestG1_DedupeRecordsAfterSuccessOnly(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]adapters.DedupeStore{"memory": nil, "store": &eventStore{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			delivers := func(msg *message.Message) { // as a lane's gate does
				*(msg.Context().Value(deliverKey).(*bool)) = true
			}
			for _, c := range []struct {
				name string
				h    func(msg *message.Message) error
				want outbox.Outcome
				next outbox.Outcome // of a twin
			}{
				{"fails", func(*message.Message) error { return errBoom }, outbox.OutcomeRetry, outbox.OutcomeDelivered},
				{"is dead", func(*message.Message) error { return outbox.Permanent(errBoom) }, outbox.OutcomeDead, outbox.OutcomeDelivered},
				{"is kept", func(*message.Message) error { return nil }, outbox.OutcomeDelivered, outbox.OutcomeDelivered},
				{"is skipped", func(*message.Message) error { return outbox.Skip("other") }, outbox.OutcomeSkipped, outbox.OutcomeDelivered},
				{"is delivered", func(m *message.Message) error { delivers(m); return nil }, outbox.OutcomeDelivered, outbox.OutcomeSkipped},
				{"fails afterwards", func(m *message.Message) error { delivers(m); return errBoom }, outbox.OutcomeRetry, outbox.OutcomeSkipped},
			} {
				dedupe := &middleware.Dedupe{Store: store, Logger: quiet}
				handle := dedupe.Middleware(func(msg *message.Message) ([]*message.Message, error) { return nil, c.h(msg) })
				first, delivered := onLaneAt(t.Context(), c.name, 1)
				first.SetContext(context.WithValue(first.Context(), deliverKey, delivered))
				_, err := handle(first)
				wantVerdict(t, err, c.want)
				then := dedupe.Middleware(failing(nil))
				second, _ := onLaneAt(t.Context(), c.name, 2)
				if _, err = then(second); outbox.VerdictOf(err).Outcome != c.next {
					t.Errorf("%s: the next one: %v", c.name, err)
				}
			}
		})
	}
}

// deliverKey leads handlers of these tests to what the lane knows.
var deliverKey any = struct{ string }{"delivered"}

// A panic tells nothing: its message comes again.
func TestDedupeForgetsPanics(t *testing.T) {
	t.Parallel()
	dedupe := &middleware.Dedupe{}
	func() {
		defer func() { _ = recover() }()
		_, _ = dedupe.Middleware(explode)(newMessage(t.Context()))
	}()
	h, calls := returning(nil)
	if _, err := dedupe.Middleware(h)(newMessage(t.Context())); err != nil || calls.Load() != 1 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
}

// In somebody's Watermill router: duplicates are handled once, a failed one
// comes again and is handled, and others of its id under way at the same time wait.
func TestDedupeInRouter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		handled, failed := map[string]int{}, false
		b := startRouter(t, func(msg *message.Message) ([]*message.Message, error) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if msg.UUID == "flaky" && !failed {
				failed = true
				return nil, errBoom
			}
			handled[msg.UUID]++
			return message.Messages{message.NewMessage(msg.UUID, nil)}, nil
		}, (&middleware.Dedupe{}).Middleware)
		defer b.stop()
		out, err := b.pubsub.Subscribe(t.Context(), "out")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for msg := range out {
				msg.Ack()
			}
		}()
		for range 3 {
			for _, id := range []string{"a", "flaky", ""} {
				b.publish(message.NewMessage(id, nil))
			}
		}
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if got := fmt.Sprint(handled); got != "map[:3 a:1 flaky:1]" {
			t.Errorf("handled %v; those without an id are no duplicates", got)
		}
	})
}

// Ids are remembered for the window, per scope, and memory holds the newest.
func TestDedupeWindowAndMax(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		dedupe := &middleware.Dedupe{Window: time.Hour, Max: 3, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		h, calls := returning(nil)
		handle := dedupe.Middleware(h)
		try := func(want int64, ids ...string) {
			t.Helper()
			before := calls.Load()
			for _, id := range ids {
				if _, err := handle(message.NewMessage(id, nil)); err != nil {
					t.Fatal(err)
				}
			}
			if n := calls.Load() - before; n != want {
				t.Errorf("%v: %d handled, want %d", ids, n, want)
			}
		}
		try(3, "a", "b", "c")
		time.Sleep(time.Hour - time.Second)
		try(0, "a", "b", "c")
		try(1, "d") // a is forgotten
		try(2, "c", "d", "a", "b")
		if n := strings.Count(log.String(), "the oldest are forgotten"); n != 1 {
			t.Errorf("%d warnings: %s", n, log.String())
		}
		time.Sleep(time.Hour)
		try(3, "a", "b", "d")
	})
}

// On a lane nothing is attempted while the store cannot be asked; what was
// delivered stays delivered when it cannot be recorded.
func TestDedupeStoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &eventStore{err: errBoom}
		var log strings.Builder
		dedupe := &middleware.Dedupe{Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		h, calls := returning(nil)
		msg, delivered := onLaneAt(t.Context(), "a", 1)
		_, err := dedupe.Middleware(h)(msg)
		if v := wantVerdict(t, err, outbox.OutcomeReleased); v.RetryAfter != time.Second || !errors.Is(err, errBoom) {
			t.Errorf("%+v", v)
		}
		_, err = dedupe.Middleware(h)(message.NewMessage("a", nil)) // elsewhere
		wantVerdict(t, err, outbox.OutcomeUnavailable)
		if calls.Load() != 0 {
			t.Errorf("%d attempts", calls.Load())
		}
		store.setErr(nil)
		_, err = dedupe.Middleware(func(*message.Message) ([]*message.Message, error) {
			store.setErr(errBoom)
			time.AfterFunc(5*time.Second, func() { store.setErr(nil) })
			*delivered = true
			return nil, nil
		})(msg)
		wantVerdict(t, err, outbox.OutcomeDelivered)
		twin, _ := onLaneAt(t.Context(), "a", 2)
		_, err = dedupe.Middleware(h)(twin)
		wantVerdict(t, err, outbox.OutcomeSkipped)
		if fails, works := strings.Count(log.String(), "the store fails"), strings.Count(log.String(), "works again"); fails != 2 || works != 2 {
			t.Errorf("logged %d failures and %d ends:\n%s", fails, works, log.String())
		}
	})
}

// The twin that entered the lanes first goes first: one that is under way is
// called off by its context, and one that waits gives up when its lane stops.
func TestDedupeCallsOffLaterTwins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dedupe := &middleware.Dedupe{}
		gate := dedupe.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			a, _ := outbox.AttemptOf(msg.Context())
			if a.Place == 1 {
				time.Sleep(500 * time.Millisecond)
				*(msg.Context().Value(deliverKey).(*bool)) = true
				return nil, nil
			}
			<-msg.Context().Done() // it waits for the first, as at the gate
			return nil, outbox.Released(msg.Context().Err())
		})
		var errs [5]error
		var all sync.WaitGroup
		stopping, stop := context.WithCancel(t.Context())
		for _, place := range []uint64{3, 2, 1, 4} {
			ctx := t.Context()
			if place == 4 {
				ctx = stopping
			}
			msg, delivered := onLaneAt(ctx, "a", place)
			msg.SetContext(context.WithValue(msg.Context(), deliverKey, delivered))
			all.Go(func() { _, errs[place] = gate(msg) })
			synctest.Wait()
		}
		stop()
		all.Wait()
		wantVerdict(t, errs[1], outbox.OutcomeDelivered)
		wantVerdict(t, errs[2], outbox.OutcomeReleased)
		wantVerdict(t, errs[3], outbox.OutcomeReleased)
		wantVerdict(t, errs[4], outbox.OutcomeReleased)
	})
}

// Concurrent messages ask the store together.
func TestDedupeCoalesces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &eventStore{slow: 10 * time.Millisecond}
		shared := middleware.Coalesce(store)
		handles := []message.HandlerFunc{
			(&middleware.Dedupe{Store: shared}).Middleware(failing(nil)), (&middleware.Dedupe{Store: shared}).Middleware(failing(nil)),
		}
		var all sync.WaitGroup
		const n = 2500
		for i := range n {
			all.Go(func() {
				if _, err := handles[i%2](message.NewMessage(strconv.Itoa(i), nil)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if store.calls > 12 || len(store.known) != n {
			t.Errorf("%d calls for %d messages, %d recorded", store.calls, n, len(store.known))
		}
		const step = 500 // less than that may be left for later
		if store.expired <= 2*n-step {
			t.Errorf("only %d expired events may have been deleted", store.expired)
		}
	})
}

func TestDedupeValidate(t *testing.T) {
	t.Parallel()
	wantInvalid(t, (&middleware.Dedupe{}).Validate(), "")
	wantInvalid(t, (&middleware.Dedupe{Window: -1, Max: -1}).Validate(),
		"dedupe: window is -1ns: give a duration above 0\ndedupe: max is -1: give 1 or more")
	wantInvalid(t, (&middleware.Dedupe{Max: 1, Store: &eventStore{}}).Validate(),
		"dedupe: max is set, but a store as well: max is for memory, leave one of them out")
}

// The wrapper of a store keeps the store's contract.
func TestCoalesceConformance(t *testing.T) {
	t.Parallel()
	adaptertest.DedupeStore(t, func(testing.TB) func() adapters.DedupeStore {
		store := middleware.NewMemoryForTest(100_000)
		return func() adapters.DedupeStore { return middleware.Coalesce(store) }
	})
}

func TestMemoryConformance(t *testing.T) {
	t.Parallel()
	adaptertest.DedupeStore(t, func(testing.TB) func() adapters.DedupeStore {
		store := middleware.NewMemoryForTest(100_000)
		return func() adapters.DedupeStore { return store }
	})
}
