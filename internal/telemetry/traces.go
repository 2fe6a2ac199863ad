package telemetry

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// Traces makes spans and sends them.
type Traces struct {
	*trace.TracerProvider
	exporter trace.SpanExporter
	sampled  atomic.Bool
}

// Traces returns what sends spans; nil where they are not wanted. It connects when there is something to send.
func (r Receiver) Traces(ctx context.Context) (*Traces, error) {
	if !r.wanted(traces) {
		return nil, nil
	}
	var options []otlptracehttp.Option
	if r.URL != "" {
		options = append(options, otlptracehttp.WithEndpointURL(r.at(traces)), otlptracehttp.WithHeaders(r.Headers))
	}
	if r.TLS != nil {
		options = append(options, otlptracehttp.WithTLSClientConfig(r.TLS))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: traces: %w; check the variables OTEL_EXPORTER_OTLP_*", err)
	}
	about, err := r.about(ctx)
	if err != nil {
		return nil, err
	}
	t := &Traces{exporter: exporter}
	made := []trace.TracerProviderOption{trace.WithResource(about), trace.WithSpanProcessor(noted{t}),
		trace.WithBatcher(spans{exporter, &failures{what: traces, log: r.Logger}})}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		made = append(made, trace.WithSampler(asLinked{}))
	}
	t.TracerProvider = trace.NewTracerProvider(made...)
	return t, nil
}

// Sampled reports whether a span of an attempt has ended since the latest call.
func (t *Traces) Sampled() bool { return t.sampled.Load() && t.sampled.Swap(false) }

// Close sends what is left.
func (t *Traces) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	if t.Shutdown(ctx) != nil { // the exporter has logged it
		_ = t.exporter.Shutdown(context.Background()) // cuts a request that is not answered
	}
	return nil
}

// asLinked samples a span if the span that it is linked to is sampled. So the application decides which of its traces go on, as it
// would with a parent. A span without a link is sampled as its parent, or always.
type asLinked struct{}

func (asLinked) ShouldSample(p trace.SamplingParameters) trace.SamplingResult {
	if len(p.Links) > 0 && !oteltrace.SpanContextFromContext(p.ParentContext).IsValid() && !p.Links[0].SpanContext.IsSampled() {
		return trace.SamplingResult{Decision: trace.Drop}
	}
	return trace.ParentBased(trace.AlwaysSample()).ShouldSample(p)
}

func (asLinked) Description() string { return "AsLinked" }

// noted records that a span of an attempt has ended.
type noted struct{ t *Traces }

func (noted) OnStart(context.Context, trace.ReadWriteSpan) {}
func (n noted) OnEnd(s trace.ReadOnlySpan) {
	if s.SpanKind() == oteltrace.SpanKindProducer && s.SpanContext().IsSampled() {
		n.t.sampled.Store(true)
	}
}
func (noted) Shutdown(context.Context) error   { return nil }
func (noted) ForceFlush(context.Context) error { return nil }

// spans reports failures.
type spans struct {
	trace.SpanExporter
	*failures
}

func (e spans) ExportSpans(ctx context.Context, all []trace.ReadOnlySpan) error {
	e.report(e.SpanExporter.ExportSpans(ctx, all))
	return nil
}
