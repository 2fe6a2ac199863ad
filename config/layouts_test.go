package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// A source that names a layout has the original's settings, and what the file says goes before them.
func TestLayoutsHaveTheSettingsOfTheOriginal(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		source, table string
		poll          Poll
		claims        Claims
		retry         Retry
	}{
		"talkie": {"layout: talkie", "outbox", Poll{50, Duration(time.Second), 3, 2, Duration(time.Second)},
			Claims{1000, 0, Duration(5 * time.Minute), Duration(time.Minute)},
			Retry{5, Duration(30 * time.Second), Duration(150 * time.Second), 0, "linear"}},
		"open-outbox": {"layout: open-outbox", "openoutbox_events", Poll{100, Duration(500 * time.Millisecond), 3, 2, Duration(500 * time.Millisecond)},
			Claims{1000, 0, Duration(3 * time.Minute), Duration(3 * time.Minute)},
			Retry{25, Duration(time.Second), Duration(24 * time.Hour), 0.15, "exponential"}},
		"flowcatalyst-v2": {"layout: flowcatalyst-v2", "outbox_messages", Poll{100, Duration(time.Second), 3, 2, Duration(time.Second)},
			Claims{1000, 0, Duration(5 * time.Minute), Duration(time.Minute)},
			Retry{3, Duration(time.Millisecond), Duration(time.Millisecond), 0, "exponential"}},
		"overridden": {"layout: open-outbox, table: mine, poll: {min: 5ms, batch: 7}, claims: {timeout: 1m, in_memory: 9}", "mine",
			Poll{7, Duration(5 * time.Millisecond), 3, 2, Duration(500 * time.Millisecond)},
			Claims{9, 0, Duration(time.Minute), Duration(3 * time.Minute)},
			Retry{25, Duration(time.Second), Duration(24 * time.Hour), 0.15, "exponential"}},
		"slower": {"layout: open-outbox, poll: {min: 700ms}", "openoutbox_events", Poll{100, Duration(700 * time.Millisecond), 3, 2, Duration(time.Second)},
			Claims{1000, 0, Duration(3 * time.Minute), Duration(3 * time.Minute)},
			Retry{25, Duration(time.Second), Duration(24 * time.Hour), 0.15, "exponential"}},
	} {
		text := "sources: {app: {type: postgres, url: 'postgres://127.0.0.1/shop', " + want.source + "}}\ndestinations: {log: {type: log}}\nroutes: {all: {from: app, to: log}}\n"
		cfg, err := Parse("layout.yaml", []byte(text), testEnv)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		src, _ := cfg.Sources["app"].(*Postgres)
		if src.Table != Table(want.table) || src.Poll != want.poll || src.Claims != want.claims || !src.Queued() || src.Deletes() != (name == "flowcatalyst-v2") {
			t.Errorf("%s: %+v", name, src)
		}
		if got := cfg.Routes[0].Middleware[1]; !reflect.DeepEqual(got, &want.retry) {
			t.Errorf("%s: retry is %+v, want %+v", name, got, want.retry)
		}
	}
	_, err := Parse("layout.yaml", []byte("sources: {app: {type: postgres, url: 'postgres://127.0.0.1/shop', layout: talki}}\ndestinations: {log: {type: log}}\nroutes: {all: {from: app, to: log}}\n"), testEnv)
	if err == nil || !strings.Contains(err.Error(), "did you mean talkie?") || !strings.Contains(err.Error(), "open-outbox") {
		t.Errorf("a wrong name: %v", err)
	}
}
