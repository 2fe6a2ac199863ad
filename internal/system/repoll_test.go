package system_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite/statestore"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// How a source is polled changes 100 times while messages come. Nothing is drained, no
// lane changes hands and nothing is delivered twice; a reload of something else drains,
// and one that cannot start goes back to the latest settings.
func TestG3_PollChangesUnderLoadRepeatNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	arrived := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing is seen below
		mu.Lock()
		defer mu.Unlock()
		for message := range strings.SplitSeq(strings.Trim(string(body), "[]"), ",") {
			arrived[message]++
		}
	}))
	defer server.Close()
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(arrived)
	}
	dir := t.TempDir()
	db, other := filepath.Join(dir, "app.db"), filepath.Join(dir, "other.db")
	config := func(poll, more string) *outrider.Config {
		cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: sqlite, path: %q, poll: {%s}}}
destinations: {hook: {type: http, url: %q}}
routes: {all: {from: app, to: hook}}
%s`, db, poll, server.URL, more))
		must(t, err)
		return cfg
	}
	const rare = "min: 1h, max: 1h" // nothing arrives by it, unless something wakes the reader
	first := config("min: 59m, max: 59m", "")
	taken := config(rare, fmt.Sprintf("state: {url: %q}", "sqlite:"+other))
	for _, cfg := range []*outrider.Config{first, taken} {
		_, err := operate.Init(t.Context(), cfg)
		must(t, err)
	}
	state, err := statestore.New(t.Context(), statestore.Config{Path: db})
	must(t, err)
	defer func() { must(t, state.Close()) }()
	epochs := func() map[adapters.LaneRef]int64 {
		lanes, err := state.Lanes(t.Context())
		must(t, err)
		of := map[adapters.LaneRef]int64{}
		for _, l := range lanes {
			of[l.LaneRef] = l.Epoch
		}
		return of
	}
	log := &record{Handler: slog.DiscardHandler}
	o, err := outrider.New(first, outrider.WithLogger(slog.New(log)))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	<-o.Ready()
	before := epochs()

	published := 0
	publish := func() {
		m, err := outbox.New("t").Group(fmt.Sprint("g", published%7)).JSON(published).Build()
		must(t, err)
		must(t, operate.Publish(t.Context(), first, "app", m))
		published++
	}
	for i := range 100 {
		publish()
		poll := rare
		if i%2 == 1 {
			poll = fmt.Sprintf("batch: %d, max: %dms", 1+i*i, 1+i)
		}
		must(t, o.Reload(ctx, config(poll, "")))
	}
	publish() // without a notification: the latest settings must apply
	eventually(t, "everything arrives", func() bool { return count() == published })
	if got := log.times("poll of the source has changed"); got != 100 {
		t.Errorf("the log names %d changes, want 100", got)
	}
	if n := log.times("reloading: finishing"); n != 0 {
		t.Errorf("it drained %d times, want never", n)
	}
	if after := epochs(); len(before) != adapters.Slots || !reflect.DeepEqual(before, after) {
		t.Errorf("lanes were taken anew: their epochs were %v and are %v", before, after)
	}
	if ready := get(t, o, "/readyz"); ready != "ok\n" {
		t.Errorf("readyz says %q", ready)
	}

	another, err := statestore.New(t.Context(), statestore.Config{Path: other})
	must(t, err)
	must(t, another.Join(t.Context(), "another", time.Hour))
	if err := o.Reload(ctx, taken); err == nil {
		t.Error("a configuration whose state is taken was put to work")
	}
	must(t, another.Close())
	if n := log.times("reloading: finishing"); n != 1 {
		t.Errorf("it drained %d times for another state, want once", n)
	}
	publish()
	eventually(t, "the latest settings are at work again", func() bool { return count() == published })
	cancel()
	must(t, <-done)
	mu.Lock()
	defer mu.Unlock()
	for body, n := range arrived {
		if n != 1 {
			t.Errorf("%s arrived %d times", body, n)
		}
	}
}
