package publishers_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

var update = flag.Bool("update", false, "write the expected answers anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// version is a version of Crablet: its layout, its tables, and their names.
type version struct{ layout, tables, events, progress string }

var (
	v1 = version{"crablet", `
CREATE TABLE events (
    type VARCHAR(64) NOT NULL, tags TEXT[] NOT NULL, data JSON NOT NULL, transaction_id xid8 NOT NULL,
    position BIGSERIAL NOT NULL PRIMARY KEY, occurred_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX idx_events_transaction_position_btree ON events (transaction_id, position);
CREATE TABLE outbox_topic_progress (
    topic VARCHAR(100) NOT NULL, publisher VARCHAR(100) NOT NULL, last_position BIGINT NOT NULL DEFAULT 0, last_published_at TIMESTAMPTZ,
    status VARCHAR(20) NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED', 'FAILED')), error_count INT NOT NULL DEFAULT 0, last_error TEXT,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP, leader_instance VARCHAR(255), leader_since TIMESTAMPTZ, leader_heartbeat TIMESTAMPTZ,
    PRIMARY KEY (topic, publisher));`, "events", "outbox_topic_progress"}
	v2 = version{"crablet-v2", `
CREATE TABLE crablet_events (
    type TEXT NOT NULL, tags TEXT[] NOT NULL, data JSONB NOT NULL, transaction_id xid8 NOT NULL, position BIGSERIAL NOT NULL PRIMARY KEY,
    occurred_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP, correlation_id UUID, causation_id BIGINT);
CREATE INDEX ON crablet_events (transaction_id, position);
CREATE TABLE crablet_outbox_topic_progress (
    topic TEXT NOT NULL, publisher TEXT NOT NULL, last_position BIGINT NOT NULL DEFAULT 0, last_published_at TIMESTAMPTZ,
    status TEXT NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED', 'FAILED')), error_count INT NOT NULL DEFAULT 0, last_error TEXT,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP, leader_instance TEXT, leader_since TIMESTAMPTZ, leader_heartbeat TIMESTAMPTZ,
    PRIMARY KEY (topic, publisher));`, "crablet_events", "crablet_outbox_topic_progress"}
)

// ofEachVersion runs a test with a relay on the tables of each version.
func ofEachVersion(t *testing.T, role string, test func(r *relay)) {
	t.Helper()
	for _, v := range []version{v1, v2} {
		t.Run(v.layout, func(t *testing.T) {
			t.Parallel()
			test(start(t, v, role))
		})
	}
}

// rows are what the tables have at first: the topic default has publishers that no relay works.
func (v version) rows() string {
	return `INSERT INTO ` + v.progress + ` (topic, publisher, last_position, last_published_at, status, error_count, last_error, updated_at, leader_instance) VALUES
    ('default', 'KafkaPublisher', 3, '2025-10-27T10:15:30.123456Z', 'ACTIVE', 0, NULL, '2025-10-27T10:15:31Z', 'pod-1'),
    ('default', 'Analytics/Publisher', 1, NULL, 'FAILED', 3, 'Publish failed', '2025-10-27T10:15:30.5Z', NULL);
INSERT INTO ` + v.events + ` (type, tags, data, transaction_id) SELECT 'Moved', '{other=1}', '{}', pg_current_xact_id() FROM generate_series(1, 5)`
}

// relay is a relay on Crablet's tables, whose topic "wallets" has the publisher Live.
type relay struct {
	*testing.T
	*outrider.Outrider
	version
	pool *pgxpool.Pool
	base string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, v version, role string) *relay {
	t.Helper()
	url := testenv.Postgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), v.tables+v.rows())
	must(t, err)
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:0", anonymous: %s}
sources: {app: {type: postgres, url: %q, layout: %s, progress_table: public.%s, poll: {max: 10ms}}}
destinations: {out: {type: log, level: debug}}
routes: {wallets: {from: app, to: out, match: {tags: {all: [wallet_id]}}, progress: {topic: wallets, publisher: Live}, poll: {min: 20ms, after: 1, factor: 10, max: 2s}}}
`, role, url, v.layout, v.progress))
	must(t, err)
	o, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)), outrider.WithInstance("here"))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- o.Run(ctx)
	}()
	server := httptest.NewServer(o.Handler())
	t.Cleanup(func() {
		server.Close()
		stop()
		must(t, <-ended)
	})
	select {
	case <-o.Ready():
	case err := <-ended:
		t.Fatal(err)
	}
	return &relay{t, o, v, pool, server.URL}
}

// call sends a request and returns the answer as the golden file has it.
func (r *relay) call(method, path string) string {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.base+path, http.NoBody)
	must(r.T, err)
	resp, err := http.DefaultClient.Do(req)
	must(r.T, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	must(r.T, err)
	return fmt.Sprintf("%s %s\n%d %s\n%s\n", method, path, resp.StatusCode, resp.Header.Get("Content-Type"), body)
}

// until waits for a condition.
func (r *relay) until(what string, holds func() bool) {
	r.Helper()
	for !holds() {
		if r.Context().Err() != nil {
			r.Fatalf("%s did not come", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// The paths answer with the original's JSON, for its topic and for others.
func TestAnswersAreThoseOfTheOriginal(t *testing.T) {
	t.Parallel()
	ofEachVersion(t, "operate", answersAreThoseOfTheOriginal)
}

func answersAreThoseOfTheOriginal(r *relay) {
	var got strings.Builder
	for _, request := range []string{
		"GET /publishers", "GET /publishers/KafkaPublisher", "GET /publishers/Analytics%2FPublisher", "GET /publishers/None", "GET /publishers/Live?topic=default",
		"GET /publishers/lag", "GET /publishers/leaders", "GET /publishers/wallets/None/backoff",
		"POST /publishers/KafkaPublisher/pause", "POST /publishers/None/pause", "POST /publishers/None/resume", "POST /publishers/None/reset", "POST /publishers/Live/pause?topic=default",
		"GET /publishers?topic=none", "GET /publishers/lag?topic=none", "GET /publishers/none?topic=%00", "DELETE /publishers/KafkaPublisher", "GET /nothing",
	} {
		method, path, _ := strings.Cut(request, " ")
		got.WriteString(r.call(method, "/api/outbox"+path) + "\n")
	}
	const golden = "testdata/answers.golden"
	if *update {
		must(r.T, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	must(r.T, err)
	if got.String() != string(want) {
		r.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// status is what the table has.
func (r *relay) status(topic, publisher string) (status string) {
	r.Helper()
	must(r.T, r.pool.QueryRow(r.Context(), `SELECT concat_ws(' ', status, error_count, last_error) FROM `+r.progress+` WHERE topic = $1 AND publisher = $2`, topic, publisher).Scan(&status))
	return status
}

// Orders are written into the table as the original does, and the relay carries them out.
func TestOrdersAreCarriedOut(t *testing.T) {
	t.Parallel()
	ofEachVersion(t, "operate", ordersAreCarriedOut)
}

func ordersAreCarriedOut(r *relay) {
	for _, c := range []struct{ order, want string }{
		{"resume", "ACTIVE 3 Publish failed"}, {"pause", "PAUSED 3 Publish failed"}, {"reset", "ACTIVE 0"},
	} {
		if answer := r.call("POST", "/api/outbox/publishers/Analytics%2FPublisher/"+c.order); !strings.HasSuffix(answer, "\n200 \n\n") {
			r.Errorf("%s", answer)
		}
		if got := r.status("default", "Analytics/Publisher"); got != c.want {
			r.Errorf("after %s the row is %q, want %q", c.order, got, c.want)
		}
	}
	var audit string
	must(r.T, r.pool.QueryRow(r.Context(), `SELECT string_agg(by || ': ' || action || ' ' || (filter->>'publisher') || ' of ' || (filter->>'topic'), '; ' ORDER BY id)
FROM outrider_audit WHERE action LIKE '% publisher'`).Scan(&audit))
	if want := "unnamed by API: resume publisher Analytics/Publisher of default; unnamed by API: pause publisher Analytics/Publisher of default; " +
		"unnamed by API: reset publisher Analytics/Publisher of default"; audit != want {
		r.Errorf("the audit log has %q, want %q", audit, want)
	}
	r.call("POST", "/api/outbox/publishers/Live/pause?topic=wallets")
	r.until("the pause", func() bool { return r.Stats()[0].Paused != nil })
	_, err := r.pool.Exec(r.Context(), `INSERT INTO `+r.events+` (type, tags, data, transaction_id) VALUES ('Moved', '{wallet_id=1}', '{}', pg_current_xact_id())`)
	must(r.T, err)
	if answer := r.call("GET", "/api/outbox/publishers/Live?topic=wallets"); !strings.Contains(answer, `"status":"PAUSED"`) || !strings.Contains(answer, `"paused":true`) {
		r.Errorf("%s", answer)
	}
	r.call("POST", "/api/outbox/publishers/Live/resume?topic=wallets")
	r.until("the event", func() bool { return r.Stats()[0].Delivered == 1 })
	if metrics := r.call("GET", "/metrics"); !strings.Contains(metrics, "\noutbox_publishing_duration_seconds_count{publisher=\"Live\"} 1\n") ||
		!strings.Contains(metrics, "\noutbox_publishing_duration_seconds_bucket{publisher=\"Live\",le=\"21600\"} 1\n") || strings.Contains(metrics, "\noutbox_publishing_duration_seconds_sum{publisher=\"Live\"} 0\n") {
		r.Error("/metrics does not time the delivery")
	}
	r.until("the row", func() bool {
		return strings.Contains(r.call("GET", "/api/outbox/publishers/lag?topic=wallets"), `{"Live":0}`)
	})
	if answer := r.call("GET", "/api/outbox/publishers/leaders?topic=wallets"); !strings.Contains(answer, `{"Live":"here"}`) {
		r.Errorf("%s", answer)
	}
}

// backoffs is the answer about the backoff of all publishers, of which there is one.
var backoffs = regexp.MustCompile(`\n200 application/json\n\{"wallets:Live":\{"emptyPollCount":[1-9]\d*,"currentSkipCounter":\d+,"backedOff":(true|false)\}\}\n`)

// A publisher that finds nothing backs off, and the metrics have the names of the original.
func TestBackoffAndMetrics(t *testing.T) {
	t.Parallel()
	r := start(t, v1, "read")
	r.until("backing off", func() bool {
		one := r.call("GET", "/api/outbox/publishers/wallets/Live/backoff")
		return strings.Contains(one, `"backedOff":true`) && !strings.Contains(one, `"emptyPollCount":0`)
	})
	if all := r.call("GET", "/api/outbox/publishers/backoff"); !backoffs.MatchString(all) {
		t.Errorf("%s", all)
	}
	if answer := r.call("POST", "/api/outbox/publishers/KafkaPublisher/pause"); !strings.Contains(answer, "\n403 application/problem+json\n") || r.status("default", "KafkaPublisher") != "ACTIVE 0" {
		t.Errorf("a caller with the role read: %s", answer)
	}
	metrics := ""
	r.until("the figures of the table", func() bool {
		metrics = r.call("GET", "/metrics")
		return strings.Contains(metrics, "\noutbox_publishers_failed 1\n")
	})
	for _, line := range []string{
		"outbox_events_published_total 0", `outbox_events_published_by_publisher_total{publisher="Live"} 0`, "outbox_errors_total 0",
		`outbox_errors_by_publisher_total{publisher="Live"} 0`, `outbox_is_leader{instance="here"} 1`, `outbox_lag{publisher="KafkaPublisher",topic="default"} 2`,
		`outbox_auto_pause_total{publisher="Analytics/Publisher",topic="default"} 0`, "outbox_publishers_paused 0",
	} {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			t.Errorf("/metrics has no line %s", line)
		}
	}
	if !strings.Contains(metrics, "\noutbox_publishers_active ") || strings.Contains(metrics, "\noutbox_processing_cycles_total 0\n") || !strings.Contains(metrics, "\noutbox_processing_cycles_total ") {
		t.Error("/metrics counts no looks for events, or no active publishers")
	}
}

// A relay without such a source says so.
func TestWithoutProgress(t *testing.T) {
	t.Parallel()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: sqlite, path: %q}}
destinations: {out: {type: discard}}
routes: {r: {from: app, to: out}}
`, t.TempDir()+"/app.db"))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	o, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	<-o.Ready()
	w := httptest.NewRecorder()
	o.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/outbox/publishers", nil))
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "layout crablet") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	stop()
	must(t, <-ended)
}
