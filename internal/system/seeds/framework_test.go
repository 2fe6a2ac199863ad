package seeds

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/compat/outboxframework"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/outbox"
)

// The table of the framework's specification, which is MySQL's.
const frameworkTable = `
CREATE TABLE outbox_event (
  event_id VARCHAR(36) PRIMARY KEY,
  event_type VARCHAR(128) NOT NULL,
  aggregate_type VARCHAR(64),
  aggregate_id VARCHAR(128),
  tenant_id VARCHAR(64),
  payload JSON NOT NULL,
  headers JSON,
  status TINYINT NOT NULL,
  attempts INT NOT NULL DEFAULT 0,
  available_at DATETIME(6) NOT NULL,
  created_at DATETIME(6) NOT NULL,
  done_at DATETIME(6),
  last_error TEXT
);

CREATE INDEX idx_status_available ON outbox_event(status, available_at, created_at);`

// framework is a program with a client, a listener and a relay.
type framework struct {
	db     *sql.DB
	client *outbox.Client
	mu     sync.Mutex
	got    map[string]outbox.Envelope // by id
}

func newFramework(t *testing.T, url string, dialect outbox.Dialect, db *sql.DB) *framework {
	t.Helper()
	f := &framework{db: db, got: map[string]outbox.Envelope{}}
	// No poll comes while the test lasts: what is delivered was found after its commit, or by the poll at the start.
	cfg, err := outboxframework.NewSettings().SetPollerInterval(time.Hour).SetRetryBaseDelay(time.Millisecond).SetRetryMaxAttempts(2).Config(url)
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	registry := listeners.New()
	listeners.Listen(registry, listeners.Any, func(_ context.Context, e outbox.Envelope) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.got[e.ID()] = e
		if e.Type() == "Fails" {
			return errors.New("it fails")
		}
		return nil
	})
	relay, _ := run(t, cfg, outrider.WithListeners(outboxframework.Destination, registry))
	hot, err := relay.HotPath(outboxframework.Source)
	must(t, err)
	f.client, err = outbox.NewClient(outbox.ClientConfig{Dialect: dialect, Layout: "outbox-framework", Hot: hot})
	must(t, err)
	return f
}

// publishes writes events in a transaction, whose function returns an error of the test.
func (f *framework) publishes(ctx context.Context, failure error, events ...outbox.Envelope) error {
	return outbox.InTx(ctx, f.db, func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(f.client.Publish(ctx, tx, events...), failure)
	})
}

// event is one that was delivered.
func (f *framework) event(id string) (outbox.Envelope, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.got[id]
	return e, ok
}

// text is the only value of the only row.
func (f *framework) text(t *testing.T, query string, args ...any) string {
	t.Helper()
	var text sql.NullString
	must(t, f.db.QueryRowContext(t.Context(), query, args...).Scan(&text))
	return text.String
}

// The acceptance tests of the specification's chapter 18 on its own table: atomicity, the fast path, RETRY and DEAD, and the envelope of chapter 6,
// whose time of occurrence and bytes arrive as they were published. They run on SQLite too, where Outrider makes the table.
func TestFrameworkTableOfTheDocument(t *testing.T) {
	t.Parallel()
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		d := onMySQL(t, frameworkTable)
		db, err := mysql.Open(d.url, mysql.TLS{})
		must(t, err)
		t.Cleanup(func() { must(t, db.Close()) })
		accepted(t, newFramework(t, d.url, outbox.MySQL, db))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "app.db")
		db, err := sqlite.Open(path)
		must(t, err)
		t.Cleanup(func() { must(t, db.Close()) })
		accepted(t, newFramework(t, "sqlite:"+path, outbox.SQLite, db))
	})
}

func accepted(t *testing.T, f *framework) {
	t.Helper()
	occurred := time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)
	json, err := outbox.New("UserCreated").Aggregate("User", "123").Tenant("tenant-123").Header("trace", "t-1").RawJSON([]byte(`{"name":"John"}`)).OccurredAt(occurred).Build()
	must(t, err)
	bytes, err := outbox.New("UserUpdated").Bytes([]byte(`{"id":123}`)).Build()
	must(t, err)
	fails, err := outbox.New("Fails").RawJSON([]byte(`{}`)).Build()
	must(t, err)
	noJSON, err := outbox.New("Bytes").Bytes([]byte{0xff}).Build()
	must(t, err)

	refused := errors.New("the application changed its mind")
	if err := f.publishes(t.Context(), refused, json); !errors.Is(err, refused) || f.text(t, `SELECT count(*) FROM outbox_event`) != "0" { // 18.1
		t.Errorf("after a rollback: %v, %s rows", err, f.text(t, `SELECT count(*) FROM outbox_event`))
	}
	if err := f.publishes(t.Context(), nil, noJSON); err == nil {
		t.Error("a payload that the column cannot hold was published")
	}
	must(t, f.publishes(t.Context(), nil, json, bytes, fails)) // 18.2, 18.4
	eventually(t, "two are DONE and one is RETRY", func() bool {
		return f.text(t, `SELECT count(*) FROM outbox_event WHERE status = 1 AND done_at IS NOT NULL`) == "2" &&
			f.text(t, `SELECT count(*) FROM outbox_event WHERE status = 2 AND attempts = 1 AND last_error LIKE '%it fails%'`) == "1"
	})
	e, ok := f.event(json.ID())
	if !ok || !e.OccurredAt().Equal(occurred) || e.Tenant() != "tenant-123" || e.Headers()["trace"] != "t-1" || len(e.Headers()) != 1 || string(e.Payload()) != `{"name":"John"}` {
		t.Errorf("the listener got %+v, which occurred at %s", e, e.OccurredAt())
	}
	if e, _ := f.event(bytes.ID()); string(e.Payload()) != `{"id":123}` || !e.OccurredAt().Equal(bytes.OccurredAt()) {
		t.Errorf("the listener got %s of %s", e.Payload(), e.OccurredAt())
	}
	// A row of the framework's own client says by created_at when it occurred.
	_, err = f.db.ExecContext(t.Context(), `INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id,
  tenant_id, payload, headers, status, attempts, available_at, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?)`, "theirs", "UserCreated", nil, nil, nil, `{"id":123}`, nil, "2024-02-29 12:00:00.5", "2024-02-29 12:00:00.5")
	must(t, err)
	another, err := outbox.New("UserCreated").RawJSON([]byte(`{}`)).Build()
	must(t, err)
	must(t, f.publishes(t.Context(), nil, another))
	eventually(t, "their event, and DEAD", func() bool {
		_, ok := f.event("theirs")
		return ok && f.text(t, `SELECT count(*) FROM outbox_event WHERE status = 3 AND attempts = 1`) == "1" && f.text(t, `SELECT count(*) FROM outbox_event WHERE status = 1`) == "4"
	})
	if e, _ := f.event("theirs"); !e.OccurredAt().Equal(time.Date(2024, 2, 29, 12, 0, 0, 500_000_000, time.UTC)) {
		t.Errorf("theirs occurred at %s", e.OccurredAt())
	}
	if got := f.text(t, `SELECT count(*) FROM (SELECT event_id, event_type, aggregate_type, aggregate_id, tenant_id,
       payload, headers, attempts, created_at
FROM outbox_event
WHERE status IN (0, 2)
  AND available_at <= ?
  AND created_at <= ?
ORDER BY created_at
LIMIT 200) AS pending`, "2100-01-01", "2100-01-01"); got != "0" {
		t.Errorf("the framework's poll finds %s rows", got)
	}
}
