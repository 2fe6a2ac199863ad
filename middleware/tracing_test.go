package middleware_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/internal/lanectx"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

const (
	appTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	appSpan   = "00f067aa0ba902b7"
	appParent = "00-" + appTrace + "-" + appSpan + "-01"
)

// recording returns a tracing middleware and what it records.
func recording(t *testing.T) (middleware.Tracing, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return middleware.Tracing{Provider: provider}, spans
}

func attributesOf(s sdktrace.ReadOnlySpan) map[attribute.Key]string {
	out := map[attribute.Key]string{}
	for _, a := range s.Attributes() {
		out[a.Key] = a.Value.String()
	}
	return out
}

// An attempt is linked to the application's trace, whose headers travel as they are.
func TestTracingLinksToTheApplicationsTrace(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"traceparent", "Traceparent"} {
		tracing, spans := recording(t)
		msg := newMessage(onLane(2))
		msg.Metadata = message.Metadata{key: appParent, "tracestate": "app=1", "baggage": "user=7", outbox.MetaType: "order.created"}
		before := maps.Clone(msg.Metadata)
		ctx := msg.Context()
		_, err := tracing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			if !maps.Equal(msg.Metadata, before) {
				t.Errorf("the receiver gets %v, want %v", msg.Metadata, before)
			}
			if got := baggage.FromContext(msg.Context()).Member("user").Value(); got != "7" {
				t.Errorf("baggage %q", got)
			}
			if a, ok := outbox.AttemptOf(msg.Context()); !ok || a.Number != 2 {
				t.Errorf("attempt %+v, %v", a, ok)
			}
			return nil, nil
		})(msg)
		if err != nil || !maps.Equal(msg.Metadata, before) || msg.Context() != ctx {
			t.Errorf("%v; metadata %v", err, msg.Metadata)
		}
		s := spans.Ended()[0]
		if s.Name() != "send orders" || s.SpanKind() != trace.SpanKindProducer || s.Parent().IsValid() || len(s.Links()) != 1 {
			t.Fatalf("span %s, %v, parent %v, links %v", s.Name(), s.SpanKind(), s.Parent(), s.Links())
		}
		if app := s.Links()[0].SpanContext; app.TraceID().String() != appTrace || app.SpanID().String() != appSpan || !app.IsRemote() || app.TraceState().Get("app") != "1" {
			t.Errorf("link to %v", app)
		}
		for k, want := range map[attribute.Key]string{
			"messaging.system": "outrider", "messaging.operation.name": "send", "messaging.operation.type": "send",
			"messaging.destination.name": "orders", "messaging.message.id": "id-1", "messaging.message.body.size": "7",
			"outrider.route": "orders", "outrider.lane": "orders/07", "outrider.attempt": "2",
			"outrider.event_type": "order.created", "outrider.verdict": "delivered",
		} {
			if got := attributesOf(s)[k]; got != want {
				t.Errorf("%s is %q, want %q", k, got, want)
			}
		}
	}
}

// A message without a trace gets ours, for the time of the attempt, and every
// attempt its own.
func TestTracingBeginsATrace(t *testing.T) {
	t.Parallel()
	tracing, spans := recording(t)
	msg := newMessage(onLane(1))
	msg.Metadata = nil
	var sent []string
	h := tracing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		sent = append(sent, msg.Metadata["traceparent"])
		return nil, errBoom
	})
	for range 2 {
		_, _ = h(msg)
		if len(msg.Metadata) > 0 {
			t.Errorf("metadata afterwards: %v", msg.Metadata)
		}
	}
	for i, s := range spans.Ended() {
		sc := s.SpanContext()
		if want := fmt.Sprintf("00-%s-%s-01", sc.TraceID(), sc.SpanID()); sent[i] != want || s.Parent().IsValid() {
			t.Errorf("sent %q, want %q; parent %v", sent[i], want, s.Parent())
		}
	}
	if sent[0] == sent[1] {
		t.Error("two attempts have one span")
	}
}

// A traceparent that nobody can read is the application's all the same.
func TestTracingLeavesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	tracing, spans := recording(t)
	msg := newMessage(onLane(1))
	msg.Metadata = message.Metadata{"traceparent": "garbage"}
	_, _ = tracing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		if len(msg.Metadata) != 1 || msg.Metadata["traceparent"] != "garbage" {
			t.Errorf("sent %v", msg.Metadata)
		}
		return nil, nil
	})(msg)
	if n := len(spans.Ended()); n != 1 {
		t.Errorf("%d spans", n)
	}
}

func TestTracingTellsFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err           error
		verdict, kind string
		status        codes.Code
	}{
		{errBoom, "retry", "transient", codes.Error},
		{outbox.Unavailable(errBoom, 0), "unavailable", "unavailable", codes.Error},
		{outbox.Permanent(errBoom), "dead", "permanent", codes.Error},
		{outbox.Skip("duplicate"), "skipped", "", codes.Unset},
		{outbox.Released(errBoom), "released", "", codes.Unset},
	} {
		tracing, spans := recording(t)
		if _, err := tracing.Middleware(failing(c.err))(newMessage(onLane(1))); err != c.err { //nolint:errorlint // identity is the point
			t.Errorf("%v became %v", c.err, err)
		}
		s := spans.Ended()[0]
		a := attributesOf(s)
		if a["outrider.verdict"] != c.verdict || a["error.type"] != c.kind || s.Status().Code != c.status {
			t.Errorf("%v: %v, status %v", c.err, a, s.Status())
		}
		if c.status == codes.Error && s.Status().Description != "boom" {
			t.Errorf("status %q", s.Status().Description)
		}
	}
	tracing, spans := recording(t)
	func() {
		defer func() { _ = recover() }()
		_, _ = tracing.Middleware(explode)(newMessage(onLane(1)))
	}()
	if s := spans.Ended()[0]; s.Status().Code != codes.Error || attributesOf(s)["error.type"] != "panic" {
		t.Errorf("panic: %v", s.Status())
	}
}

// Tracing makes no context less quiet, and without a provider it changes nothing.
func TestTracingCostsNoTimer(t *testing.T) {
	t.Parallel()
	tracing, _ := recording(t)
	msg := newMessage(quietContext{onLane(1)})
	_, _ = chain(func(msg *message.Message) ([]*message.Message, error) {
		if !lanectx.IsQuiet(msg.Context()) {
			t.Error("the lane would listen to Done")
		}
		return nil, nil
	}, tracing.Middleware, middleware.Timeout{}.Middleware)(msg)
	_, _ = middleware.Tracing{Provider: noop.NewTracerProvider()}.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		if len(msg.Metadata) > 0 {
			t.Errorf("metadata %v", msg.Metadata)
		}
		return nil, nil
	})(msg)
}

// In somebody's Watermill router it is a consumer's span, inside of one that is
// already there.
func TestTracingInRouter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracing, spans := recording(t)
		inner := tracing
		b := startRouter(t, func(msg *message.Message) ([]*message.Message, error) {
			if !strings.HasPrefix(msg.Metadata["traceparent"], "00-") {
				t.Errorf("traceparent %q", msg.Metadata["traceparent"])
			}
			return nil, nil
		}, tracing.Middleware, inner.Middleware)
		defer b.stop()
		b.publish(message.NewMessage("id", nil))
		time.Sleep(time.Second)
		ended := spans.Ended()
		if len(ended) != 2 || ended[0].Parent().SpanID() != ended[1].SpanContext().SpanID() {
			t.Fatalf("spans %v", ended)
		}
		if s := ended[1]; s.Name() != "process in" || s.SpanKind() != trace.SpanKindConsumer {
			t.Errorf("span %s, %v", s.Name(), s.SpanKind())
		}
	})
}
