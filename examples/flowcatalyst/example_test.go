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
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin"
	"github.com/outriderhq/outrider/config/flowcatalyst"
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
	_, err = admin.Init(t.Context(), cfg)
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
