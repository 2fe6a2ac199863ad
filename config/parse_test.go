package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// good parses a file that must be right.
func good(t *testing.T, file string) *Config {
	t.Helper()
	cfg, err := Load(file, testEnv)
	if err != nil {
		t.Fatalf("Load(%s):\n%v", file, err)
	}
	return cfg
}

func TestMinimalHasDefaults(t *testing.T) {
	t.Parallel()
	cfg := good(t, "testdata/good/minimal.yaml")
	if cfg.Memory != 64<<20 || cfg.Lease != Duration(10*time.Second) || cfg.SettleInterval != Duration(20*time.Millisecond) ||
		cfg.DrainTimeout != Duration(30*time.Second) || cfg.Admin.Listen != "" || cfg.Log != (Log{"info", "text"}) {
		t.Errorf("top level: %v", cfg)
	}
	want := &SQLite{
		Path: "shop.db", TableSource: TableSource{
			Layout: "outrider", Table: "outrider_outbox", Wake: "poll",
			Poll: Poll{Batch: 5000, Min: Duration(time.Millisecond), After: 3, Factor: 2, Max: Duration(time.Second)}, MaxRow: 16 << 20,
		},
	}
	if got := cfg.Sources["app"]; !reflect.DeepEqual(got, want) {
		t.Errorf("source: %+v", got)
	}
	stack := []Middleware{
		&Poison{Then: "continue"},
		&Retry{Attempts: 10, Base: Duration(200 * time.Millisecond), Max: Duration(time.Minute), Jitter: 0.5, Growth: "exponential"},
		&Timeout{After: Duration(30 * time.Second)},
	}
	r := cfg.Routes[0]
	if r.Name != "all" || r.From != "app" || r.To != "out" || r.Order != "group" || r.Start.Kind != "beginning" ||
		r.Window != 1024 || !reflect.DeepEqual(r.Middleware, stack) {
		t.Errorf("route: %+v", r)
	}
	if len(cfg.Warnings) != 0 {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
}

// notOfModes leaves out what depends on the modes that the checkout's umask made.
func notOfModes(list []*Error) []*Error {
	return slices.DeleteFunc(list, func(w *Error) bool {
		return strings.Contains(w.Message, "every user of this machine can read")
	})
}

func TestFull(t *testing.T) {
	t.Parallel()
	cfg := good(t, "testdata/good/full.yaml")
	var names []string
	for _, r := range cfg.Routes {
		names = append(names, r.Name+">"+r.To)
	}
	if got := strings.Join(names, " "); got != "orders-bus>bus orders-api>api local>trace feed>nowhere rest>code here>functions" {
		t.Errorf("routes: %s", got)
	}
	if pg, ok := cfg.Sources["app"].(*Postgres); !ok || pg.URL.Reveal() != "postgres://app:hunter2@127.0.0.1/app" {
		t.Errorf("url_file is not read without its line end: %v", cfg.Sources["app"])
	}
	api, ok := cfg.Destinations["api"].(*HTTP)
	if !ok || api.Headers["X-Api-Key"].Reveal() != canary || api.Headers["X-Other"].Reveal() != canary ||
		api.Status[409] != StatusDelivered || api.Batch.MaxBytes != 64<<10 {
		t.Errorf("api: %+v", api)
	}
	if got := cfg.Admin.Tokens; len(got) != 2 || got[0].Reveal() != "hunter2" || got[1].Reveal() != "hunter2-b" || cfg.Admin.Enabled() {
		t.Errorf("admin: %+v", cfg.Admin)
	}
	if got := cfg.Routes[2].Middleware; got == nil || len(got) != 0 {
		t.Errorf("an empty list must not become the default: %v", got)
	}
	if th, ok := cfg.Routes[3].Middleware[3].(*Throttle); !ok || th.Rate.PerSecond() != 0.5 || th.Burst != 1 {
		t.Errorf("throttle: %+v", cfg.Routes[3].Middleware[3])
	}
	if cfg.Warnings = notOfModes(cfg.Warnings); len(cfg.Warnings) != 2 || !strings.Contains(cfg.Warnings[0].Error(), "global order is kept per address") {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
}

func TestQuirks(t *testing.T) {
	t.Parallel()
	cfg := good(t, "testdata/good/quirks.yaml")
	pg, ok := cfg.Sources["app"].(*Postgres)
	if !ok || pg.Poll.Batch != 10 || pg.URL.Reveal() != "postgres://app:b,c@127.0.0.1/app?x=1" {
		t.Errorf("a variable in flow style: %v", cfg)
	}
	if !reflect.DeepEqual(cfg.Routes[0].Middleware, cfg.Routes[1].Middleware) || len(cfg.Routes[1].Middleware) != 3 {
		t.Errorf("an alias differs from its anchor: %v", cfg)
	}
	crlf := good(t, "testdata/good/crlf.yaml")
	if s, ok := crlf.Sources["app"].(*SQLite); !ok || s.Path != "C$D.db" {
		t.Errorf("$$ is a dollar sign: %v", crlf)
	}
}

func TestExample(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"DATABASE_URL": "postgres://127.0.0.1/app", "API_TOKEN": "secret"}[name]
		return v, ok
	}
	cfg, err := Parse("example.yaml", []byte(Example), env)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings) != 0 || len(cfg.Routes) != 2 {
		t.Errorf("%v\n%v", cfg.Warnings, cfg)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	if _, err := Load("testdata/no-such-file.yaml", nil); err == nil || !strings.Contains(err.Error(), "no-such-file.yaml") {
		t.Errorf("missing file: %v", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large, nil); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("large file: %v", err)
	}
}

// TestG11_StrangeInput makes sure that input made to hurt ends as an error.
func TestG11_StrangeInput(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 30_000)
	laughs := "a: &a [x]\n" + strings.Repeat("b: &a [*a, *a, *a, *a, *a, *a, *a, *a]\n", 50) + "routes: {r: {from: x, to: *a, middleware: *a}}\n"
	for name, src := range map[string]string{
		"deep lists": deep, "deep marks": "a: " + strings.Repeat("- ", 30_000), "deep keys": strings.Repeat("? ", 30_000),
		"aliases": laughs, "self": "a: &a [*a]\n", "zero byte": "a: \x00", "not UTF-8": "a: \xff\xfe", "shield": "a: \U000F0001",
		"anchors": strings.Repeat("&a ", 30_000), "bare": "x", "byte order mark": "\ufeffx: 1",
	} {
		if _, err := Parse(name, []byte(src), nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	src := `sources:
  app: {type: sqlite, path: a.db}
  old: {type: sqlite, path: b.db}
destinations:
  bus: {type: kafka, brokers: ["k:9092"], topic: x, source: /x, sasl: {mechanism: plain, username: u, password: hunter2}, tls: {enabled: false}}
  api: {type: http, url: "http://example.com/x", token: hunter2, tls: {enabled: false}}
  tls: {type: kafka, brokers: ["k:9092"], topic: x, tls: {enabled: true, insecure_skip_verify: true}}
routes:
  a: {from: app, to: [bus, api, tls]}
  b: {from: app, to: api, order: global}
`
	cfg, err := Parse("w.yaml", []byte(src), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`w.yaml:3:3: sources.old: no route uses this source`,
		`w.yaml:5:61: destinations.bus.source: has no effect with format watermill`,
		`w.yaml:5:83: destinations.bus.sasl.mechanism: plain without TLS sends the password in the clear`,
		`w.yaml:6:26: destinations.api.url: sends its token or headers in the clear`,
		`w.yaml:7:96: destinations.tls.tls.insecure_skip_verify: anyone between here and the server can read and change messages`,
	}
	var got []string
	for _, w := range cfg.Warnings {
		got = append(got, w.Error())
		if strings.Contains(w.Text(), canary) {
			t.Errorf("shows a secret: %s", w.Text())
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRedactedReadsBack reads a printed configuration that holds no secrets.
func TestRedactedReadsBack(t *testing.T) {
	t.Parallel()
	src := `state: {url: state.db}
sources:
  app: {type: sqlite, path: "a: b#$${c}.db"}
  feed: {type: subscriber, topic: "5"}
destinations:
  bus: {type: kafka, brokers: ["k:9092"], topic: "{{.Type}}", format: cloudevents}
  api: {type: http, url: "https://example.com/x", format: cloudevents, status: {"409": skip}}
routes:
  a: {from: app, to: bus, match: {types: ["*"], tags: {any: ["a=b: c"]}}, start: 2026-01-31T08:00:00Z, middleware: [throttle: 5/m]}
  b: {from: feed, to: api, middleware: []}
`
	cfg, err := Parse("a.yaml", []byte(src), nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("b.yaml", []byte(cfg.Redacted()), nil)
	if err != nil || again.Redacted() != cfg.Redacted() || !reflect.DeepEqual(again.Routes, cfg.Routes) {
		t.Errorf("reads back as %v, %v\nwritten\n%v", again, err, cfg)
	}
}
