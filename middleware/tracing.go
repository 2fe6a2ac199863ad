package middleware

import (
	"context"
	"maps"
	"strings"

	"github.com/outriderhq/outrider/internal/lanectx"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/outriderhq/outrider/outbox"
)

// Tracing creates an OpenTelemetry span for each attempt. It has a link to the application's span: the trace context of the message's metadata, as
// W3C headers (traceparent, tracestate, baggage; upper or lower case). It has no parent, because attempts may go on for days after the
// application's trace has ended, unless the message's context is in a span already.
//
// Tracing never overwrites the application's context: receivers get the headers as the application wrote them. Only a message without traceparent
// gets one, that of the attempt's span, for as long as the attempt lasts.
//
// The span is called "send ROUTE", outside of lanes "process TOPIC". It has messaging.message.id and its siblings of the semantic conventions, and
// outrider.route, outrider.lane, outrider.event_type, outrider.attempt and outrider.verdict ([outbox.Outcome]); of a failure also error.type, which
// is the error's [outbox.Kind], and the error's text as its status. A skipped or released message is no failure.
type Tracing struct {
	// Provider makes the spans. Nil: otel.GetTracerProvider().
	Provider trace.TracerProvider

	// Propagator reads and writes the headers. Nil: W3C trace context and baggage.
	Propagator propagation.TextMapPropagator
}

// tracerName is the instrumentation scope of the spans.
const tracerName = "github.com/outriderhq/outrider/middleware"

const (
	traceparent = "traceparent"

	// longestStatus bounds the text of an error in a span.
	longestStatus = 1024
)

// Middleware returns the handler with the span around it.
func (t Tracing) Middleware(h message.HandlerFunc) message.HandlerFunc {
	t = t.withDefaults()
	tracer := t.Provider.Tracer(tracerName)
	return func(msg *message.Message) (produced []*message.Message, err error) {
		a := t.begun(msg.Context())
		if a == nil {
			a = t.begin(tracer, msg)
		}
		a.taken = true
		returned := false
		defer func() { // also when the handler panics
			msg.SetContext(a.parent)
			msg.Metadata = a.metadata
			end(a.parent, a.span, err, returned)
		}()
		produced, err = h(msg)
		returned = true
		return produced, err
	}
}

// AfterDelivery is the marker of a [Layer].
func (Tracing) AfterDelivery() {}

// BeforeDelivery begins the span of an attempt whose chain runs afterwards.
func (t Tracing) BeforeDelivery(msg *message.Message) {
	t = t.withDefaults()
	t.begin(t.Provider.Tracer(tracerName), msg)
}

func (t Tracing) withDefaults() Tracing {
	if t.Provider == nil {
		t.Provider = otel.GetTracerProvider()
	}
	if t.Propagator == nil {
		t.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	return t
}

// traced is the context of an attempt that has a span. It is as quiet as its parent ([lanectx.Quiet]).
type traced struct {
	context.Context
	by       trace.TracerProvider
	span     trace.Span
	parent   context.Context  // the message's before
	metadata message.Metadata // the message's before
	quiet    bool
	taken    bool // a handler has it, and ends the span
}

// tracedKey is the key of the attempt whose span a provider has begun.
type tracedKey struct{ by trace.TracerProvider }

// Value answers the next handler that ends a span.
func (t *traced) Value(key any) any {
	if k, ok := key.(tracedKey); ok && k.by == t.by && !t.taken {
		return t
	}
	return t.Context.Value(key)
}

func (t *traced) Quiet() bool { return t.quiet }

// begun is the attempt that BeforeDelivery began; nil: it did not.
func (t Tracing) begun(ctx context.Context) *traced {
	a, _ := ctx.Value(tracedKey{t.Provider}).(*traced)
	return a
}

func (t Tracing) begin(tracer trace.Tracer, msg *message.Message) *traced {
	parent, metadata := msg.Context(), msg.Metadata
	ctx := t.Propagator.Extract(parent, carrier(metadata)) // with the baggage, too
	name, options := describe(ctx, msg)
	own := trace.SpanFromContext(parent)
	if app := trace.SpanContextFromContext(ctx); app.IsValid() && !app.Equal(own.SpanContext()) {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: app}))
	}
	ctx, span := tracer.Start(trace.ContextWithSpan(ctx, own), name, options...)
	a := &traced{Context: ctx, by: t.Provider, span: span, parent: parent, metadata: metadata, quiet: lanectx.IsQuiet(parent)}
	msg.SetContext(a)
	if _, found := carrier(metadata).find(traceparent); !found {
		// In a copy: a destination may still read the message when an attempt that did not wait for it has ended.
		msg.Metadata = maps.Clone(metadata)
		if msg.Metadata == nil {
			msg.Metadata = message.Metadata{}
		}
		t.Propagator.Inject(ctx, carrier(msg.Metadata))
	}
	return a
}

// describe returns the name of an attempt's span and what is known at its start.
func describe(ctx context.Context, msg *message.Message) (name string, options []trace.SpanStartOption) {
	attributes := []attribute.KeyValue{
		semconv.MessagingSystemKey.String("outrider"),
		semconv.MessagingMessageID(msg.UUID),
		semconv.MessagingMessageBodySize(len(msg.Payload)),
	}
	if kind := msg.Metadata[outbox.MetaType]; kind != "" {
		attributes = append(attributes, attribute.String("outrider.event_type", kind))
	}
	attempt, onLane := outbox.AttemptOf(ctx)
	if !onLane {
		topic := message.SubscribeTopicFromCtx(ctx)
		attributes = append(attributes, semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess,
			semconv.MessagingDestinationName(topic))
		return strings.TrimSpace("process " + topic),
			[]trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...)}
	}
	attributes = append(attributes, semconv.MessagingOperationName("send"), semconv.MessagingOperationTypeSend,
		semconv.MessagingDestinationName(attempt.Route),
		attribute.String("outrider.route", attempt.Route), attribute.String("outrider.lane", attempt.Lane),
		attribute.Int("outrider.attempt", attempt.Number))
	return "send " + attempt.Route,
		[]trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...)}
}

func end(ctx context.Context, span trace.Span, err error, returned bool) {
	defer span.End()
	if !returned {
		span.SetAttributes(semconv.ErrorTypeKey.String(kindPanic))
		span.SetStatus(codes.Error, "a panic inside of the middleware")
		return
	}
	outcome := outcomeOf(ctx, err)
	span.SetAttributes(attribute.String("outrider.verdict", outcome.String()))
	switch outcome {
	case outbox.OutcomeRetry, outbox.OutcomeUnavailable, outbox.OutcomeDead:
		text := err.Error()
		span.SetAttributes(semconv.ErrorTypeKey.String(outbox.KindOf(err).String()))
		span.SetStatus(codes.Error, strings.ToValidUTF8(text[:min(len(text), longestStatus)], ""))
	case outbox.OutcomeDelivered, outbox.OutcomeSkipped, outbox.OutcomeReleased:
	}
}

// carrier reads metadata as headers, whose names have no case, and adds what is not there.
type carrier message.Metadata

// find returns a header and whether it is there.
func (c carrier) find(key string) (string, bool) {
	if v, ok := c[key]; ok {
		return v, true
	}
	for k, v := range c {
		if strings.EqualFold(k, key) {
			return v, true
		}
	}
	return "", false
}

func (c carrier) Get(key string) string {
	v, _ := c.find(key)
	return v
}

func (c carrier) Set(key, value string) {
	if _, found := c.find(key); !found {
		c[key] = value
	}
}

func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}
