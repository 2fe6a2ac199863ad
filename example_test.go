package outrider_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// printer is a destination of the program's own, for one message at a time. It ends the
// example when it has one.
type printer struct{ done func() }

func (printer) Address(*message.Message) (string, error) { return "stdout", nil }
func (printer) Ordering() adapters.Ordering {
	return adapters.Ordering{Unit: adapters.UnitGroup, Static: true}
}
func (printer) Close() error { return nil }

func (p printer) Deliver(_ context.Context, _ string, batch []*message.Message) []error {
	for _, msg := range batch {
		fmt.Println(msg.Metadata.Get(outbox.MetaType), string(msg.Payload))
	}
	p.done()
	return nil
}

// program is what the examples share: a configuration, and messages in its outbox.
func program(texts ...string) (cfg *outrider.Config, cleanup func(), err error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return nil, nil, err
	}
	cfg, err = outrider.NewConfig(outrider.Config{
		Sources:      map[string]config.Source{"app": &config.SQLite{Path: filepath.Join(dir, "app.db")}},
		Destinations: map[string]config.Destination{"bus": &config.Publisher{Topic: "orders"}},
		Routes:       []config.Route{{Name: "orders", From: "app", Targets: []string{"bus"}}},
	})
	if err == nil {
		_, err = operate.Init(context.Background(), cfg)
	}
	for _, text := range texts {
		var event outbox.Envelope
		if err == nil {
			event, err = outbox.New("order.placed").Group("order-1").JSON(text).Build()
		}
		if err == nil {
			err = operate.Publish(context.Background(), cfg, "app", event)
		}
	}
	return cfg, func() { _ = os.RemoveAll(dir) }, err
}

// A relay in a Go program, with a destination of its own that takes batches.
func ExampleNew() {
	cfg, cleanup, err := program("milk")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cleanup()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	relay, err := outrider.New(cfg,
		outrider.WithBatchDestination("bus", printer{stop}),
		outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(relay.Run(ctx)) // nil: everything in flight was finished and written down
	// Output:
	// order.placed "milk"
	// <nil>
}

// Middleware of the program's own refuses a message for good: it is dead, and the next
// one of its group is delivered.
func ExampleWithMiddleware() {
	cfg, cleanup, err := program("", "milk")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cleanup()
	checked := func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if string(msg.Payload) == `""` {
				return nil, outbox.Permanent(errors.New("an order for nothing"))
			}
			return next(msg)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	relay, err := outrider.New(cfg,
		outrider.WithMiddleware("orders", checked),
		outrider.WithBatchDestination("bus", printer{stop}),
		outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil {
		err = relay.Run(ctx)
	}
	fmt.Println(err, "dead:", relay.Stats()[0].Dead)
	// Output:
	// order.placed "milk"
	// <nil> dead: 1
}

// Middleware that only looks at what came of a delivery says so by a marker. The route
// goes on to deliver in batches first, and runs the chains afterwards.
func ExampleWithLayers() {
	cfg, cleanup, err := program("milk")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cleanup()
	audit := func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			produced, err := next(msg) // what came of the delivery, at once
			fmt.Println("delivered:", string(msg.Payload), "error:", err)
			return produced, err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	relay, err := outrider.New(cfg,
		outrider.WithLayers("orders", middleware.AfterDelivery(audit)),
		outrider.WithBatchDestination("bus", printer{stop}),
		outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil {
		err = relay.Run(ctx)
	}
	fmt.Println(err)
	// Output:
	// order.placed "milk"
	// delivered: "milk" error: <nil>
	// <nil>
}

// Functions of the program are the destination, each registered for an event type.
func ExampleWithListeners() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cfg, err := outrider.NewConfig(outrider.Config{
		Sources:      map[string]config.Source{"app": &config.SQLite{Path: filepath.Join(dir, "app.db")}},
		Destinations: map[string]config.Destination{"functions": &config.Listeners{Workers: 4}},
		Routes:       []config.Route{{Name: "events", From: "app", Targets: []string{"functions"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	type order struct{ Number int }
	const placed outbox.Type[order] = "order.placed"

	registry := listeners.New()
	listeners.Listen(registry, placed, func(ctx context.Context, o order) error {
		event, _ := listeners.EnvelopeOf(ctx)
		fmt.Println("order", o.Number, "of", event.Group())
		return nil
	})
	listeners.Listen(registry, listeners.Any, func(_ context.Context, e outbox.Envelope) error {
		fmt.Println("audit:", e.Type())
		stop()
		return nil
	})
	relay, err := outrider.New(cfg, outrider.WithListeners("functions", registry), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	event, err := placed.New(order{Number: 1}).Group("customer-7").Build()
	if err == nil {
		_, err = operate.Init(ctx, cfg)
	}
	if err == nil {
		err = operate.Publish(ctx, cfg, "app", event)
	}
	if err == nil {
		err = relay.Run(ctx)
	}
	fmt.Println(err)
	// Output:
	// order 1 of customer-7
	// audit: order.placed
	// <nil>
}

// A Watermill publisher is the destination, and an operator looks at the lanes.
func ExampleWithDestination() {
	cfg, cleanup, err := program("milk")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cleanup()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	bus := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	messages, err := bus.Subscribe(ctx, "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	relay, err := outrider.New(cfg, outrider.WithDestination("bus", bus), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	msg := <-messages
	fmt.Println(string(msg.Payload))
	msg.Ack()
	stop()
	fmt.Println(<-ended)
	// Output:
	// "milk"
	// <nil>
}

// A source of the program's own: what a Watermill subscriber receives goes through
// routes like rows of an outbox. It has no database, so the state needs a place.
func ExampleWithSource() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cfg, err := outrider.ParseConfig("example", fmt.Appendf(nil, `
state: {url: %q}
sources: {orders: {type: subscriber, topic: orders}}
destinations: {out: {type: publisher, topic: out}}
routes: {all: {from: orders, to: out}}
`, filepath.Join(dir, "state.db")))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	orders := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
	msg := message.NewMessage(watermill.NewUUID(), []byte(`"milk"`))
	msg.Metadata.Set(outbox.MetaType, "order.placed")
	if err := orders.Publish("orders", msg); err != nil {
		fmt.Println(err)
		return
	}
	relay, err := outrider.New(cfg, outrider.WithSource("orders", orders),
		outrider.WithBatchDestination("out", printer{stop}), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil {
		err = relay.Run(ctx)
	}
	fmt.Println(err)
	_ = orders.Close()
	// Output:
	// order.placed "milk"
	// <nil>
}

// mailbox is a subscriber of the program's own: it hands out one message at a time, until
// each is acknowledged.
type mailbox struct {
	texts []string
	done  func()
}

func (mailbox) Close() error { return nil }

func (i mailbox) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for n, text := range i.texts {
			msg := message.NewMessage(fmt.Sprint(topic, "-", n+1), []byte(text))
			msg.Metadata.Set(outbox.MetaType, "order.placed")
			select {
			case out <- msg:
			case <-ctx.Done():
				return
			}
			select { // one that is not acknowledged would be sent again
			case <-msg.Acked():
				fmt.Println(msg.UUID, "is acknowledged")
			case <-ctx.Done():
				return
			}
		}
		i.done()
	}()
	return out, nil
}

// A subscriber of the program's own, for a system that has no Watermill adapter. A message
// is acknowledged when it has been delivered, and that is written down.
func ExampleWithSource_ownSubscriber() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cfg, err := outrider.ParseConfig("example", fmt.Appendf(nil, `
state: {url: %q}
sources: {orders: {type: subscriber, topic: order}}
destinations: {out: {type: publisher, topic: out}}
routes: {all: {from: orders, to: out}}
`, filepath.Join(dir, "state.db")))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	relay, err := outrider.New(cfg,
		outrider.WithSource("orders", mailbox{texts: []string{"milk", "bread"}, done: stop}),
		outrider.WithBatchDestination("out", printer{func() {}}),
		outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil {
		err = relay.Run(ctx)
	}
	fmt.Println(err)
	// Output:
	// order.placed milk
	// order-1 is acknowledged
	// order.placed bread
	// order-2 is acknowledged
	// <nil>
}
