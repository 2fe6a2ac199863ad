package system_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

// Dead rows that others or a former process left are in the metrics as in `outrider status`, in every database.
func TestDeadRowsAreInTheMetricsFromTheStart(t *testing.T) {
	t.Parallel()
	const insert = `INSERT INTO outbox_events (id, type, message_group, payload, status, retry_count, created_at, processed_at)
		VALUES ('%s', 'EVENT', 'g', '{"type":"t"}', 'FAILED', 3, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)`
	fill := func(driver, address string) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			db, err := sql.Open(driver, address)
			must(t, err)
			defer func() { must(t, db.Close()) }()
			for _, id := range []string{"a", "b", "c"} {
				_, err := db.ExecContext(t.Context(), fmt.Sprintf(insert, id))
				must(t, err)
			}
		}
	}
	for name, open := range map[string]func(t *testing.T) (source string, fill func(*testing.T)){
		"postgres": func(t *testing.T) (string, func(*testing.T)) {
			t.Helper()
			url := testenv.Postgres(t)
			return fmt.Sprintf("type: postgres, url: %q", url), fill("pgx", url)
		},
		"sqlite": func(t *testing.T) (string, func(*testing.T)) {
			t.Helper()
			path := filepath.Join(t.TempDir(), "app.db")
			return fmt.Sprintf("type: sqlite, path: %q", path), fill("sqlite", path)
		},
		"mysql": func(t *testing.T) (string, func(*testing.T)) {
			t.Helper()
			url := testenv.MySQL(t)
			user, rest, _ := strings.Cut(strings.TrimPrefix(url, "mysql://"), "@")
			host, database, _ := strings.Cut(rest, "/")
			return fmt.Sprintf("type: mysql, url: %q", url), fill("mysql", user+"@tcp("+host+")/"+database)
		},
		"mongodb": func(t *testing.T) (string, func(*testing.T)) {
			t.Helper()
			url, database := testenv.MongoDB(t)
			return fmt.Sprintf("type: mongodb, url: %q, database: %q", url, database), func(t *testing.T) {
				t.Helper()
				client, err := mongo.Connect(options.Client().ApplyURI(url))
				must(t, err)
				defer func() { must(t, client.Disconnect(t.Context())) }()
				for _, id := range []string{"a", "b", "c"} {
					_, err := client.Database(database).Collection("outbox_events").InsertOne(t.Context(), bson.M{"_id": id, "type": "EVENT", "messageGroup": "g",
						"payload": `{"type":"t"}`, "status": "FAILED", "retryCount": 3, "createdAt": time.Now(), "processedAt": time.Now()})
					must(t, err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, fill := open(t)
			cfg := parsed(t, `
admin: {listen: "127.0.0.1:0"}
state: {url: %q}
sources: {app: {%s, layout: flowcatalyst}}
destinations: {out: {type: discard}}
routes: {work: {from: app, to: out}}
`, "sqlite:"+filepath.Join(t.TempDir(), "state.db"), source)
			_, err := operate.Init(t.Context(), cfg)
			must(t, err)
			fill(t)
			relay, stop := working(t, cfg)
			defer stop()
			for _, metric := range []string{"dead_messages", "queue_dead"} {
				zero, three := "\noutrider_"+metric+`{route="work"} 0`, "\noutrider_"+metric+`{route="work"} 3`
				eventually(t, metric+" has them", func() bool {
					text := get(t, relay, "/metrics")
					if strings.Contains(text, zero) {
						t.Fatalf("%s is 0 before the rows were counted", metric)
					}
					return strings.Contains(text, three)
				})
			}
		})
	}
}

// everything is a configuration whose relay shows every metric there is.
const everything = `
admin: {listen: "127.0.0.1:0"}
watchdog: 1s
parked: {keep: 30d}
sources:
  app: {type: postgres, url: %[1]q, poll: {min: 10ms, max: 20ms}, retention: {mode: delete, keep: 24h}}
  queue: {type: postgres, url: %[1]q, layout: flowcatalyst}
  events: {type: postgres, url: %[1]q, layout: crablet}
destinations:
  receiver: {type: http, url: %[2]q}
  refuses: {type: http, url: "http://127.0.0.1:1/"}
  jobs: {type: river, url: %[1]q}
  nowhere: {type: discard}
routes:
  orders: {from: app, to: receiver, middleware: [metrics, dedupe: 1h, poison, retry, timeout, breaker]}
  down: {from: app, to: refuses}
  work: {from: queue, to: jobs}
  wallets: {from: events, to: nowhere, progress: {topic: wallets, publisher: P}}
`

// Every metric is in docs/metrics.md, with its type, its labels and its meaning, as a relay serves it, and none breaks a rule of Prometheus. A row
// that cannot be counted any more, because its table cannot be read, grows older all the same.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	must(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	must(t, err)
	_, err = pool.Exec(t.Context(), crabletDDL)
	must(t, err)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	cfg := parsed(t, everything, url, receiver.URL)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	for range 2 { // the second one is a duplicate
		must(t, operate.Publish(t.Context(), cfg, "app", typedEvent(t, "a")))
	}
	_, err = pool.Exec(t.Context(), `INSERT INTO events (type, tags, data, transaction_id) VALUES ('Moved', '{}', '{}', pg_current_xact_id())`)
	must(t, err)
	relay, stop := working(t, cfg)
	defer stop()
	var text string
	seen := map[string]served{}
	oldest := func() float64 { return valueOf(text, `outrider_backlog_oldest_seconds{route="down"}`) }
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(text)
		}
	})
	eventually(t, "the relay shows all", func() bool {
		text = get(t, relay, "/metrics")
		for _, m := range servedIn(text) {
			seen[m.name] = m
		}
		return valueOf(text, `outrider_overdue_rows{cause="address_unavailable",route="down"}`) > 0 &&
			strings.Contains(text, "outrider_skipped_total") && strings.Contains(text, "outrider_address_down_since") && strings.Contains(text, "outbox_lag") &&
			strings.Contains(text, "outrider_destination_depth") && strings.Contains(text, "outrider_delivery_latency_seconds_count") && oldest() > 0
	})
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	must(t, err)
	for _, p := range problems {
		if !strings.HasPrefix(p.Metric, "go_") && !strings.HasPrefix(p.Metric, "process_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	checkMetricsPage(t, seen)

	_, err = pool.Exec(context.WithoutCancel(t.Context()), "ALTER TABLE outrider_outbox RENAME TO away")
	must(t, err)
	failing := `outrider_source_failing{route="down"} 1`
	eventually(t, "the source cannot be read", func() bool {
		text = get(t, relay, "/metrics")
		return strings.Contains(text, failing) && !strings.Contains(text, `outrider_backlog_rows{route="down"}`)
	})
	before := oldest()
	eventually(t, "the row grows older", func() bool {
		text = get(t, relay, "/metrics")
		return oldest() > before && before > 0
	})
}

// valueOf is the value of a series; -1: it is not there.
func valueOf(text, series string) (v float64) {
	_, rest, ok := strings.Cut(text, "\n"+series+" ")
	if _, err := fmt.Sscan(rest, &v); !ok || err != nil {
		return -1
	}
	return v
}

// served is a metric as a scrape shows it.
type served struct {
	name, kind, help string
	labels           []string
}

var series = regexp.MustCompile(`(?m)^([a-z_]+?)(?:_bucket)?\{(.*)\} `)

// servedIn are the metrics of a scrape that are Outrider's own.
func servedIn(text string) (out []served) {
	labels := map[string]map[string]bool{}
	for _, m := range series.FindAllStringSubmatch(text, -1) {
		if labels[m[1]] == nil {
			labels[m[1]] = map[string]bool{}
		}
		for _, l := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" {
				labels[m[1]][l[1]] = true
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^# HELP (out[a-z_]+) (.*)\n# TYPE \S+ (\w+)$`).FindAllStringSubmatch(text, -1) {
		out = append(out, served{name: m[1], help: m[2], kind: m[3], labels: slices.Sorted(maps.Keys(labels[m[1]]))})
	}
	return out
}

// checkMetricsPage compares docs/metrics.md with the metrics that were served, or writes its tables.
func checkMetricsPage(t *testing.T, seen map[string]served) {
	t.Helper()
	const page, begin, end = "../../docs/metrics.md", "<!-- metrics of Outrider -->\n", "<!-- end -->\n"
	var b strings.Builder
	for _, prefix := range []string{"outrider_", "outbox_"} {
		if prefix == "outbox_" {
			b.WriteString("\nRoutes with [progress](crablet.md) also have the metrics of Crablet's outbox:\n")
		}
		b.WriteString("\n| name | type | labels | meaning |\n|---|---|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(seen)) {
			if m := seen[name]; strings.HasPrefix(name, prefix) {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(m.labels, ", "), m.help)
			}
		}
	}
	b.WriteString("\n")
	have, err := os.ReadFile(page)
	must(t, err)
	before, rest, ok := strings.Cut(string(have), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s lacks the marks of its tables", page)
	}
	want := before + begin + b.String() + end + after
	if *update {
		must(t, os.WriteFile(page, []byte(want), 0o600))
		return
	}
	if want != string(have) {
		t.Errorf("docs/metrics.md is not what a relay serves: go test ./internal/system -run TestMetricsPage -update\n%s", b.String())
	}
}
