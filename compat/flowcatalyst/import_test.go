package flowcatalyst

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/compat/internal/foreign"
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
			r := imported(t, filepath.Base(file), read1(t, file))
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
			if want := read1(t, golden); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func read1(t *testing.T, file string) string {
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

// What the result means is what counts: every key ends where it should.
func TestEveryKeyAndDefault(t *testing.T) {
	t.Parallel()
	const base = "outbox-processor.api-base-url=https://api.example.com\n"
	for line, want := range map[string]func(*config.Postgres, *config.HTTP, *config.Retry) bool{
		"": func(p *config.Postgres, h *config.HTTP, r *config.Retry) bool {
			return p.Poll.Min == sec(1) && p.Poll.Max == sec(1) && p.Poll.Batch == 500 && p.Claims.InMemory == 1000 &&
				p.Claims.Timeout == sec(300) && p.Tables.Events == "outbox_events" && p.Tables.DispatchJobs == "outbox_dispatch_jobs" &&
				p.Claims.Recover == sec(60) && h.MaxRequests == 10 && h.Batch.MaxMessages == 100 && h.Batch.MaxGroups == 1 && h.Token.IsZero() &&
				h.ConnectTimeout == sec(10) && h.Timeout == sec(30) && r.Attempts == 4 && r.Base == config.Duration(time.Millisecond) && r.Max == r.Base
		},
		"poll-interval=3s": func(p *config.Postgres, _ *config.HTTP, _ *config.Retry) bool {
			return p.Poll.Min == sec(3) && p.Poll.Max == sec(3)
		},
		"poll-interval=2":      func(p *config.Postgres, _ *config.HTTP, _ *config.Retry) bool { return p.Poll.Min == sec(2) },
		"poll-interval=PT1M1S": func(p *config.Postgres, _ *config.HTTP, _ *config.Retry) bool { return p.Poll.Min == sec(61) },
		"poll-interval=100ms": func(p *config.Postgres, _ *config.HTTP, r *config.Retry) bool {
			return p.Poll.Min == config.Duration(100*time.Millisecond) && r.Base == config.Duration(900*time.Millisecond)
		},
		"poll-batch-size=7":            func(p *config.Postgres, _ *config.HTTP, _ *config.Retry) bool { return p.Poll.Batch == 7 },
		"api-batch-size=7":             func(_ *config.Postgres, h *config.HTTP, _ *config.Retry) bool { return h.Batch.MaxMessages == 7 },
		"max-concurrent-groups=7":      func(_ *config.Postgres, h *config.HTTP, _ *config.Retry) bool { return h.MaxRequests == 7 },
		"global-buffer-size=7":         func(p *config.Postgres, _ *config.HTTP, _ *config.Retry) bool { return p.Claims.InMemory == 7 },
		"events-table=a.b":             func(p *config.Postgres, _ *config.HTTP, _ *config.Retry) bool { return p.Tables.Events == "a.b" },
		"dispatch-jobs-table=c":        func(p *config.Postgres, _ *config.HTTP, _ *config.Retry) bool { return p.Tables.DispatchJobs == "c" },
		"max-retries=0":                func(_ *config.Postgres, _ *config.HTTP, r *config.Retry) bool { return r.Attempts == 1 },
		"max-retries=7":                func(_ *config.Postgres, _ *config.HTTP, r *config.Retry) bool { return r.Attempts == 8 },
		"max-retries=${R:7}":           func(_ *config.Postgres, _ *config.HTTP, r *config.Retry) bool { return r.Attempts == 8 },
		"processing-timeout-seconds=7": func(p *config.Postgres, _ *config.HTTP, _ *config.Retry) bool { return p.Claims.Timeout == sec(7) },
		"api-token=x": func(_ *config.Postgres, h *config.HTTP, _ *config.Retry) bool {
			return h.Token.Reveal() == "from API_TOKEN"
		},
		"api-token=${T:secret}":          func(_ *config.Postgres, h *config.HTTP, _ *config.Retry) bool { return h.Token.Reveal() == "from T" },
		"database-type=POSTGRESQL":       func(p *config.Postgres, _ *config.HTTP, _ *config.Retry) bool { return p.Layout == "flowcatalyst" },
		"mongo-database=x":               func(p *config.Postgres, _ *config.HTTP, _ *config.Retry) bool { return p.Layout == "flowcatalyst" },
		"enabled=true":                   func(p *config.Postgres, _ *config.HTTP, _ *config.Retry) bool { return p.Layout == "flowcatalyst" },
		"api-base-url=http://localhost/": func(_ *config.Postgres, h *config.HTTP, _ *config.Retry) bool { return h.URL == "http://localhost" },
	} {
		text := base
		if line != "" {
			text += "outbox-processor." + line + "\n"
		}
		r := imported(t, "a.properties", text)
		cfg, err := config.Parse("result", r.Config, func(name string) (string, bool) {
			switch name {
			case "DATABASE_URL":
				return "postgres://127.0.0.1/app", true
			case "API_TOKEN", "T":
				return "from " + name, true
			}
			return "", false
		})
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, r.Config)
			continue
		}
		src, dst := cfg.Sources["app"].(*config.Postgres), cfg.Destinations["platform"].(*config.HTTP)
		if retry := cfg.Routes[0].Middleware[1].(*config.Retry); !want(src, dst, retry) {
			t.Errorf("%s became\n%s", line, r.Config)
		}
	}
}

func sec(n int) config.Duration { return config.Duration(time.Duration(n) * time.Second) }

func TestWhatCannotBeImported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"a.properties", "outbox-processor.database-type=ORACLE\n", "none of POSTGRESQL, MYSQL and MONGODB"},
		{"a.properties", "x=1\noutbox-processor.poll-interval=soon\noutbox-processor.max-retries=-1\n", "a.properties:2: outbox-processor.poll-interval: \"soon\" is not a duration"},
		{"a.properties", "outbox-processor.poll-interval=soon\noutbox-processor.max-retries=-1\n", "a.properties:2: outbox-processor.max-retries: \"-1\" is not a whole number"},
		{"a.conf", "", "the name ends neither with .env, .properties nor .yaml"},
		{".env", "FC_OUTBOX_BACKEND=mongo\n", ".env:1: FC_OUTBOX_BACKEND is mongo: Outrider reads the table in PostgreSQL only"},
		{".env.prod", "FC_OUTBOX_BATCH_SIZE=many\nFC_OUTBOX_POLL_INTERVAL_MS=1s\n", ".env.prod:1: FC_OUTBOX_BATCH_SIZE: \"many\" is not a whole number"},
		{".env.prod", "FC_OUTBOX_BATCH_SIZE=many\nFC_OUTBOX_POLL_INTERVAL_MS=1s\n", ".env.prod:2: FC_OUTBOX_POLL_INTERVAL_MS: \"1s\" is not a whole number of milliseconds"},
		{"x.env", "FC_OUTBOX_EVENTS_TABLE=a\n", "x.env:1: FC_OUTBOX_EVENTS_TABLE, FC_OUTBOX_DISPATCH_JOBS_TABLE and FC_OUTBOX_AUDIT_LOGS_TABLE name several tables"},
		{"x.env", "FC_OUTBOX_ADMIN_PORT=http\n", "x.env:1: FC_OUTBOX_ADMIN_PORT: \"http\" is not a port"},
		{"x.env", "{}\n", "x.env:1: is not NAME=value"},
		{"a.yaml", "a: [\n", "a.yaml: is not valid YAML"},
	} {
		_, err := Import(c.name, []byte(c.text), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestProfileOfTheCallersChoice(t *testing.T) {
	t.Parallel()
	const text = "outbox-processor.poll-batch-size=1\n%prod.outbox-processor.poll-batch-size=2\n%dev.outbox-processor.poll-batch-size=3\n"
	for profile, want := range map[string]string{"": "batch: 2 #", "dev": "batch: 3 #", "test": "batch: 1 #"} {
		r, err := Import("a.properties", []byte(text), Options{Profile: profile})
		if err != nil || !strings.Contains(string(r.Config), want) {
			t.Errorf("profile %q: %v\n%s", profile, err, r.Config)
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1s": "1s", "500ms": "500ms", "PT1S": "1s", "pt0.5s": "500ms", "P1D": "24h", "PT1H30M": "90m", "2": "2s", "1d": "24h", "10 m": "10m",
		"": "", "PT": "", "P": "", "1w": "", "-1s": "", "99999999999999999999s": "", "P9999999999D": "",
	} {
		got, err := foreign.Duration(text, false)
		if got != want && err == nil || want != "" && err != nil {
			t.Errorf("%q is %q, %v, want %q", text, got, err, want)
		}
	}
	if got, _ := foreign.Duration("1500", true); got != "1500ms" {
		t.Errorf("Spring's plain number is %q", got)
	}
}

// Whatever is in a file, the result is one that Outrider reads, or notes say why
// it does not; no secret of it is in either.
// A file without anything of the processor's is no file of it.
func TestImportRefusesAFileOfSomethingElse(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a.properties": "quarkus.http.port=8080\n", "b.yaml": "", "c.properties": "%dev.outbox-processor.enabled=true\n", ".env": "DATABASE_URL=postgres://db/app\n",
	} {
		_, err := Import(name, []byte(text), Options{})
		if err == nil || !strings.Contains(err.Error(), name+": has no key of the outbox processor (outbox-processor.enabled") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzImport finds thousands of interesting inputs, and by default the tool spends
// a minute on making each one small: run it with -fuzzminimizetime=10x.
func FuzzImport(f *testing.F) {
	for _, file := range []string{"every-key.properties", "quarkus.yaml", "spring.yml"} {
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
		_, _ = Import("a.env", []byte(text), Options{}) // must not panic
		r, err := Import(name, []byte(text), Options{})
		if err != nil {
			return
		}
		if len(r.Config) == 0 || !strings.Contains(string(r.Config), "layout: flowcatalyst") {
			t.Errorf("%q became %q", text, r.Config)
		}
	})
}
