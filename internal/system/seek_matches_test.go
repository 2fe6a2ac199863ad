package system_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// typedEvent is a message of a type, with tags.
func typedEvent(t *testing.T, id string, typ ...string) outbox.Envelope {
	t.Helper()
	b := outbox.New(append(typ, "order.created")[0]).RawJSON([]byte(`{}`)).ID(id).Group("g")
	if len(typ) > 1 {
		b = b.Tag(typ[1], "1")
	}
	e, err := b.Build()
	must(t, err)
	return e
}

// The preview of a seek counts what the route matches, in every kind of table.
func TestASeekCountsWhatTheRouteMatches(t *testing.T) {
	t.Parallel()
	pg := func(more string) string { return fmt.Sprintf("{type: postgres, url: %q%s}", testenv.Postgres(t), more) }
	custom := ", layout: custom, table: outrider_outbox, columns: {position: position, xid: xid, id: id, payload: payload, type: type, group: message_group, tags: tags, created_at: created_at}"
	for name, source := range map[string]string{
		"postgres": pg(""), "postgres, custom": pg(custom), "sqlite": fmt.Sprintf("{type: sqlite, path: %q}", filepath.Join(t.TempDir(), "app.db")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const text = `
admin: {listen: "off"}
sources: {app: %s}
destinations: {out: {type: discard}}
routes:
  rare: {from: app, to: out, match: {types: ["rare.*"]}}
  tagged: {from: app, to: out, match: {tags: {all: [vip]}}}
  all: {from: app, to: out}
`
			if name == "postgres, custom" {
				own := parsed(t, text, source[:len(source)-len(custom)-1]+"}")
				_, err := operate.Init(t.Context(), own)
				must(t, err)
			}
			cfg := parsed(t, text, source)
			_, err := operate.InitIndexes(t.Context(), cfg, nil)
			must(t, err)
			_, err = operate.Init(t.Context(), cfg)
			must(t, err)
			publish := func(from, to int) {
				for i := from; i < to; i++ {
					typ := []string{"common"}
					if i%10 == 0 {
						typ = []string{"rare.one"}
					}
					if i%25 == 0 {
						typ = append(typ, "vip")
					}
					e := typedEvent(t, strconv.Itoa(i), typ...)
					if name == "postgres, custom" {
						must(t, operate.Publish(t.Context(), parsed(t, text, source[:len(source)-len(custom)-1]+"}"), "app", e))
						continue
					}
					must(t, operate.Publish(t.Context(), cfg, "app", e))
				}
			}
			publish(0, 50)
			relay, stop := working(t, cfg)
			op, err := operate.NewOperator(t.Context(), cfg)
			must(t, err)
			defer func() { must(t, op.Close()) }()
			for _, route := range []string{"rare", "tagged", "all"} {
				eventually(t, "it has settled everything", func() bool {
					lag, err := op.Lag(t.Context(), route)
					return err == nil && lag.Rows == 0
				})
			}
			_ = relay
			stop()
			publish(50, 100)
			for route, want := range map[string][2]int{"rare": {5, 5}, "tagged": {2, 2}, "all": {50, 50}} {
				again, err := op.PlanSeek(t.Context(), route, operate.Target{Start: adapters.Start{Kind: adapters.StartBeginning}})
				must(t, err)
				skipped, err := op.PlanSeek(t.Context(), route, operate.Target{Start: adapters.Start{Kind: adapters.StartEnd}})
				must(t, err)
				if got := [2]int{again.Again.Rows, skipped.Skipped.Rows}; got != want || again.Again.More {
					t.Errorf("%s: %v rows come again, and are skipped, want %v", route, got, want)
				}
			}
		})
	}
}
