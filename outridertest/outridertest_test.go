package outridertest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outridertest"

	"github.com/ThreeDotsLabs/watermill/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type order struct{ Number int }

const orderCreated outbox.Type[order] = "order.created"

// place is the code of an application that is tested here.
func place(ctx context.Context, tx *sql.Tx, client *outbox.Client, customer string, number int) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?, ?)", customer, number); err != nil {
		return err
	}
	event, err := orderCreated.New(order{number}).Group(customer).Aggregate("order", strconv.Itoa(number)).Build()
	if err != nil {
		return err
	}
	return client.Publish(ctx, tx, event)
}

// start starts a kit with the application's tables.
func start(t *testing.T, opts ...outridertest.Option) *outridertest.Kit {
	t.Helper()
	kit := outridertest.Start(t, opts...)
	_, err := kit.DB.ExecContext(t.Context(), "CREATE TABLE orders (customer TEXT, number INTEGER CHECK (number > 0))")
	must(t, err)
	return kit
}

func TestWhatIsCommittedIsDelivered(t *testing.T) {
	t.Parallel()
	kit := start(t)
	for n := range 3 {
		must(t, outbox.InTx(t.Context(), kit.DB, func(ctx context.Context, tx *sql.Tx) error {
			return place(ctx, tx, kit.Client, "customer-7", n+1)
		}))
	}
	err := outbox.InTx(t.Context(), kit.DB, func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(place(ctx, tx, kit.Client, "customer-7", 4), errors.New("out of stock"))
	})
	if err == nil {
		t.Fatal("an order that failed was placed")
	}
	got := kit.Delivered()
	if len(got) != 3 {
		t.Fatalf("%d messages were delivered, want 3", len(got))
	}
	for i, e := range got {
		if want := fmt.Sprintf(`{"Number":%d}`, i+1); string(e.Payload()) != want || e.Type() != string(orderCreated) || e.Group() != "customer-7" {
			t.Errorf("message %d is %s %s of %s", i, e.Type(), e.Payload(), e.Group())
		}
	}
	if again := kit.Delivered(); len(again) != 3 || len(kit.Dead()) != 0 {
		t.Errorf("later %d were delivered, %d are dead", len(again), len(kit.Dead()))
	}
}

// TestG1_G2_FailingListenersRetryAndDie: an event that fails is attempted again while its group waits, an event whose payload cannot be
// decoded is dead at once, and a listener that panics fails its event and nothing else.
func TestG1_G2_FailingListenersRetryAndDie(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	attempts := map[int]int{}
	r := listeners.New()
	listeners.Listen(r, orderCreated, func(ctx context.Context, o order) error {
		mu.Lock()
		defer mu.Unlock()
		attempts[o.Number]++
		a, _ := outbox.AttemptOf(ctx)
		switch {
		case a.Number != attempts[o.Number]:
			t.Errorf("order %d: attempt %d is said to be %d", o.Number, attempts[o.Number], a.Number)
		case o.Number == 1 && a.Number < outridertest.Attempts:
			return errors.New("not yet")
		case o.Number == 2:
			return errors.New("never")
		case o.Number == 3:
			panic("boom")
		}
		return nil
	}, listeners.OfAggregate("order"))
	kit := start(t, outridertest.WithListeners(r))
	broken, err := outbox.New(string(orderCreated)).Aggregate("order", "0").RawJSON([]byte(`{"Number": "many"}`)).Build()
	must(t, err)
	other, err := outbox.New("order.paid").Group("a").JSON(1).Build()
	must(t, err)
	must(t, outbox.InTx(t.Context(), kit.DB, func(ctx context.Context, tx *sql.Tx) error {
		for n, customer := range []string{"a", "b", "c", "a", "b"} { // several groups fail one after the other: that is no sign of an outage
			must(t, place(ctx, tx, kit.Client, customer, n+1))
		}
		return kit.Client.Publish(ctx, nil, broken, other)
	}))
	byGroup := map[string]string{}
	for _, e := range kit.Delivered() {
		byGroup[e.Group()] += string(e.Payload())
	}
	if byGroup["a"] != `{"Number":1}{"Number":4}1` || byGroup["b"] != `{"Number":5}` || byGroup["c"] != "" {
		t.Errorf("delivered %v", byGroup)
	}
	causes := map[string]string{`{"Number": "many"}`: "cannot be decoded", `{"Number":2}`: "never", `{"Number":3}`: "boom"}
	for _, d := range kit.Dead() {
		if want := causes[string(d.Payload)]; want == "" || !strings.Contains(d.LastError, want) {
			t.Errorf("%s is dead: %s", d.Payload, d.LastError)
		}
		delete(causes, string(d.Payload))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(causes) > 0 || attempts[2] != outridertest.Attempts || attempts[3] != outridertest.Attempts {
		t.Errorf("not dead: %v; attempts %v", causes, attempts)
	}
}

func TestWaitForAnotherGoroutine(t *testing.T) {
	t.Parallel()
	kit := start(t)
	done := make(chan error, 1)
	go func() {
		done <- outbox.InTx(t.Context(), kit.DB, func(ctx context.Context, tx *sql.Tx) error { return place(ctx, tx, kit.Client, "a", 1) })
	}()
	if got := kit.Wait(1); got[0].AggregateID() != "1" {
		t.Errorf("delivered %v", got)
	}
	must(t, <-done)
}

func TestMiddlewareOfTheRelayIsUnderTestToo(t *testing.T) {
	t.Parallel()
	skip := func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if msg.Metadata[outbox.MetaAggregateID] == "1" {
				return nil, outbox.Skip("first")
			}
			return next(msg)
		}
	}
	kit := start(t, outridertest.WithRelay(outrider.WithMiddleware(outridertest.Route, skip)))
	for n := range 2 {
		must(t, outbox.InTx(t.Context(), kit.DB, func(ctx context.Context, tx *sql.Tx) error { return place(ctx, tx, kit.Client, "a", n+1) }))
	}
	if got := kit.Delivered(); len(got) != 1 || got[0].AggregateID() != "2" {
		t.Errorf("delivered %v", got)
	}
}
