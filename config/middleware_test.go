package config

import (
	"reflect"
	"testing"
	"time"
)

// The middleware that is not in the default stack, with its defaults and with
// every key.
func TestMiddleware(t *testing.T) {
	t.Parallel()
	cfg := good(t, "testdata/good/middleware.yaml")
	const day = Duration(24 * time.Hour)
	want := map[string][]Middleware{
		"defaults": {
			&Metrics{}, &Tracing{}, &Dedupe{Window: day, Store: DedupeSQL},
			&Breaker{Failures: 5, Requests: 20, Interval: Duration(time.Minute), Open: Duration(10 * time.Second), Probes: 1},
		},
		"short": {&Tracing{}, &Metrics{}, &Dedupe{Window: Duration(2 * time.Hour), Store: DedupeSQL}},
		"given": {
			&Dedupe{Window: 7 * day, Store: DedupeMemory, Max: 5000},
			&Breaker{Failures: 8, Ratio: 0.5, Requests: 50, Interval: Duration(5 * time.Minute), Open: Duration(30 * time.Second), Probes: 2},
		},
		"memory": {
			&Dedupe{Window: day, Store: DedupeMemory, Max: 100_000},
			&Breaker{Ratio: 0.25, Requests: 20, Interval: Duration(time.Minute), Open: Duration(10 * time.Second), Probes: 1},
		},
		"added": {
			&Metrics{}, &Dedupe{Window: Duration(2 * time.Hour), Store: DedupeSQL}, &Poison{Then: "continue"},
			&Retry{Attempts: 3, Base: Duration(200 * time.Millisecond), Max: Duration(time.Minute), Jitter: 0.5, Growth: "exponential"},
			&Timeout{After: Duration(30 * time.Second)},
			&Breaker{Failures: 5, Requests: 20, Interval: Duration(time.Minute), Open: Duration(10 * time.Second), Probes: 1},
		},
	}
	for _, r := range cfg.Routes {
		if !reflect.DeepEqual(r.Middleware, want[r.Name]) {
			t.Errorf("route %s: %+v, want %+v", r.Name, r.Middleware, want[r.Name])
		}
	}
	if len(cfg.Routes) != len(want) {
		t.Errorf("%d routes, want %d", len(cfg.Routes), len(want))
	}
}
