package telemetry

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// PushMetrics sends what Prometheus would scrape until stop is called, which sends it a last time. Where metrics are not wanted it does nothing.
func (r Receiver) PushMetrics(ctx context.Context, from prometheus.Gatherer) (stop func(), err error) {
	if !r.wanted(metrics) {
		return func() {}, nil
	}
	var options []otlpmetrichttp.Option
	if r.URL != "" {
		options = append(options, otlpmetrichttp.WithEndpointURL(r.at(metrics)), otlpmetrichttp.WithHeaders(r.Headers))
	}
	if r.TLS != nil {
		options = append(options, otlpmetrichttp.WithTLSClientConfig(r.TLS))
	}
	exporter, err := otlpmetrichttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: metrics: %w; check the variables OTEL_EXPORTER_OTLP_*", err)
	}
	about, err := r.about(ctx)
	if err != nil {
		return nil, err
	}
	reading := []metric.PeriodicReaderOption{metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(from)))}
	if r.Metrics > 0 {
		reading = append(reading, metric.WithInterval(r.Metrics)) // otherwise that of the environment
	}
	reader := metric.NewPeriodicReader(points{exporter, &failures{what: metrics, log: r.Logger}}, reading...)
	provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(about))
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
		defer cancel()
		_ = provider.Shutdown(ctx) // the exporter has logged it
	}, nil
}

// points reports failures.
type points struct {
	metric.Exporter
	*failures
}

func (e points) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	e.report(e.Exporter.Export(ctx, m))
	return nil
}
