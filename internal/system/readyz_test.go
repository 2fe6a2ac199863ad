package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
	"github.com/outriderhq/outrider/internal/testenv"
)

// working is a relay that runs until stop.
func working(t *testing.T, cfg *outrider.Config) (*outrider.Outrider, func()) {
	t.Helper()
	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	select {
	case <-relay.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	return relay, func() {
		t.Helper()
		cancel()
		must(t, <-done)
	}
}

func parsed(t *testing.T, format string, args ...any) *outrider.Config {
	t.Helper()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, format, args...))
	must(t, err)
	return cfg
}

// A relay is not ready while it cannot read its table, whether that is a log table or a queue, and is again afterwards.
func TestATableThatCannotBeReadIsNotReady(t *testing.T) {
	t.Parallel()
	for layout, table := range map[string]string{"outrider": "outrider_outbox", "yantra": "outbox_messages"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			url := testenv.Postgres(t)
			cfg := parsed(t, `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: postgres, url: %q, layout: %s, poll: {min: 10ms, max: 20ms}}}
destinations: {out: {type: discard}}
routes: {work: {from: app, to: out}}
`, url, layout)
			_, err := operate.Init(t.Context(), cfg)
			must(t, err)
			pool, err := pgxpool.New(t.Context(), url)
			must(t, err)
			defer pool.Close()
			relay, stop := working(t, cfg)
			defer stop()
			eventually(t, "it is ready", func() bool { return get(t, relay, "/readyz") == "ok\n" })
			_, err = pool.Exec(t.Context(), "ALTER TABLE "+table+" RENAME TO away")
			must(t, err)
			eventually(t, "it is not ready", func() bool { return strings.Contains(get(t, relay, "/readyz"), "route work") })
			_, err = pool.Exec(t.Context(), "ALTER TABLE away RENAME TO "+table)
			must(t, err)
			eventually(t, "it is ready again", func() bool { return get(t, relay, "/readyz") == "ok\n" })
		})
	}
}

// Dead and held messages of an own table are in a gauge, also after a restart.
func TestParkedMessagesAreInAGauge(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnprocessableEntity) }))
	defer receiver.Close()
	cfg := parsed(t, `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: sqlite, path: %q}}
destinations: {out: {type: http, url: %q}}
routes:
  on: {from: app, to: out, middleware: [{poison: {then: continue}}, {retry: {attempts: 1}}]}
  held: {from: app, to: out, middleware: [{poison: {then: hold}}, {retry: {attempts: 1}}]}
`, filepath.Join(t.TempDir(), "app.db"), receiver.URL)
	_, err := operate.Init(t.Context(), cfg)
	must(t, err)
	for _, id := range []string{"a", "b"} {
		must(t, operate.Publish(t.Context(), cfg, "app", typedEvent(t, id)))
	}
	for range 2 {
		relay, stop := working(t, cfg)
		eventually(t, "the gauge has both", func() bool {
			text := get(t, relay, "/metrics")
			return strings.Contains(text, `outrider_parked_messages{route="on",status="dead"} 2`) && strings.Contains(text, `outrider_parked_messages{route="on",status="held"} 0`) &&
				strings.Contains(text, `outrider_parked_messages{route="held",status="held"} 1`) && strings.Contains(text, `outrider_parked_messages{route="held",status="waiting"} 1`)
		})
		stop()
	}
}

// A source that remembers itself what was delivered has nothing to count, and its route works.
func TestAnHTTPSourceThatIsHealthyWorks(t *testing.T) {
	t.Parallel()
	address := testenv.FreeAddress(t)
	cfg := parsed(t, `
admin: {listen: "127.0.0.1:0"}
state: {url: %q}
sources: {in: {type: http, listen: %q, path: /events}}
destinations: {out: {type: discard}}
routes: {all: {from: in, to: out}}
`, filepath.Join(t.TempDir(), "state.db"), address)
	_, err := operate.Init(t.Context(), cfg)
	must(t, err)
	relay, stop := working(t, cfg)
	defer stop()
	eventually(t, "the status has its lanes", func() bool { return strings.Contains(get(t, relay, "/api/v1/routes"), `"lanes":16`) })
	for range 3 {
		if text := get(t, relay, "/api/v1/routes/all"); !strings.Contains(text, `"state":"ok"`) {
			t.Fatalf("its route is %s", text)
		}
	}
	op, err := operate.NewOperator(t.Context(), cfg)
	must(t, err)
	defer func() { must(t, op.Close()) }()
	running, err := console.RunningRoutes(t.Context(), op)
	if err == nil {
		t.Errorf("the address of the configuration has port 0 and answers: %v", running)
	}
	rows, _, err := op.Status(t.Context(), nil, nil)
	must(t, err)
	if rows[0].State != status.StateOK {
		t.Errorf("for the command it is %s: %s", rows[0].State, rows[0].SourceError)
	}
}
