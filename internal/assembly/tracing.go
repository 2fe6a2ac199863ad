package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/middleware"
)

// flushLimit bounds how long the last spans are waited for.
const flushLimit = 5 * time.Second

// tracingConfigured reports whether OpenTelemetry's environment variables name a
// receiver for spans.
func tracingConfigured() bool {
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	switch {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), exporter != "" && exporter != "otlp":
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// tracingLayer makes spans of attempts, or nothing when no exporter is configured.
func tracingLayer(at layerSite, _ *config.Tracing) middlewareKind {
	return middlewareKind{make: func(ctx context.Context) (middleware.Layer, error) { return newTracing(ctx, at) }}
}

func newTracing(ctx context.Context, at layerSite) (middleware.Layer, error) {
	if at.Options.Tracing != nil {
		return middleware.Tracing{Provider: at.Options.Tracing}, nil
	}
	if !tracingConfigured() {
		return nil, nil
	}
	if at.parts.tracer == nil {
		t, err := newTracer(ctx, at.log)
		if err != nil {
			return nil, err
		}
		at.parts.tracer = t
	}
	return middleware.Tracing{Provider: at.parts.tracer.provider}, nil
}

// tracer makes spans and sends them by OTLP over HTTP.
type tracer struct{ provider *sdktrace.TracerProvider }

// newTracer reads all that it needs from the environment. It connects when
// there is something to send.
func newTracer(ctx context.Context, log *slog.Logger) (*tracer, error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w; check the variables OTEL_EXPORTER_OTLP_*", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("outrider")),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("tracing: %w; check the variables OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME", err)
	}
	return &tracer{sdktrace.NewTracerProvider(sdktrace.WithResource(about),
		sdktrace.WithBatcher(&loggedExporter{SpanExporter: exporter, log: log}))}, nil
}

// close sends what is left and ends the exporter. A receiver of spans that is
// down is no error of the relay.
func (t *tracer) close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has logged it
	return nil
}

// loggedExporter logs when spans cannot be sent, and when they can again,
// instead of handing each failure to OpenTelemetry's global handler.
type loggedExporter struct {
	sdktrace.SpanExporter
	log     *slog.Logger
	failing atomic.Bool
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *loggedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && e.failing.CompareAndSwap(false, true):
		e.log.Warn("tracing: spans cannot be sent and are dropped", "error", err)
	case err == nil && e.failing.CompareAndSwap(true, false):
		e.log.Info("tracing: spans are sent again")
	}
	return nil
}
