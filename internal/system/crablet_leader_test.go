package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outridertest"
)

// originalSchema is Crablet's own, as far as its outbox uses it.
const originalSchema = `
CREATE TABLE events (type VARCHAR(64) NOT NULL, tags TEXT[] NOT NULL, data JSON NOT NULL, transaction_id xid8 NOT NULL,
    position BIGSERIAL NOT NULL PRIMARY KEY, occurred_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX idx_events_transaction_position_btree ON events (transaction_id, position);
CREATE TABLE outbox_topic_progress (topic VARCHAR(100) NOT NULL, publisher VARCHAR(100) NOT NULL, last_position BIGINT NOT NULL DEFAULT 0,
    last_published_at TIMESTAMPTZ, status VARCHAR(20) NOT NULL DEFAULT 'ACTIVE', error_count INT NOT NULL DEFAULT 0, last_error TEXT,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP, leader_instance VARCHAR(255), leader_since TIMESTAMPTZ, leader_heartbeat TIMESTAMPTZ,
    PRIMARY KEY (topic, publisher));`

// original plays an instance of Crablet's outbox by its SQL: one connection for its lock, and polls as long as it has that.
type original struct {
	*testing.T
	pool *pgxpool.Pool
	lock *pgx.Conn
	got  []int64 // positions that it has published
}

// newOriginal starts an instance, which does not lead yet.
func newOriginal(t *testing.T, pool *pgxpool.Pool, url string) *original {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	o := &original{T: t, pool: pool, lock: conn}
	t.Cleanup(o.crash)
	return o
}

// leads asks for the lock as it does at its start.
func (o *original) leads() (yes bool) {
	o.Helper()
	must(o.T, o.lock.QueryRow(o.Context(), "SELECT pg_try_advisory_lock(4856221667890123456)").Scan(&yes))
	return yes
}

// poll publishes what is behind the position of the pair.
func (o *original) poll() {
	o.Helper()
	_, err := o.pool.Exec(o.Context(), `INSERT INTO outbox_topic_progress (topic, publisher, last_position, status, leader_instance, leader_heartbeat)
VALUES ('wallets', 'P', 0, 'ACTIVE', 'original', CURRENT_TIMESTAMP) ON CONFLICT (topic, publisher) DO NOTHING`)
	must(o.T, err)
	var last int64
	must(o.T, o.pool.QueryRow(o.Context(), `SELECT last_position FROM outbox_topic_progress WHERE topic = 'wallets' AND publisher = 'P'`).Scan(&last))
	rows, err := o.pool.Query(o.Context(), `SELECT position FROM events WHERE position > $1 AND (TRUE) ORDER BY position ASC LIMIT 100`, last)
	must(o.T, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	must(o.T, err)
	if len(found) == 0 {
		return
	}
	o.got = append(o.got, found...)
	_, err = o.pool.Exec(o.Context(), `UPDATE outbox_topic_progress SET last_position = $1, last_published_at = CURRENT_TIMESTAMP, error_count = 0, last_error = NULL,
updated_at = CURRENT_TIMESTAMP WHERE topic = 'wallets' AND publisher = 'P'`, found[len(found)-1])
	must(o.T, err)
}

// crash drops the connection with the lock.
func (o *original) crash() { _ = o.lock.Close(context.Background()) }

// Outrider and Crablet take turns: while one has the lock the other does nothing, and the next one continues at the position of the
// former. Each event is published once, in order.
func TestCrabletOriginalAndOutriderStandByForEachOther(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), originalSchema)
	must(t, err)
	add := func(n int) {
		t.Helper()
		for range n {
			_, err := pool.Exec(t.Context(), `INSERT INTO events (type, tags, data, transaction_id) VALUES ('Moved', '{wallet_id=1}', '{}', pg_current_xact_id())`)
			must(t, err)
		}
	}
	first := newOriginal(t, pool, url)
	if !first.leads() {
		t.Fatal("the first instance does not lead")
	}

	latch := outridertest.NewLatch(5)
	relay, log, stop := relayOf(t, url, latch)
	eventually(t, "Outrider stands by", func() bool { return strings.Contains(log.all(), "another process holds the lock of the leader") })
	leads(t, relay, false)
	add(5)
	first.poll()
	if len(latch.Events()) > 0 || strings.Contains(log.all(), "acquired all lanes") {
		t.Fatalf("Outrider works although the original leads: it published %d events", len(latch.Events()))
	}

	add(5) // which Crablet has not read
	crashed := time.Now()
	first.crash()
	latch.Await(t)
	leads(t, relay, true)
	t.Logf("Outrider took over from an original that crashed after %v", time.Since(crashed).Round(time.Millisecond))
	second := newOriginal(t, pool, url)
	if second.leads() {
		t.Fatal("an original leads beside Outrider")
	}

	stopped := time.Now()
	stop()
	eventually(t, "the original leads", second.leads)
	t.Logf("an original took over from Outrider after %v", time.Since(stopped).Round(time.Millisecond))
	add(5)
	second.poll()
	var ours []string
	for _, e := range latch.Events() {
		ours = append(ours, e.ID())
	}
	published := fmt.Sprint(first.got, ours, second.got)
	if want := "[1 2 3 4 5] [events:6 events:7 events:8 events:9 events:10] [11 12 13 14 15]"; published != want {
		t.Errorf("published %s, want %s", published, want)
	}
}

// relayOf runs an Outrider for the pair until stop is called. It publishes to the latch.
func relayOf(t *testing.T, url string, latch *outridertest.Latch) (_ *outrider.Outrider, log *logged, stop func()) {
	t.Helper()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
sources: {app: {type: postgres, url: %q, layout: crablet, progress_table: public.outbox_topic_progress, poll: {max: 10ms}}}
destinations: {out: {type: publisher, topic: out}}
routes: {wallets: {from: app, to: out, progress: {topic: wallets, publisher: P}}}
`, url))
	must(t, err)
	log = &logged{}
	relay, err := outrider.New(cfg, outrider.WithPublisher("out", latch), outrider.WithLogger(slog.New(slog.NewTextHandler(log, nil))), outrider.WithInstance("outrider"))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		must(t, <-ended)
	})
	t.Cleanup(stop)
	return relay, log, stop
}

// leads checks the metric of a relay about its leadership.
func leads(t *testing.T, relay *outrider.Outrider, yes bool) {
	t.Helper()
	w := httptest.NewRecorder()
	relay.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	n := 0
	if yes {
		n = 1
	}
	if want := fmt.Sprintf("\noutbox_is_leader{instance=\"outrider\"} %d\n", n); !strings.Contains(w.Body.String(), want) {
		t.Errorf("/metrics does not say %q", want)
	}
}

// An event whose transaction was open during Crablet's turn and commits after it is delivered, though it is below last_position by then. So is
// an event, which Crablet loses, whose transaction was open during Outrider's turn and commits during a turn in which Crablet has moved nothing.
func TestG1_ALateCommitAfterAnOriginalsTurn(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), originalSchema)
	must(t, err)
	const insert = `INSERT INTO events (type, tags, data, transaction_id) VALUES ('Moved', '{wallet_id=1}', '{}', pg_current_xact_id())`
	add := func(n int) {
		t.Helper()
		for range n {
			_, err := pool.Exec(t.Context(), insert)
			must(t, err)
		}
	}
	open := func() pgx.Tx {
		t.Helper()
		tx, err := pool.Begin(t.Context())
		must(t, err)
		_, err = tx.Exec(t.Context(), insert)
		must(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // nothing after a commit
		return tx
	}
	first := newOriginal(t, pool, url)
	if !first.leads() {
		t.Fatal("the original does not lead")
	}
	latch := outridertest.NewLatch(3)
	_, log, stop := relayOf(t, url, latch)
	eventually(t, "Outrider stands by", func() bool { return strings.Contains(log.all(), "another process holds the lock of the leader") })
	add(3)
	late := open() // 4
	add(2)
	first.poll() // up to 6
	first.crash()
	add(1) // 7
	eventually(t, "Outrider takes over", func() bool { return len(latch.Events()) == 1 })
	must(t, late.Commit(t.Context()))
	eventually(t, "the late event arrives", func() bool { return len(latch.Events()) == 2 })

	late = open() // 8
	add(1)        // 9
	latch.Await(t)
	stop()
	second := newOriginal(t, pool, url)
	eventually(t, "the original leads", second.leads)
	must(t, late.Commit(t.Context()))
	second.poll()
	second.crash()
	again := outridertest.NewLatch(1)
	relayOf(t, url, again)
	again.Await(t)
	var ours []string
	for _, e := range append(latch.Events(), again.Events()...) {
		ours = append(ours, e.ID())
	}
	published := fmt.Sprint(first.got, ours, second.got)
	if want := "[1 2 3 5 6] [events:7 events:4 events:9 events:8] []"; published != want {
		t.Errorf("published %s, want %s", published, want)
	}
}
