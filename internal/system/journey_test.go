package system_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// Each row of an event has one place on a route: of two rows with one id the second was skipped as a duplicate.
func TestAnEventIsInOnePlaceForEachRow(t *testing.T) {
	t.Parallel()
	box, url := newInbox(t)
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: sqlite, path: %q}}
destinations: {hook: {type: http, url: "%s/first"}}
routes: {all: {from: app, to: hook, middleware: [dedupe: 1h, poison, retry, timeout]}}
`, filepath.Join(t.TempDir(), "app.db"), url))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	o, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	<-o.Ready()
	places := func(id string) (j operate.Journey) {
		must(t, json.Unmarshal([]byte(get(t, o, "/api/v1/events/"+id)), &j))
		return j
	}
	for _, ids := range [][]string{{"before"}, {"twice"}, {"twice", "after"}} { // a settle each, whose times are remembered
		for _, id := range ids {
			m, err := outbox.New("t").ID(id).Group("g").JSON(1).Build()
			must(t, err)
			must(t, operate.Publish(t.Context(), cfg, "app", m))
		}
		eventually(t, "the last message is settled", func() bool {
			j := places(ids[len(ids)-1])
			return len(j.Places) == 1 && j.Places[0].Where == operate.EventSettled
		})
	}
	if n := box.at("/first"); n != 3 {
		t.Errorf("%d messages arrived", n)
	}
	where := map[int64]operate.EventWhere{}
	j := places("twice")
	for _, p := range j.Places {
		where[p.Position] = p.Where
	}
	if len(j.Places) != 2 || where[2] != operate.EventSettled || where[3] != operate.EventSkipped {
		t.Errorf("the event is at %+v", j.Places)
	}
	cancel()
	must(t, <-done)
}
