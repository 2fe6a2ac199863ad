package config

import (
	"fmt"
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
		"yantra": {"layout: yantra", "outbox_messages", Poll{100, Duration(time.Second), 3, 2, Duration(time.Second)},
			Claims{1000, 0, Duration(5 * time.Minute), Duration(time.Minute)},
			Retry{1_000_000, Duration(time.Second), Duration(5 * time.Minute), 0.2, "exponential"}},
		"yantra-v2": {"layout: yantra-v2", "outbox_messages", Poll{10, Duration(5 * time.Second), 3, 2, Duration(5 * time.Second)},
			Claims{1000, 0, Duration(5 * time.Minute), Duration(time.Minute)},
			Retry{4, Duration(2 * time.Minute), Duration(time.Hour), 0, "exponential"}},
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

// A source of layout crablet has the original's leader and attempts, and its routes the order of the whole table; what the file says goes
// before them.
func TestLayoutCrabletHasTheSettingsOfTheOriginal(t *testing.T) {
	t.Parallel()
	parse := func(source, route string) (*Postgres, Route) {
		t.Helper()
		cfg, err := Parse("layout.yaml", []byte("sources: {app: {type: postgres, url: 'postgres://127.0.0.1/shop', layout: crablet"+source+
			"}}\ndestinations: {log: {type: log}}\nroutes: {all: {from: app, to: log"+route+"}}\n"), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Sources["app"].(*Postgres), cfg.Routes[0]
	}
	src, route := parse("", ", progress: {topic: Wallet Events, publisher: KafkaPublisher}, poll: {min: 5s}")
	if src.Table != "events" || src.Progress != "outbox_topic_progress" || !src.Leader || src.LeaderLock != 4856221667890123456 {
		t.Errorf("the source is %+v", src)
	}
	if want := (RoutePoll{Duration(5 * time.Second), 3, 2, Duration(time.Minute)}); route.Order != "global" || *route.Poll != want || *route.Progress != (Progress{"Wallet Events", "KafkaPublisher"}) {
		t.Errorf("the route is %+v", route)
	}
	if want := (&Retry{3, Duration(time.Second), Duration(time.Second), 0, "exponential"}); !reflect.DeepEqual(route.Middleware[1], want) || route.Middleware[0].(*Poison).Then != "hold" {
		t.Errorf("its layers are %+v, %+v", route.Middleware[0], route.Middleware[1])
	}
	if _, given := parse("", ", window: 1024"); route.Window != 4096 || given.Window != 1024 {
		t.Errorf("the window is %d, and %d where 1024 is given", route.Window, given.Window)
	}
	src, route = parse(", table: shop.happened, progress_table: shop.progress, leader: false", ", order: none, middleware: [poison]")
	if src.Table != "shop.happened" || src.Progress != "shop.progress" || src.Leader || src.LeaderLock != 0 || route.Order != "none" || route.Middleware[0].(*Poison).Then != "continue" {
		t.Errorf("what the file says does not go before the defaults: %+v, %+v", src, route)
	}
}

// A tag whose key comes more than once is matched by each of its values.
func TestTagsMatchKeysThatComeMoreThanOnce(t *testing.T) {
	t.Parallel()
	tags := map[string]string{"wallet": "1", "wallet=2": "", "region": "eu"}
	for text, want := range map[string]bool{"wallet": true, "wallet=1": true, "wallet=2": true, "wallet=3": false, "region=eu": true, "other": false} {
		var tag Tag
		if err := tag.Parse(text); err != nil || tag.Match(tags) != want {
			t.Errorf("%s matches: %v (%v)", text, !want, err)
		}
	}
}

// A route in global order sends smaller batches than its destination takes, and the warning says so.
func TestBatchesOfGlobalOrderThatAreCut(t *testing.T) {
	t.Parallel()
	for most, warnings := range map[int]int{1000: 0, 1001: 1} {
		cfg, err := Parse("test.yaml", fmt.Appendf(nil, `
sources: {app: {type: postgres, url: "postgres://127.0.0.1/app", layout: crablet}}
destinations: {out: {type: http, url: "http://127.0.0.1/", batch: {whole: true, max_messages: %d}}}
routes: {all: {from: app, to: out}}
`, most), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		if len(cfg.Warnings) != warnings || warnings == 1 && !strings.Contains(cfg.Warnings[0].Text(), "sends at most 1000 messages in a request") {
			t.Errorf("max_messages %d: %v", most, cfg.Warnings)
		}
	}
}
