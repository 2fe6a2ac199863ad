package config

import (
	"math"

	"github.com/outriderhq/outrider/config/internal/form"
)

// Middleware is one layer around the delivery of a route's messages: one of
// [*Dedupe], [*Poison], [*Retry], [*Timeout], [*Throttle], [*Breaker], [*Tracing]
// and [*Metrics].
type Middleware interface {
	// Kind is the name under which the list knows it.
	Kind() string
}

// middlewares are the kinds of middleware, in the order of the reference page.
var middlewares = form.NewRegistry[Middleware]("middleware",
	form.Kind{Zero: &Poison{}, Doc: "Handles dead messages. Stands outside of retry."},
	form.Kind{Zero: &Retry{}, Doc: "When and how often a failed message is retried. Pauses of more than 1 s survive restarts."},
	form.Kind{Zero: &Timeout{}, Doc: "Bounds one attempt."},
	form.Kind{Zero: &Throttle{}, Doc: "Bounds the rate of attempts of the route."},
	form.Kind{Zero: &Dedupe{}, Doc: "Delivers each event id once per window. Stands outermost."},
	form.Kind{Zero: &Breaker{}, Doc: "Stops attempts after too many failures, and retries after a pause. Stands innermost."},
	form.Kind{Zero: &Tracing{}, Doc: "Creates an OpenTelemetry span for each attempt, sent by OTLP over HTTP to `telemetry` of the configuration or as the environment says (OTEL_EXPORTER_OTLP_ENDPOINT and related variables). Without either it has no effect and no cost."},
	form.Kind{Zero: &Metrics{}, Doc: "Counts and times the inner middleware and the delivery, for /metrics: outrider_attempt_duration_seconds and outrider_attempts_total."},
)

// DefaultMiddleware is the stack of a route that lists none: poison, retry and
// timeout with their defaults. In a list of a configuration built in Go, a zero
// Retry or Poison has the values of the source's layout, as a name alone has in a file.
func DefaultMiddleware() []Middleware {
	return []Middleware{
		form.WithDefaults(&Poison{}), form.WithDefaults(&Retry{}), form.WithDefaults(&Timeout{}),
	}
}

// Poison decides about messages whose attempts are used up.
type Poison struct {
	Then string `yaml:"then" enum:"continue|hold" default:"continue" doc:"continue: the message is dead and its group continues; hold: its group waits for an operator."`
	To   string `yaml:"to" doc:"Name of a destination that gets a copy of each dead message, with the reason, before the message is dead. While that destination is unavailable, the message keeps its place and its group waits. Default: none. Dead messages are parked in any case."`
}

// hold is the value of [Poison].Then by which a group waits for an operator.
const hold = "hold"

// DeadTo is the destination that gets copies of the route's dead messages; empty: none does.
func (r *Route) DeadTo() string {
	for _, m := range r.Middleware {
		if p, ok := m.(*Poison); ok {
			return p.To
		}
	}
	return ""
}

// Kind is "poison".
func (*Poison) Kind() string { return "poison" }

// How the pause of a [Retry] grows.
const (
	exponential = "exponential"
	linear      = "linear"
)

// Retry spaces attempts: Base, doubled each time (or, linear, longer by Base) up to Max, times a random
// factor from 1-Jitter to 1+Jitter.
type Retry struct {
	Attempts int      `yaml:"attempts" default:"10" min:"1" max:"1000000" doc:"Number of attempts, including the first. For webhooks 20, unless a key of retry is set."`
	Base     Duration `yaml:"base" default:"200ms" min:"1ms" max:"24h" doc:"Pause after the first attempt; it grows with each attempt. For webhooks 5s, unless a key of retry is set."`
	Max      Duration `yaml:"max" default:"60s" min:"1ms" max:"30d" doc:"Longest pause. For webhooks 12h, unless a key of retry is set."`
	Jitter   float64  `yaml:"jitter" default:"0.5" min:"0" max:"1" doc:"Share of the pause that is random: 0.5 means from half to one and a half times."`
	Growth   string   `yaml:"growth" enum:"exponential|linear" default:"exponential" doc:"How the pause grows. exponential: it doubles with each attempt; linear: it is base times the number of attempts."`
}

// Kind is "retry".
func (*Retry) Kind() string { return "retry" }

func (r *Retry) check(c *form.Checker, at form.Location) {
	if at.Sound("base", "max") && r.Max < r.Base {
		c.Add(at.Child("max"), "must not be less than base (%s), is %s",
			at.Child("base").Shown(r.Base), at.Child("max").Shown(r.Max))
	}
}

// Timeout bounds one attempt.
type Timeout struct {
	After Duration `yaml:"after" scalar:"true" default:"30s" min:"1ms" max:"24h" doc:"Longest time of an attempt."`
}

// Kind is "timeout".
func (*Timeout) Kind() string { return "timeout" }

// Throttle bounds the rate of attempts.
type Throttle struct {
	Rate  Rate `yaml:"rate" scalar:"true" required:"true" doc:"Attempts per second, minute or hour."`
	Burst int  `yaml:"burst" min:"1" max:"1000000" doc:"Attempts allowed at once after a quiet time. Default: those of one second, at least 1."`
}

// Kind is "throttle".
func (*Throttle) Kind() string { return "throttle" }

func (t *Throttle) check(_ *form.Checker, at form.Location) {
	if !at.Has("burst") {
		t.Burst = max(1, int(math.Ceil(t.Rate.PerSecond())))
	}
}

// Tracing makes a span of each attempt. It has no options: OpenTelemetry's own environment
// variables name the receiver.
type Tracing struct{}

// Kind is "tracing".
func (*Tracing) Kind() string { return "tracing" }

// Metrics measures attempts. It has no options.
type Metrics struct{}

// Kind is "metrics".
func (*Metrics) Kind() string { return "metrics" }

// defaultFailures is the default of [Breaker.Failures].
const defaultFailures = 5

// Breaker stops attempts after too many failed.
type Breaker struct {
	Failures int      `yaml:"failures" min:"1" max:"1000000" doc:"Consecutive failures that open the breaker. Default: 5, or no limit if ratio is set."`
	Ratio    float64  `yaml:"ratio" min:"0" max:"1" doc:"Share of failed attempts within interval that opens the breaker. Default: none."`
	Requests int      `yaml:"requests" default:"20" min:"1" max:"1000000" doc:"Attempts within interval before ratio counts."`
	Interval Duration `yaml:"interval" default:"60s" min:"1s" max:"24h" doc:"Period over which ratio is computed."`
	Open     Duration `yaml:"open" default:"10s" min:"100ms" max:"24h" doc:"How long an open breaker stops attempts."`
	Probes   int      `yaml:"probes" default:"1" min:"1" max:"10000" doc:"Consecutive deliveries that close the breaker afterwards."`
}

// Kind is "breaker".
func (*Breaker) Kind() string { return "breaker" }

func (b *Breaker) check(c *form.Checker, at form.Location) {
	if b.Ratio == 0 && at.Sound("ratio") {
		for _, key := range []string{"requests", "interval"} {
			if at.Has(key) {
				c.Add(at.Child(key), "applies to ratio, which is not set").Fix("add ratio, for example ratio: 0.5, or remove %s", key)
			}
		}
	}
	if !at.Has("failures") && b.Ratio == 0 {
		b.Failures = defaultFailures
	}
}

// The stores of [Dedupe].
const (
	DedupeSQL    = "sql"
	DedupeMemory = "memory"
)

// defaultRemembered is the default of [Dedupe.Max].
const defaultRemembered = 100_000

// Dedupe skips messages whose event id was delivered before.
type Dedupe struct {
	Window Duration `yaml:"window" scalar:"true" default:"24h" min:"1s" max:"365d" doc:"How long a delivered id is remembered."`
	Store  string   `yaml:"store" enum:"sql|memory" default:"sql" doc:"sql: in table outrider_dedupe of the state store, which survives restarts; memory: in the process, lost when it ends."`
	Max    int      `yaml:"max" min:"1" max:"100000000" doc:"Most ids in memory, about 200 bytes each; beyond that the oldest are dropped before their window ends. Default: 100000. Only for store: memory."`
}

// Kind is "dedupe".
func (*Dedupe) Kind() string { return "dedupe" }

func (d *Dedupe) check(c *form.Checker, at form.Location) {
	switch {
	case d.Store == DedupeMemory && !at.Has("max"):
		d.Max = defaultRemembered
	case d.Store == DedupeSQL && at.Has("max") && at.Sound("store"):
		c.Add(at.Child("max"), "bounds the ids in memory, but they are kept in the state store").
			Fix("remove max, or use store: memory")
	}
}
