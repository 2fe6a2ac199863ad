// Package flowcatalyst_test runs the configuration of this folder as it is.
package flowcatalyst_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/compat/flowcatalyst"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func TestTheExampleDelivers(t *testing.T) {
	t.Setenv("DATABASE_URL", testenv.Postgres(t))
	got := make(chan string, 10)
	platform := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil && req.Method == http.MethodPost {
			got <- req.URL.Path + " " + req.Header.Get("Authorization") + " " + string(body)
		}
	}))
	defer platform.Close()
	t.Setenv("FLOWCATALYST_URL", platform.URL)
	t.Setenv("FLOWCATALYST_TOKEN", "token")
	cfg, err := outrider.LoadConfig("outrider.yaml")
	must(t, err)
	cfg.Admin.Listen = "off"
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)

	conn, err := pgx.Connect(t.Context(), os.Getenv("DATABASE_URL"))
	must(t, err)
	defer func() { must(t, conn.Close(context.Background())) }()
	client, err := outbox.NewFlowCatalyst(outbox.FlowCatalystConfig{})
	must(t, err)
	must(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		_, err := client.Publish(t.Context(), tx,
			outbox.FlowCatalystItem{Group: "order-1", Payload: []byte(`{"type": "order.created"}`)},
			outbox.FlowCatalystItem{Kind: outbox.FlowCatalystDispatchJob, Payload: []byte(`{"job": 1}`)})
		return err
	}))

	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	want := map[string]bool{
		`/api/events/batch Bearer token [{"type": "order.created"}]`: true, `/api/dispatch/jobs/batch Bearer token [{"job": 1}]`: true,
	}
	for len(want) > 0 {
		select {
		case request := <-got:
			if !want[request] {
				t.Errorf("the platform got %s", request)
			}
			delete(want, request)
		case err := <-done:
			t.Fatalf("the relay ended early: %v", err)
		}
	}
	cancel()
	must(t, <-done)
}

// The limits are FlowCatalyst's: a poll takes 500 rows of each table, and at most ten groups are in
// flight, of both types and all routes together.
func TestTheLimitsAreThoseOfTheOriginal(t *testing.T) {
	t.Setenv("DATABASE_URL", testenv.Postgres(t))
	var mu sync.Mutex
	now, most, all := 0, 0, make(chan struct{}, 10_000)
	open := make(chan struct{})
	platform := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		all <- struct{}{}
		<-open
		mu.Lock()
		now--
		mu.Unlock()
	}))
	defer platform.Close()
	t.Setenv("FLOWCATALYST_URL", platform.URL)
	text, err := os.ReadFile("outrider.yaml")
	must(t, err)
	parts := strings.Replace(string(text), "outbox: {from: app, to: platform}",
		"orders: {from: app, to: platform, match: {types: [order.*]}}\n  rest: {from: app, to: platform}", 1)
	cfg, err := config.Parse("outrider.yaml", []byte(parts), os.LookupEnv)
	must(t, err)
	cfg.Admin.Listen = "off"
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	conn, err := pgx.Connect(t.Context(), os.Getenv("DATABASE_URL"))
	must(t, err)
	defer func() { must(t, conn.Close(context.Background())) }()
	for _, table := range []string{"outbox_events", "outbox_dispatch_jobs"} {
		_, err = conn.Exec(t.Context(), `INSERT INTO `+table+` (id, type, message_group, payload, status, created_at)
			SELECT to_char(i, 'FM0000000000000'), 'EVENT', 'g' || i, CASE i % 2 WHEN 0 THEN '{"type":"order.created"}' ELSE '{}' END, 'PENDING', now()
			FROM generate_series(1, 700) AS i`)
		must(t, err)
	}
	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	for range 10 { // nothing is settled while these are being sent
		select {
		case <-all:
		case err := <-done:
			t.Fatalf("the relay ended early: %v", err)
		}
	}
	var events, jobs int
	must(t, conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM outbox_events WHERE status = 'PROCESSING'),
		(SELECT count(*) FROM outbox_dispatch_jobs WHERE status = 'PROCESSING')`).Scan(&events, &jobs))
	if events != 500 || jobs != 500 {
		t.Errorf("the first poll took %d events and %d jobs, want 500 of each", events, jobs)
	}
	close(open)
	for range 2*700 - 10 {
		select {
		case <-all:
		case err := <-done:
			t.Fatalf("the relay ended early: %v", err)
		}
	}
	cancel()
	must(t, <-done)
	if most != 10 {
		t.Errorf("up to %d groups were being sent at once, want 10", most)
	}
}

// The imported configuration means the same as the one that is written by hand.
func TestTheImportMeansTheSame(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1/app")
	t.Setenv("FLOWCATALYST_URL", "https://api.example.com")
	text, err := os.ReadFile("application.properties")
	must(t, err)
	made, err := flowcatalyst.Import("application.properties", text, flowcatalyst.Options{})
	must(t, err)
	imported, err := outrider.ParseConfig("imported", made.Config)
	must(t, err)
	written, err := outrider.LoadConfig("outrider.yaml")
	must(t, err)
	if !reflect.DeepEqual(imported.Sources, written.Sources) || !reflect.DeepEqual(imported.Destinations, written.Destinations) ||
		!reflect.DeepEqual(imported.Routes, written.Routes) {
		t.Errorf("imported\n%+v\nwritten\n%+v", imported, written)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
