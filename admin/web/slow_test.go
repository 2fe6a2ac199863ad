package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
	"github.com/outriderhq/outrider/admin/web"
	"github.com/outriderhq/outrider/internal/testenv"
)

// A search that takes long is given up, and the page says so and how to search better; it does not search again by itself.
func TestALongSearchIsGivenUp(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, "admin: {listen: off}\nsources: {app: {type: postgres, url: %q}}\ndestinations: {log: {type: log}}\nroutes: {all: {from: app, to: log}}\n", url))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	console := console.NewConsole(console.Relay{Config: func() *outrider.Config { return cfg }, Stats: func() []adapters.RouteStats { return nil }})
	defer func() { must(t, console.Close()) }()
	handler := server.Handler(server.Config{Pages: web.New(console), Anonymous: operate.RoleAdmin, Stats: func() []adapters.RouteStats { return nil }})
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return w.Code, w.Body.String()
	}
	const path = "/parked?error=nothing"
	if status, page := get(path); status != http.StatusOK || !strings.Contains(page, "No parked message matches") || !strings.Contains(page, `id="list" data-live`) {
		t.Fatalf("%d %s", status, page)
	}
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), "BEGIN; LOCK TABLE outrider_parked") // stands for many rows
	must(t, err)
	if status, page := get(path); status != http.StatusOK || !strings.Contains(page, "The search was stopped after 3.0 s") || strings.Contains(page, `id="list" data-live`) ||
		!strings.Contains(page, "Choose a route too") {
		t.Errorf("%d %s", status, page)
	}
}
