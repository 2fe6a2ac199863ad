// Package telemetry sends spans and metrics by OTLP over HTTP, to where the configuration or OpenTelemetry's own environment variables say.
// A receiver that is down is no error of the relay: what cannot be sent is dropped, and the log says so once.
package telemetry

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// flushLimit bounds how long the last spans and metrics are waited for.
const flushLimit = 5 * time.Second

// Receiver is where telemetry is sent, and as what. Without a URL the environment says where.
type Receiver struct {
	URL     string // up to /v1
	Headers map[string]string
	TLS     *tls.Config

	Metrics time.Duration // how often metrics are sent; 0: not, unless the environment says so

	Instance string
	Logger   *slog.Logger
}

// signal is one kind of telemetry, as the names of environment variables have it.
type signal string

const (
	traces  signal = "TRACES"
	metrics signal = "METRICS"
)

// wanted reports whether there is somewhere to send a signal. OTEL_SDK_DISABLED and an exporter other than otlp have precedence over the
// configuration, as over all code.
func (r Receiver) wanted(s signal) bool {
	exporter := os.Getenv("OTEL_" + string(s) + "_EXPORTER")
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || exporter != "" && exporter != "otlp" {
		return false
	}
	if s == metrics && r.Metrics == 0 && exporter == "" {
		return false // beside Prometheus only where it is asked for
	}
	return r.URL != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+string(s)+"_ENDPOINT") != ""
}

// about describes this process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have precedence.
func (r Receiver) about(ctx context.Context) (*resource.Resource, error) {
	out, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("outrider"), semconv.ServiceInstanceID(r.Instance)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w; check the variables OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME", err)
	}
	return out, nil
}

// at is the URL of a signal.
func (r Receiver) at(s signal) string {
	return strings.TrimSuffix(r.URL, "/") + "/v1/" + strings.ToLower(string(s))
}

// failures logs when something cannot be sent, and when it can again, instead of handing each failure to OpenTelemetry's global handler.
type failures struct {
	what    signal
	log     *slog.Logger
	failing atomic.Bool
}

func (f *failures) report(err error) {
	what := strings.ToLower(string(f.what))
	switch {
	case err != nil && f.failing.CompareAndSwap(false, true):
		f.log.Warn("telemetry: "+what+" cannot be sent and are dropped", "error", err)
	case err == nil && f.failing.CompareAndSwap(true, false):
		f.log.Info("telemetry: " + what + " are sent again")
	}
}
