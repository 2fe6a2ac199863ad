package flowcatalyst_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/testenv"
)

// item is an item of a request.
type item struct {
	Ref    string `json:"ref"`
	Status string `json:"status"`
}

// Rows that the Go SDK of FlowCatalyst writes end as its processor leaves them, by what the platform says of each.
func TestOutboxMessagesEndAsTheOriginalLeavesThem(t *testing.T) {
	t.Setenv("DATABASE_URL", testenv.Postgres(t))
	var mu sync.Mutex
	sent := map[string][]string{} // by path
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body struct {
			Items []item `json:"items"`
		}
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		results := make([]map[string]string, len(body.Items))
		for i, it := range body.Items {
			status := it.Status
			if status == "ONCE" { // refused once
				if status = "INTERNAL_ERROR"; slices.Contains(sent[req.URL.Path], it.Ref) {
					status = "SUCCESS"
				}
			}
			sent[req.URL.Path] = append(sent[req.URL.Path], it.Ref)
			results[i] = map[string]string{"id": "evt_1", "status": status, "error": "it was " + status}
		}
		must(t, json.NewEncoder(w).Encode(map[string]any{"results": results}))
	}))
	defer platform.Close()
	cfg, err := config.Parse("outrider.yaml", []byte(fmt.Sprintf(`
sources:
  app: {type: postgres, layout: flowcatalyst-v2, url: "${DATABASE_URL}", poll: {min: 5ms, max: 50ms}}
destinations:
  platform: {type: http, preset: flowcatalyst-v2, url: %q}
routes:
  outbox: {from: app, to: platform, middleware: [poison, retry: {attempts: 3, base: 1ms, max: 1ms, jitter: 0}, timeout]}
`, platform.URL)), os.LookupEnv)
	must(t, err)
	cfg.Admin.Listen = "off"
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	conn, err := pgx.Connect(t.Context(), os.Getenv("DATABASE_URL"))
	must(t, err)
	defer func() { must(t, conn.Close(context.Background())) }()
	insert := func(id, kind string, group any, status string) {
		payload := fmt.Sprintf(`{"ref":%q,"status":%q}`, id, status)
		_, err := conn.Exec(t.Context(), `INSERT INTO outbox_messages (id, type, message_group, payload, status, retry_count, created_at, updated_at, client_id, payload_size)
VALUES ($1, $2, $3, $4, 0, 0, now(), CURRENT_TIMESTAMP, $5, $6)`, id, kind, group, payload, "clt_1", len(payload))
		must(t, err)
	}
	for _, status := range []string{"SUCCESS", "SKIPPED", "BAD_REQUEST", "INTERNAL_ERROR", "UNAUTHORIZED", "FORBIDDEN", "GATEWAY_ERROR"} {
		insert(strings.ToLower(status), "EVENT", nil, status)
	}
	insert("first", "DISPATCH_JOB", "order-1", "ONCE")
	insert("second", "DISPATCH_JOB", "order-1", "SUCCESS")
	insert("third", "AUDIT_LOG", "order-1", "BAD_REQUEST")
	insert("other", "NONSENSE", nil, "SUCCESS")

	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	want := "bad_request 2/1, forbidden 5/1, gateway_error 6/3, internal_error 3/3, other 2/1, third 2/1, unauthorized 4/3"
	for got := ""; got != want; time.Sleep(10 * time.Millisecond) {
		err := conn.QueryRow(ctx, `SELECT coalesce(string_agg(id || ' ' || status || '/' || retry_count, ', ' ORDER BY id), '') FROM outbox_messages`).Scan(&got)
		if err != nil {
			t.Fatalf("the table has %s, want %s (%v)", got, want, err)
		}
	}
	cancel()
	must(t, <-done)
	var n int
	must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM outbox_messages WHERE updated_at > created_at AND client_id = 'clt_1'
		AND (error_message LIKE '%it was ***%' OR id IN ('third', 'other'))`).Scan(&n))
	if n != 7 {
		t.Errorf("%d of 7 rows say what they died of", n)
	}
	if got := fmt.Sprint(sent["/api/dispatch-jobs/batch"], sent["/api/audit-logs/batch"]); got != "[first first second] [third]" {
		t.Errorf("of the group were sent %s", got)
	}
}
