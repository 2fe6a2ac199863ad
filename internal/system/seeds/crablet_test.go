package seeds

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/compat/crablet"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
)

// The configuration of "High Availability: Two Instances" in Crablet's document, with the batch size that it names.
const crabletProperties = `
crablet.outbox.enabled=true
crablet.outbox.polling-interval-ms=1000
crablet.outbox.topics.wallet-events.required-tags=wallet_id
crablet.outbox.topics.wallet-events.publishers=KafkaPublisher,WebhookPublisher
crablet.outbox.topics.payment-events.required-tags=payment_id
crablet.outbox.topics.payment-events.publishers=AnalyticsPublisher
crablet.outbox.batch-size=500
spring.datasource.url=jdbc:postgresql://localhost:5432/wallets
`

// The document names its tables and has no CREATE TABLE; these are those of its version.
const crabletTables = `
CREATE TABLE events (
    type VARCHAR(64) NOT NULL, tags TEXT[] NOT NULL, data JSON NOT NULL, transaction_id xid8 NOT NULL,
    position BIGSERIAL NOT NULL PRIMARY KEY, occurred_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX idx_events_transaction_position_btree ON events (transaction_id, position);
CREATE TABLE outbox_topic_progress (
    topic VARCHAR(100) NOT NULL, publisher VARCHAR(100) NOT NULL, last_position BIGINT NOT NULL DEFAULT 0, last_published_at TIMESTAMPTZ,
    status VARCHAR(20) NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED', 'FAILED')), error_count INT NOT NULL DEFAULT 0, last_error TEXT,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP, leader_instance VARCHAR(255), leader_since TIMESTAMPTZ, leader_heartbeat TIMESTAMPTZ,
    PRIMARY KEY (topic, publisher));`

// wallets is a relay with the document's configuration.
type wallets struct {
	*database
	cfg  *config.Config
	base string
	in   map[string]*inbox
	stop func()
}

func newWallets(t *testing.T) *wallets {
	t.Helper()
	w := &wallets{database: onPostgres(t, crabletTables), in: map[string]*inbox{}}
	r, err := crablet.Import("application.properties", []byte(crabletProperties), crablet.Options{})
	must(t, err)
	text := strings.NewReplacer("layout: crablet #", "layout: crablet\n    poll: {max: 10ms} #", "min: 1s", "min: 10ms", "max: 60s", "max: 20ms").Replace(string(r.Config))
	w.cfg, err = outrider.ParseConfig("test", []byte("admin: {listen: \"127.0.0.1:0\", anonymous: operate}\n"+text))
	must(t, err)
	w.cfg.Sources["app"].(*config.Postgres).URL = config.NewSecretURL(w.url)
	_, err = operate.Init(t.Context(), w.cfg)
	must(t, err)
	for _, name := range []string{"KafkaPublisher", "WebhookPublisher", "AnalyticsPublisher"} {
		w.in[name] = &inbox{name: name}
	}
	return w
}

func (w *wallets) run(t *testing.T) {
	t.Helper()
	var options []outrider.Option
	for name, in := range w.in {
		options = append(options, outrider.WithPublisher(strings.ToLower(name), in))
	}
	relay, stop := run(t, w.cfg, options...)
	w.base, w.stop = "http://"+relay.AdminAddress(), stop
}

// appends adds events as Crablet's functions do.
func (w *wallets) appends(n int, tag string) {
	w.exec(`INSERT INTO events (type, tags, data, transaction_id) SELECT 'Moved', ARRAY[$2::text], '{}', pg_current_xact_id() FROM generate_series(1, $1)`, n, tag)
}

// curl is a command line of the document.
func (w *wallets) curl(line string) (status int, body string) {
	w.Helper()
	method, path := http.MethodGet, strings.TrimPrefix(line, "curl ")
	if rest, post := strings.CutPrefix(path, "-X POST "); post {
		method, path = http.MethodPost, rest
	}
	req, err := http.NewRequestWithContext(w.Context(), method, strings.Replace(path, "http://localhost:8080", w.base, 1), http.NoBody)
	must(w, err)
	resp, err := http.DefaultClient.Do(req)
	must(w, err)
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	must(w, err)
	return resp.StatusCode, string(all)
}

// status is that of the row of KafkaPublisher.
func (w *wallets) status() string {
	w.Helper()
	return w.text(`SELECT status FROM outbox_topic_progress WHERE publisher = 'KafkaPublisher'`)
}

// The document's configuration, curl lines and statements work as they are: the topics need not be named.
func TestCrabletCommandsOfTheDocument(t *testing.T) {
	t.Parallel()
	w := newWallets(t)
	w.run(t)
	w.appends(600, "wallet_id=1")
	w.appends(3, "payment_id=1")
	eventually(t, "all events", func() bool {
		return len(w.in["KafkaPublisher"].events()) == 600 && len(w.in["WebhookPublisher"].events()) == 600 && len(w.in["AnalyticsPublisher"].events()) == 3
	})
	for i, e := range w.in["KafkaPublisher"].events() {
		if want := fmt.Sprint("events:", i+1); e.ID() != want {
			t.Fatalf("event %d is %s, want %s", i, e.ID(), want)
		}
	}
	if most := w.in["KafkaPublisher"].most; most <= 100 || most > 500 {
		t.Errorf("the largest batch has %d events, want more than 100 and at most 500", most)
	}
	if code, body := w.curl("curl -X POST http://localhost:8080/api/outbox/publishers/KafkaPublisher/pause"); code != 200 || w.status() != "PAUSED" {
		t.Errorf("pause: %d %s, the row is %s", code, body, w.status())
	}
	if code, body := w.curl("curl http://localhost:8080/api/outbox/publishers/KafkaPublisher"); code != 200 || !strings.Contains(body, `"publisherName":"KafkaPublisher","status":"PAUSED"`) {
		t.Errorf("status: %d %s", code, body)
	}
	if code, body := w.curl("curl -X POST http://localhost:8080/api/outbox/publishers/KafkaPublisher/resume"); code != 200 || w.status() != "ACTIVE" {
		t.Errorf("resume: %d %s, the row is %s", code, body, w.status())
	}
	eventually(t, "no lag", func() bool {
		code, body := w.curl("curl http://localhost:8080/api/outbox/publishers/lag")
		lags := map[string]int64{}
		return code == 200 && json.Unmarshal([]byte(body), &lags) == nil && len(lags) == 3 && lags["AnalyticsPublisher"] == 0 && lags["KafkaPublisher"] <= 3
	})
	if code, body := w.curl("curl http://localhost:8080/api/outbox/publishers"); code != 200 || strings.Count(body, `"topic":"wallet-events"`) != 2 {
		t.Errorf("the list: %d %s", code, body)
	}
	if code, _ := w.curl("curl http://localhost:8080/api/outbox/publishers/OtherPublisher"); code != http.StatusNotFound {
		t.Errorf("a publisher that no topic has: %d", code)
	}
	w.exec(`UPDATE outbox_topic_progress SET status = 'PAUSED' WHERE publisher = 'KafkaPublisher'`)
	eventually(t, "paused by SQL", func() bool {
		_, body := w.curl("curl http://localhost:8080/api/outbox/publishers/KafkaPublisher")
		return strings.Contains(body, `"paused":true`)
	})
	w.exec(`UPDATE outbox_topic_progress SET status = 'ACTIVE', error_count = 0, last_error = NULL WHERE publisher = 'KafkaPublisher'`)
	w.appends(1, "wallet_id=2")
	eventually(t, "resumed by SQL", func() bool { return len(w.in["KafkaPublisher"].events()) == 601 })
}

// A publisher that several topics have is named with its topic.
func TestCrabletPublisherOfSeveralTopics(t *testing.T) {
	t.Parallel()
	w := newWallets(t)
	w.run(t)
	w.exec(`INSERT INTO outbox_topic_progress (topic, publisher) VALUES ('payment-events', 'KafkaPublisher')`)
	const pause = "curl -X POST http://localhost:8080/api/outbox/publishers/KafkaPublisher/pause"
	if code, body := w.curl(pause); code != http.StatusConflict || !strings.Contains(body, "payment-events, wallet-events") {
		t.Errorf("without a topic: %d %s", code, body)
	}
	if _, body := w.curl("curl http://localhost:8080/api/outbox/publishers/lag"); !strings.Contains(body, `"payment-events:KafkaPublisher":`) || !strings.Contains(body, `"WebhookPublisher":`) {
		t.Errorf("lag: %s", body)
	}
	if code, body := w.curl(pause + "?topic=wallet-events"); code != 200 {
		t.Errorf("with a topic: %d %s", code, body)
	}
	if got := w.text(`SELECT string_agg(status, ' ' ORDER BY topic) FROM outbox_topic_progress WHERE publisher = 'KafkaPublisher'`); got != "ACTIVE PAUSED" {
		t.Errorf("the rows are %s", got)
	}
}

// A position that no event has can be written into a row: below all it is the beginning, beyond all the end. It is carried out once.
func TestCrabletPositionsThatNoEventHas(t *testing.T) {
	t.Parallel()
	w := newWallets(t)
	w.run(t)
	kafka := w.in["KafkaPublisher"]
	w.appends(2, "wallet_id=1")
	position := func() string {
		return w.text(`SELECT last_position::text FROM outbox_topic_progress WHERE publisher = 'KafkaPublisher'`)
	}
	eventually(t, "two events", func() bool { return position() == "2" })
	w.exec(`UPDATE outbox_topic_progress SET last_position = -5 WHERE publisher = 'KafkaPublisher'`)
	eventually(t, "both again", func() bool { return len(kafka.events()) == 4 && position() == "2" })
	w.exec(`UPDATE outbox_topic_progress SET last_position = 9223372036854775807 WHERE publisher = 'KafkaPublisher'`)
	eventually(t, "the end", func() bool {
		w.appends(1, "wallet_id=1")
		return position() != "9223372036854775807"
	})
	n := len(kafka.events())
	w.appends(1, "wallet_id=1")
	eventually(t, "the next event", func() bool { return len(kafka.events()) > n })
	if ids := kafka.events(); slices.ContainsFunc(ids[4:], func(e outbox.Envelope) bool { return e.ID() == "events:1" }) {
		t.Error("the first event came again")
	}
}

// A row that was deleted while no relay ran is registered again at the beginning, as by Crablet: all events come again, unless an operator
// inserts the row with its position first.
func TestCrabletRowThatWasDeleted(t *testing.T) {
	t.Parallel()
	w := newWallets(t)
	kafka := w.in["KafkaPublisher"]
	reaches := func(n int) {
		t.Helper()
		eventually(t, "the events", func() bool {
			return len(kafka.events()) == n && w.text(`SELECT coalesce(max(last_position), 0)::text FROM outbox_topic_progress WHERE publisher = 'KafkaPublisher'`) == w.text(`SELECT max(position)::text FROM events`)
		})
	}
	w.appends(2, "wallet_id=1")
	w.run(t)
	reaches(2)
	w.stop()
	w.exec(`DELETE FROM outbox_topic_progress WHERE publisher = 'KafkaPublisher'`)
	w.run(t)
	reaches(4)
	w.stop()
	w.exec(`DELETE FROM outbox_topic_progress WHERE publisher = 'KafkaPublisher'`)
	w.exec(`INSERT INTO outbox_topic_progress (topic, publisher, last_position) VALUES ('wallet-events', 'KafkaPublisher', 2)`)
	w.appends(1, "wallet_id=1")
	w.run(t)
	reaches(5)
}
