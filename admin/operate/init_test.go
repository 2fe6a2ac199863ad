package operate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/testenv"
)

func TestInitWake(t *testing.T) {
	t.Parallel()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
sources:
  own: {type: postgres, url: %[1]q, wake: notify}
  polled: {type: postgres, url: %[1]q, table: polled}
  topic: {type: postgres, url: %[1]q, layout: watermill, topic: orders, wake: notify}
  queue: {type: postgres, url: %[1]q, layout: flowcatalyst, wake: notify}
destinations: {nowhere: {type: discard}}
routes:
  a: {from: own, to: nowhere}
  b: {from: polled, to: nowhere}
  c: {from: topic, to: nowhere}
  d: {from: queue, to: nowhere}
`, testenv.Postgres(t)))
	must(t, err)
	statements := operate.InitWakeSQL(cfg)
	for name, table := range map[string]string{"own": "outrider_outbox", "topic": "watermill_orders", "queue": "outbox_dispatch_jobs"} {
		if !strings.Contains(statements[name], `AFTER INSERT ON "`+table+`"`) {
			t.Errorf("source %s: %s", name, statements[name])
		}
	}
	if len(statements) != 3 {
		t.Errorf("statements for %d sources, want 3", len(statements))
	}
	if _, err := operate.InitWake(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), `source "own"`) {
		t.Errorf("there are no tables, got %v", err)
	}
	delete(cfg.Sources, "topic") // its table is the application's to create
	cfg.Routes = slices.DeleteFunc(cfg.Routes, func(r config.Route) bool { return r.From == "topic" })
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	for range 2 {
		did, err := operate.InitWake(t.Context(), cfg)
		must(t, err)
		if len(did) != 3 {
			t.Errorf("did %q, want a sentence for each of 3 tables", did)
		}
	}
}
