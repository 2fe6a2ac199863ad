package outboxframework_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/compat/outboxframework"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// A group that is paused gets nothing, from memory or by the poller, and others do. After it is resumed all of it comes in order.
func TestG2_G13_APausedGroupGetsNothingFromTheHotPath(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	settings := rarely().SetPollerInterval(20 * time.Millisecond).SetPollerSkipRecent(0)
	a := newApp(t, url, settings)
	var mu sync.Mutex
	got := map[string][]string{} // event ids by aggregate
	listeners.Listen(a.registry, listeners.Any, func(_ context.Context, e outbox.Envelope) error {
		mu.Lock()
		defer mu.Unlock()
		got[e.AggregateID()] = append(got[e.AggregateID()], e.ID())
		return nil
	})
	a.start()
	cfg, err := settings.Config(url)
	must(t, err)
	op, err := operate.NewOperator(t.Context(), cfg)
	must(t, err)
	defer func() { must(t, op.Close()) }()
	_, err = op.Pause(t.Context(), adapters.Pause{Route: outboxframework.Route, Group: "USER:paused"})
	must(t, err)
	a.awaitLog("paused groups have changed")
	var want []string
	hot := a.hot()
	for range 3 {
		want = append(want, a.publish("USER_CREATED", "paused").ID())
		other := a.publish("USER_CREATED", "other")
		a.await(other.ID(), "1 0")
	}
	if n := a.hot() - hot; n != 6 {
		t.Errorf("%d events came into the hot queue, want 6", n)
	}
	mu.Lock()
	if len(got["paused"]) > 0 || len(got["other"]) != 3 {
		t.Errorf("while the group was paused %d of it were delivered, and %d of another one; want 0 and 3", len(got["paused"]), len(got["other"]))
	}
	mu.Unlock()
	for _, id := range want {
		if row := a.status(id); row != "0 0" {
			t.Errorf("the row of the paused group is %q, want NEW", row)
		}
	}

	_, err = op.Resume(t.Context(), adapters.Pause{Route: outboxframework.Route, Group: "USER:paused", By: "test"})
	must(t, err)
	for _, id := range want {
		a.await(id, "1 0")
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(got["paused"], want) {
		t.Errorf("after it was resumed the group got %v, want %v", got["paused"], want)
	}
}
