package crablet

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/outriderhq/outrider/config"
)

var update = flag.Bool("update", false, "write the expected results anew")

// Every file has its result and notes beside it.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if filepath.Ext(file) == ".golden" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			r := imported(t, filepath.Base(file), content(t, file))
			got := string(r.Config)
			if len(r.Notes) > 0 {
				got += "### " + strings.ReplaceAll(strings.Join(r.Notes, "\n"), "\n", "\n### ") + "\n"
			}
			if strings.Contains(got, "CANARY") {
				t.Errorf("a secret was copied:\n%s", got)
			}
			golden := file + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want := content(t, golden); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func imported(t *testing.T, name, text string) Result {
	t.Helper()
	r, err := Import(name, []byte(text), Options{})
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return r
}

func msec(n int) config.Duration { return config.Duration(time.Duration(n) * time.Millisecond) }

// What the result means is what counts: every key ends where it should, and every default is the original's.
func TestEveryKeyAndDefault(t *testing.T) {
	t.Parallel()
	type result struct {
		cfg   *config.Config
		src   *config.Postgres
		route config.Route
		retry *config.Retry
	}
	for line, holds := range map[string]func(r result) bool{
		"": func(r result) bool {
			return r.src.Layout == "crablet" && r.src.Leader && r.src.LeaderLock == 4856221667890123456 && r.src.Table == "events" && r.src.Progress == "outbox_topic_progress" &&
				*r.route.Poll == config.RoutePoll{Min: msec(1000), After: 3, Factor: 2, Max: msec(60_000)} && r.retry.Attempts == 3 && r.retry.Base == msec(1000) && r.retry.Max == msec(1000) &&
				r.route.Middleware[0].(*config.Poison).Then == "hold" && r.route.Order == "global" && *r.route.Progress == config.Progress{Topic: "T", Publisher: "LogPublisher"} &&
				r.cfg.Statistics == config.Statistics{Every: msec(30_000), Level: "info"} && len(r.route.Match.Tags.All) == 0 && r.route.Name == "t-logpublisher"
		},
		"polling-interval-ms=250":                  func(r result) bool { return r.route.Poll.Min == msec(250) && r.retry.Base == msec(250) },
		"pollingIntervalMs=90000":                  func(r result) bool { return r.route.Poll.Min == msec(90_000) && r.route.Poll.Max == msec(90_000) },
		"max-retries=7":                            func(r result) bool { return r.retry.Attempts == 7 },
		"backoff.enabled=false":                    func(r result) bool { return r.route.Poll.Max == msec(1000) },
		"backoff-enabled=false":                    func(r result) bool { return r.route.Poll.Max == msec(1000) },
		"backoff.threshold=5":                      func(r result) bool { return r.route.Poll.After == 5 },
		"backoff.multiplier=4":                     func(r result) bool { return r.route.Poll.Factor == 4 },
		"backoff.max-seconds=120":                  func(r result) bool { return r.route.Poll.Max == msec(120_000) },
		"global-statistics.enabled=false":          func(r result) bool { return r.cfg.Statistics.Every == 0 },
		"global-statistics.log-interval-seconds=7": func(r result) bool { return r.cfg.Statistics.Every == msec(7000) },
		"global-statistics.log-level=DEBUG":        func(r result) bool { return r.cfg.Statistics.Level == "debug" },
		"topics.T.required-tags=a, b": func(r result) bool {
			return len(r.route.Match.Tags.All) == 2 && r.route.Match.Tags.All[1].String() == "b"
		},
		"topics.T.any-of-tags=a,b":      func(r result) bool { return len(r.route.Match.Tags.Any) == 2 },
		"topics.T.exact-tags.region=eu": func(r result) bool { return r.route.Match.Tags.All[0].String() == "region=eu" },
		"topics.T.publisher-configs[0].name=LogPublisher\ncrablet.outbox.topics.T.publisher-configs[0].polling-interval-ms=70": func(r result) bool {
			return r.route.Poll.Min == msec(70)
		},
		"topics.T.publishers=StatisticsPublisher\ncrablet.outbox.publishers.statistics.log-interval-seconds=3": func(r result) bool {
			return r.cfg.Destinations[r.route.To].(*config.StatisticsTo).Every == msec(3000)
		},
		"topics.T.publishers=StatisticsPublisher": func(r result) bool {
			return r.cfg.Destinations[r.route.To].(*config.StatisticsTo).Every == msec(10_000)
		},
	} {
		text := "crablet.outbox.enabled=true\n"
		if !strings.Contains(line, ".publishers=") {
			text += "crablet.outbox.topics.T.publishers=LogPublisher\n"
		}
		if line != "" {
			text += "crablet.outbox." + line + "\n"
		}
		for name, text := range map[string]string{"a.properties": text, "a.yaml": nested(t, text)} {
			r := imported(t, name, text)
			cfg, err := config.Parse("result", r.Config, func(name string) (string, bool) { return "postgres://127.0.0.1/app", name == "DATABASE_URL" })
			if err != nil {
				t.Errorf("%s: %v\n%s", text, err, r.Config)
				continue
			}
			route := cfg.Routes[0]
			if !holds(result{cfg, cfg.Sources["app"].(*config.Postgres), route, route.Middleware[1].(*config.Retry)}) {
				t.Errorf("%q became\n%s", text, r.Config)
			}
			if len(r.Notes) != 1 { // that the file names no data source
				t.Errorf("%q: notes %q", text, r.Notes)
			}
		}
	}
}

// nested is a .properties file as YAML: each part of a key, and each number in brackets, is a level.
func nested(t *testing.T, properties string) string {
	t.Helper()
	root := map[string]any{}
	for line := range strings.Lines(properties) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		at, parts := root, strings.Split(strings.ReplaceAll(key, "[0]", ".0"), ".")
		for _, part := range parts[:len(parts)-1] {
			if at[part] == nil {
				at[part] = map[string]any{}
			}
			at, _ = at[part].(map[string]any)
		}
		at[parts[len(parts)-1]] = value
	}
	text, err := yaml.Marshal(listed(root))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// listed is a tree in which a level of the key 0 alone is a list.
func listed(at any) any {
	level, ok := at.(map[string]any)
	if !ok {
		return at
	}
	for key, value := range level {
		level[key] = listed(value)
	}
	if first, ok := level["0"]; ok {
		return []any{first}
	}
	return level
}

// A key that means nothing here is told by its name, and with the reason, unless it has the original's default; what it was said to be
// changes nothing.
func TestKeysThatMeanNothingAreTold(t *testing.T) {
	t.Parallel()
	const least = "crablet.outbox.enabled=true\ncrablet.outbox.topics.T.publishers=LogPublisher\n"
	without := imported(t, "a.properties", least)
	for line, told := range map[string]string{
		"batch-size=100": "", "lock-strategy=GLOBAL": "",
		"batch-size=50": "batch-size is left out", "fetch-size=100": "fetch-size is left out", "retry-delay-ms=5000": "retry-delay-ms is left out",
		"lock-strategy=PER_TOPIC_PUBLISHER": "lock-strategy is left out", "fetch-batch-size=1000": "fetch-batch-size is left out",
		"leader-election-retry-interval-ms=30000": "leader-election-retry-interval-ms is left out", "acquisition-retry-interval-ms=1": "acquisition-retry-interval-ms is left out",
		"heartbeat-ttl-seconds=60": "heartbeat-ttl-seconds is left out", "shared-fetch.enabled=true": "shared-fetch.enabled is left out",
		"publishers.log.enabled=false": "publishers.log.enabled is left out", "publishers.statistics.enabled=true": "publishers.statistics.enabled is left out",
		"polling-interval=PT5S": "polling-interval is not a key of Crablet's outbox",
	} {
		for name, text := range map[string]string{"a.properties": least + "crablet.outbox." + line + "\n", "a.yaml": nested(t, least+"crablet.outbox."+line+"\n")} {
			r := imported(t, name, text)
			if told == "" && len(r.Notes) == 1 || told != "" && len(r.Notes) == 2 && strings.Contains(strings.Join(r.Notes, "\n"), told) {
				if got, want := body(r.Config), body(without.Config); got != want {
					t.Errorf("%s: %s became\n%s", name, line, got)
				}
				continue
			}
			t.Errorf("%s: %s: notes %q, want %q", name, line, r.Notes, told)
		}
	}
	for _, enabled := range []string{"", "crablet.outbox.enabled=false\n"} {
		r := imported(t, "a.properties", enabled+"crablet.outbox.topics.T.publishers=LogPublisher\n")
		if len(r.Notes) != 2 || !strings.Contains(r.Notes[0]+r.Notes[1], "crablet.outbox.enabled") {
			t.Errorf("%q: notes %q", enabled, r.Notes)
		}
	}
}

// body is a result without its first line, which names the file.
func body(result []byte) string {
	_, rest, _ := strings.Cut(string(result), "\n")
	return rest
}

func TestWhatCannotBeImported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"a.properties", "x=1\ncrablet.outbox.polling-interval-ms=1s\n", `a.properties:2: crablet.outbox.polling-interval-ms: "1s" is not a whole number of milliseconds`},
		{"a.properties", "crablet.outbox.max-retries=0\n", "a.properties:1: crablet.outbox.max-retries"},
		{"a.properties", "crablet.outbox.global-statistics.log-level=LOUD\n", `"LOUD" is none of TRACE`},
		{"a.properties", "crablet.outbox.topics.t.publishers=P\ncrablet.outbox.topics.t.publisher-configs[0].name=P\ncrablet.outbox.topics.t.publisher-configs[0].polling-interval-ms=x\n",
			`a.properties:3: crablet.outbox.topics.t.publisher-configs[0].polling-interval-ms: "x" is not`},
		{"a.properties", "server.port=1\n", "a.properties: has no key of Crablet's outbox"},
		{"a.conf", "", "the name ends neither with"},
	} {
		_, err := Import(c.name, []byte(c.text), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// Names are short, of few characters, and each is given once.
func TestNamesOfRoutesAndDestinations(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	long := strings.Repeat("x", 60)
	for _, c := range []struct{ text, want string }{
		{"Wallet.Events-Kafka", "wallet-events-kafka"}, {"wallet-events-KAFKA", "wallet-events-kafka-2"}, {"é-a", "--a"},
		{long, long[:48]}, {long + "y", long[:46] + "-2"},
	} {
		if got := nameOf(c.text, taken); got != c.want {
			t.Errorf("%s is %s, want %s", c.text, got, c.want)
		}
	}
}

func FuzzImport(f *testing.F) {
	for _, file := range []string{"document.properties", "every-key.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), filepath.Ext(file) != ".properties")
	}
	f.Fuzz(func(t *testing.T, text string, yaml bool) {
		name := "a.properties"
		if yaml {
			name = "a.yaml"
		}
		r, err := Import(name, []byte(text), Options{})
		if err == nil && !strings.Contains(string(r.Config), "layout: crablet") {
			t.Errorf("%q became %q", text, r.Config)
		}
	})
}
