package config

// Tracing makes a span of each attempt. It has no options: where spans go is
// said by OpenTelemetry's own environment variables.
type Tracing struct{}

// Kind is "tracing".
func (*Tracing) Kind() string { return "tracing" }

// Metrics measures attempts. It has no options.
type Metrics struct{}

// Kind is "metrics".
func (*Metrics) Kind() string { return "metrics" }
