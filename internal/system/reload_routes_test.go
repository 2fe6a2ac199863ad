package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// A reload that renames a route says that the new name starts again, where, and
// with how many rows; and that what is kept for the old name stays.
func TestAReloadNamesNewAndRemovedRoutes(t *testing.T) {
	t.Parallel()
	_, url := newInbox(t)
	db := filepath.Join(t.TempDir(), "app.db")
	first := reloadable(t, db, url, "first", "")
	renamed, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: sqlite, path: %q}}
destinations: {hook: {type: http, url: "%s/first"}}
routes: {every: {from: app, to: hook}}
`, db, url))
	must(t, err)
	_, err = operate.Init(t.Context(), first)
	must(t, err)
	log := &logged{}
	o, err := outrider.New(first, outrider.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	<-o.Ready()
	for range 3 {
		m, err := outbox.New("t").Group("g").JSON(1).Build()
		must(t, err)
		must(t, operate.Publish(t.Context(), first, "app", m))
	}
	delivered := func() bool { return len(o.Stats()) == 1 && o.Stats()[0].Delivered == 3 }
	eventually(t, "the messages arrive", delivered)
	must(t, o.Reload(t.Context(), renamed))
	for _, want := range []string{
		`msg="reloading: a route is no longer configured; its cursors and its parked messages stay until ` + "`outrider route forget`" + ` deletes them" route=all`,
		`msg="reloading: a route is new" route=every source=app destination=hook begins=beginning rows=3`,
		"if it is the renamed route all: it does not continue from that route's cursor",
	} {
		if !strings.Contains(log.all(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.all())
		}
	}
	eventually(t, "they come again under the new name", delivered)
	must(t, o.Reload(t.Context(), first))
	if !strings.Contains(log.all(), `route=all source=app destination=hook begins="where a route of this name stopped"`) {
		t.Errorf("a name that comes back is not told apart:\n%s", log.all())
	}
	cancel()
	must(t, <-done)
}
