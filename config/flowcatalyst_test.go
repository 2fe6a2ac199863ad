package config

import (
	"reflect"
	"testing"
	"time"
)

// A source and a destination without further keys do what FlowCatalyst's
// processor does by its defaults.
func TestFlowCatalystDefaults(t *testing.T) {
	t.Parallel()
	cfg := parseFlowCatalyst(t, "", "", "")
	src, ok := cfg.Sources["app"].(*Postgres)
	if !ok || !src.Leader || src.Poll.Min != Duration(time.Second) || src.Poll.Max != Duration(time.Second) || src.Poll.Batch != 500 ||
		src.Claims.InMemory != 1000 || src.Claims.Timeout != Duration(300*time.Second) || src.Claims.Recover != Duration(time.Minute) ||
		src.Tables != (Queues{"outbox_events", "outbox_dispatch_jobs"}) {
		t.Errorf("source: %+v", src)
	}
	d, ok := cfg.Destinations["platform"].(*HTTP)
	if !ok || d.MaxRequests != 10 || d.Batch.MaxMessages != 100 || d.Batch.MaxGroups != 1 ||
		d.ConnectTimeout != Duration(10*time.Second) || d.Timeout != Duration(30*time.Second) {
		t.Errorf("destination: %+v", d)
	}
	want := []Middleware{
		&Poison{Then: "continue"}, &Retry{Attempts: 4, Base: Duration(time.Millisecond), Max: Duration(time.Millisecond), Growth: "exponential"},
		&Timeout{After: Duration(30 * time.Second)},
	}
	if got := cfg.Routes[0].Middleware; !reflect.DeepEqual(got, want) {
		t.Errorf("middleware: %+v", got)
	}
}

func TestFlowCatalystOverrides(t *testing.T) {
	t.Parallel()
	cfg := parseFlowCatalyst(t, "poll: {min: 5ms, batch: 9}\n    leader: false", "max_requests: 3, batch: {max_groups: 2, max_messages: 7}, timeout: 1s",
		"middleware: [retry: {attempts: 2}]")
	src, d := cfg.Sources["app"].(*Postgres), cfg.Destinations["platform"].(*HTTP)
	if src.Leader || src.Poll.Min != Duration(5*time.Millisecond) || src.Poll.Max != Duration(time.Second) || src.Poll.Batch != 9 {
		t.Errorf("source: %+v", src)
	}
	if d.MaxRequests != 3 || d.Batch.MaxGroups != 2 || d.Batch.MaxMessages != 7 || d.Timeout != Duration(time.Second) {
		t.Errorf("destination: %+v", d)
	}
	want := &Retry{Attempts: 2, Base: Duration(200 * time.Millisecond), Max: Duration(time.Minute), Jitter: 0.5, Growth: "exponential"}
	if got := cfg.Routes[0].Middleware; !reflect.DeepEqual(got, []Middleware{want}) {
		t.Errorf("middleware: %+v", got)
	}
}

// Attempts stay about a second apart when polls are more frequent than that.
func TestFlowCatalystRetriesFollowThePoll(t *testing.T) {
	t.Parallel()
	for poll, want := range map[string][3]time.Duration{ // min, max, pause of retry
		"poll: {min: 5ms}":           {5 * time.Millisecond, time.Second, 995 * time.Millisecond},
		"poll: {max: 200ms}":         {200 * time.Millisecond, 200 * time.Millisecond, 800 * time.Millisecond},
		"poll: {min: 3s, max: 3s}":   {3 * time.Second, 3 * time.Second, time.Millisecond},
		"poll: {max: 10s}":           {time.Second, 10 * time.Second, time.Millisecond},
		"poll: {min: 1ms, max: 2ms}": {time.Millisecond, 2 * time.Millisecond, 999 * time.Millisecond},
	} {
		cfg := parseFlowCatalyst(t, poll, "", "")
		p := cfg.Sources["app"].(*Postgres).Poll
		retry := cfg.Routes[0].Middleware[1].(*Retry)
		if got := [3]time.Duration{p.Min.Std(), p.Max.Std(), retry.Base.Std()}; got != want || retry.Max != retry.Base || retry.Attempts != 4 {
			t.Errorf("%s: %v with %+v, want %v", poll, got, retry, want)
		}
	}
}

func parseFlowCatalyst(t *testing.T, source, destination, route string) *Config {
	t.Helper()
	text := "sources:\n  app:\n    type: postgres\n    layout: flowcatalyst\n    url: postgres://127.0.0.1/shop\n    " + source +
		"\ndestinations:\n  platform: {type: http, preset: flowcatalyst, url: 'https://api.example.com'"
	if destination != "" {
		text += ", " + destination
	}
	text += "}\nroutes:\n  all:\n    from: app\n    to: platform\n    " + route + "\n"
	cfg, err := Parse("flowcatalyst.yaml", []byte(text), testEnv)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	if len(cfg.Warnings) > 0 {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
	return cfg
}
