package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// order is the message of the examples.
func order() *message.Message { return message.NewMessage("order-1", []byte(`{"item": "milk"}`)) }

// sold is a handler that always succeeds.
func sold(msg *message.Message) ([]*message.Message, error) {
	fmt.Println("delivered", msg.UUID)
	return nil, nil
}

// refused is a handler that always fails.
func refused(*message.Message) ([]*message.Message, error) {
	fmt.Println("attempted")
	return nil, errors.New("connection reset")
}

// The handler fails at first. Outside of a route Retry repeats it in place; on a route the
// lane keeps the message until its next attempt is due.
func ExampleRetry() {
	attempts := 0
	handler := middleware.Retry{Attempts: 5, Base: time.Millisecond}.Middleware(
		func(*message.Message) ([]*message.Message, error) {
			if attempts++; attempts < 3 {
				return nil, errors.New("connection reset")
			}
			return nil, nil
		})
	_, err := handler(order())
	fmt.Println(attempts, "attempts, error:", err)
	// Output: 3 attempts, error: <nil>
}

// The error of the last attempt says that the message is dead, which Poison acts on.
func ExampleRetry_exhausted() {
	handler := middleware.Retry{Attempts: 2, Base: time.Millisecond}.Middleware(refused)
	_, err := handler(order())
	fmt.Println(err)
	fmt.Println(outbox.VerdictOf(err).Outcome)
	// Output:
	// attempted
	// attempted
	// attempt 2 of 2: connection reset (no further attempts)
	// dead
}

// deadLetters is a publisher that shows what it is given.
type deadLetters struct{}

func (deadLetters) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		death, _ := outbox.DeathOf(msg.Metadata)
		fmt.Printf("%s: %s: %s: %s\n", topic, msg.UUID, death.Reason, death.Error)
	}
	return nil
}

func (deadLetters) Close() error { return nil }

// A message that can never be delivered is published elsewhere, with the reason, and
// acknowledged. On a route Poison parks it instead, so it needs no publisher there.
func ExamplePoison() {
	handler := middleware.Poison{Publisher: deadLetters{}, Topic: "orders.dead"}.Middleware(
		func(*message.Message) ([]*message.Message, error) {
			return nil, outbox.Permanent(errors.New("milk is sold out"))
		})
	_, err := handler(order())
	fmt.Println("error:", err)
	// Output:
	// orders.dead: order-1: permanent: milk is sold out
	// error: <nil>
}

// An attempt has a deadline in the context of its message.
func ExampleTimeout() {
	handler := middleware.Timeout{Limit: time.Millisecond}.Middleware(
		func(msg *message.Message) ([]*message.Message, error) {
			<-msg.Context().Done() // a receiver that does not answer
			return nil, msg.Context().Err()
		})
	_, err := handler(order())
	fmt.Println(err)
	// Output: context deadline exceeded
}

// Two messages an hour may pass. The third would have to wait for longer than its context
// allows, so it is released at once, without an attempt.
func ExampleThrottle() {
	throttle := &middleware.Throttle{Rate: 2.0 / 3600, Burst: 2}
	handler := throttle.Middleware(sold)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 3 {
		msg := order()
		msg.SetContext(ctx)
		if _, err := handler(msg); err != nil {
			fmt.Println(outbox.VerdictOf(err).Outcome)
		}
	}
	// Output:
	// delivered order-1
	// delivered order-1
	// released
}

// After two failures in a row the breaker opens: the third message fails without an attempt.
func ExampleBreaker() {
	breaker := &middleware.Breaker{Failures: 2, Open: time.Hour, Name: "orders", Logger: slog.New(slog.DiscardHandler)}
	handler := breaker.Middleware(refused)
	for range 3 {
		_, err := handler(order())
		fmt.Println(outbox.VerdictOf(err).Outcome)
	}
	// Output:
	// attempted
	// retry
	// attempted
	// retry
	// unavailable
}

// The same event comes twice and is delivered once.
func ExampleDedupe() {
	dedupe := &middleware.Dedupe{Window: time.Hour}
	handler := dedupe.Middleware(sold)
	for range 2 {
		_, err := handler(order())
		fmt.Println("error:", err)
	}
	// Output:
	// delivered order-1
	// error: <nil>
	// error: <nil>
}

// Attempts are counted by their result.
func ExampleMetrics() {
	registry := prometheus.NewRegistry()
	metrics := &middleware.Metrics{Registerer: registry}
	delivers, fails := metrics.Middleware(sold), metrics.Middleware(refused)
	_, _ = delivers(order())
	_, _ = fails(order())
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if c := m.GetCounter(); c != nil {
				fmt.Println(family.GetName(), m.GetLabel()[0].GetValue(), c.GetValue())
			}
		}
	}
	// Output:
	// delivered order-1
	// attempted
	// outrider_attempts_total delivered 1
	// outrider_attempts_total retry 1
}

// The span of an attempt has a link to the trace of the application that published the message.
func ExampleTracing() {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	handler := middleware.Tracing{Provider: provider}.Middleware(sold)
	msg := order()
	msg.Metadata.Set("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	_, err := handler(msg)
	fmt.Println("error:", err)
	for _, span := range spans.Ended() {
		fmt.Println(span.Name(), "linked to", span.Links()[0].SpanContext.TraceID())
	}
	// Output:
	// delivered order-1
	// error: <nil>
	// process linked to 4bf92f3577b34da6a3ce929d0e0e4736
}

// A layer of one's own that only looks at results has the method AfterDelivery. In a chain
// of such layers messages are delivered first, in batches.
func ExampleNewChain() {
	audit := middleware.AfterDelivery(func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			produced, err := next(msg)
			fmt.Println("audit:", msg.UUID, err)
			return produced, err
		}
	})
	checked := middleware.Func(func(next message.HandlerFunc) message.HandlerFunc { return next })
	fmt.Println(middleware.NewChain(audit, middleware.Retry{}).DeliverFirst)
	fmt.Println(middleware.NewChain(audit, middleware.Retry{}, checked).DeliverFirst)
	// Output:
	// true
	// false
}
