package assembly

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/telemetry"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router"
)

// Telemetry is where the configuration sends spans and metrics.
func (b *Builder) Telemetry() (telemetry.Receiver, error) {
	r := telemetry.Receiver{Instance: b.Options.Instance, Logger: b.log}
	t := b.Config.Telemetry
	if t == nil {
		return r, nil
	}
	r.URL, r.Metrics, r.Headers = string(t.URL), t.Metrics.Std(), map[string]string{}
	for name, value := range t.Headers {
		r.Headers[name] = value.Reveal()
	}
	var err error
	r.TLS, err = newTLS(t.TLS, t.TLS.On())
	return r, err
}

// scope is the instrumentation scope of spans that no middleware makes.
const scope = "github.com/outriderhq/outrider/router"

// tracingLayer makes spans of attempts, or nothing when no exporter is configured.
func tracingLayer(at layerSite, _ *config.Tracing) middlewareKind {
	return middlewareKind{make: func(ctx context.Context) (middleware.Layer, error) { return newTracing(ctx, at) }}
}

func newTracing(ctx context.Context, at layerSite) (middleware.Layer, error) {
	if at.Options.Tracing != nil {
		at.parts.settles = at.Options.Tracing.Tracer(scope)
		return middleware.Tracing{Provider: at.Options.Tracing}, nil
	}
	if at.parts.traces == nil {
		r, err := at.Telemetry()
		if err != nil {
			return nil, err
		}
		if at.parts.traces, err = r.Traces(ctx); err != nil || at.parts.traces == nil {
			return nil, err
		}
		at.parts.settles = at.parts.traces.Tracer(scope)
	}
	return middleware.Tracing{Provider: at.parts.traces}, nil
}

// Settled makes a span of each write of progress behind attempts that have one. nil: no route is traced.
func (p *Parts) Settled() func(router.Settle) {
	if p.settles == nil {
		return nil
	}
	return func(s router.Settle) {
		if p.traces != nil && !p.traces.Sampled() {
			return // as the application sampled its traces
		}
		_, span := p.settles.Start(context.Background(), "settle "+s.Target, trace.WithTimestamp(s.Began), trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(semconv.MessagingSystemKey.String("outrider"), semconv.MessagingOperationName("settle"),
				semconv.MessagingOperationTypeSettle, semconv.MessagingDestinationName(s.Target), attribute.Int("outrider."+s.Unit, s.Count)))
		if s.Err != nil {
			span.SetAttributes(semconv.ErrorTypeKey.String(outbox.KindOf(s.Err).String()))
			span.SetStatus(codes.Error, s.Err.Error())
		}
		span.End(trace.WithTimestamp(s.Ended))
	}
}
