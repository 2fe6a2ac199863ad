package config

import "github.com/outriderhq/outrider/config/internal/form"

// Telemetry is where spans and metrics are sent by OpenTelemetry's protocol.
type Telemetry struct {
	URL     Template          `yaml:"url" required:"true" doc:"URL of an OTLP receiver over HTTP, such as http://127.0.0.1:4318, without /v1/traces. It takes the place of OTEL_EXPORTER_OTLP_ENDPOINT."`
	Headers map[string]Secret `yaml:"headers" doc:"Headers of every request. Values count as secrets."`
	TLS     TLS               `yaml:"tls" doc:"Certificates of an https url. Headers are sent over http to another machine only with enabled: false."`
	Metrics Duration          `yaml:"metrics" min:"0s" max:"1h" doc:"How often the metrics of /metrics are sent, such as 60s. 0s: not, unless OTEL_METRICS_EXPORTER is otlp."`
}

func (t *Telemetry) check(c *form.Checker, at form.Location) {
	if !t.URL.Static() {
		c.Add(at.Child("url"), "takes no placeholders").Fix("write the URL of one receiver")
	} else if u := checkURL(c, at.Child("url"), t.URL); u != nil {
		httpTLS(c, at, u, &t.TLS, len(t.Headers) > 0)
	}
	checkHeaderNames(c, at.Child("headers"), t.Headers)
}
