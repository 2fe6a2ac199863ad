package outboxframework_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/compat/outboxframework"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// shop is aggregates whose writers take turns, and what listeners got of them.
type shop struct {
	turns [12]sync.Mutex
	next  [12]int

	mu  sync.Mutex
	got map[string][]int
}

// publish publishes the next event of an aggregate, or rolls it back, and sometimes with others in one transaction.
func (s *shop) publish(t *testing.T, a *app, client *outbox.Client) {
	n := rand.IntN(len(s.turns))
	s.turns[n].Lock()
	defer s.turns[n].Unlock()
	events := 1 + rand.IntN(3)
	undo := errors.New("rolled back")
	roll := rand.IntN(10) == 0
	err := a.inTx(func(ctx context.Context) error {
		for i := range events {
			number := s.next[n] + i + 1
			if roll {
				number = -number
			}
			e, err := outbox.New("SOLD").JSON(number).Aggregate("SHOP", strconv.Itoa(n)).Build()
			if err != nil {
				return err
			}
			if err := client.Publish(ctx, nil, e); err != nil {
				return err
			}
		}
		if roll {
			return undo
		}
		return nil
	})
	switch {
	case err == nil:
		s.next[n] += events
	case !errors.Is(err, undo):
		t.Error(err)
	}
}

// listen has an app's listeners note what they get; a few fail at first.
func (s *shop) listen(a *app) {
	listeners.Listen(a.registry, outbox.Type[int]("SOLD"), func(ctx context.Context, n int) error {
		if rand.IntN(50) == 0 {
			return errors.New("not now")
		}
		e, _ := listeners.EnvelopeOf(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got[e.AggregateID()] = append(s.got[e.AggregateID()], n)
		return nil
	})
}

// settings have a poller that gets in the way of the hot path.
func busy() *outboxframework.Settings {
	return outboxframework.NewSettings().SetPollerInterval(3 * time.Millisecond).SetPollerSkipRecent(2 * time.Millisecond).
		SetRetryBaseDelay(time.Millisecond).SetRetryMaxAttempts(1000).SetHotQueueCapacity(20).SetColdQueueCapacity(60)
}

// Two programs on one table, both with hot paths, and a third one that only writes: each event is delivered once and in the order of its
// aggregate, while listeners fail, transactions are rolled back, and one of the programs stops and begins again.
func TestG1_G2_G3_TwoProcessesWithHotPaths(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	s := &shop{got: map[string][]int{}}
	a, b := newApp(t, url, busy()), newApp(t, url, busy())
	s.listen(a)
	s.listen(b)
	plain, err := outbox.NewClient(outbox.ClientConfig{Layout: "outbox-framework"})
	must(t, err)
	a.start()
	b.start()
	rounds := testenv.Size(150, 20_000)
	write := func() {
		var writers sync.WaitGroup
		for _, w := range []struct {
			app    *app
			client *outbox.Client
		}{{a, a.client}, {a, a.client}, {b, b.client}, {b, b.client}, {a, plain}} {
			writers.Go(func() {
				for range rounds / 3 {
					s.publish(t, w.app, w.client)
				}
			})
		}
		writers.Wait()
	}
	write()
	hot := b.hot()
	var stopping sync.WaitGroup
	stopping.Go(b.stop)
	write()
	stopping.Wait()
	c := newApp(t, url, busy())
	s.listen(c)
	stopping.Go(c.start)
	write()
	stopping.Wait()
	for open := 1; open > 0; {
		must(t, a.pool.QueryRow(t.Context(), "SELECT count(*) FROM outbox_event WHERE status <> 1").Scan(&open))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, events := range s.next {
		var want []int
		for i := range events {
			want = append(want, i+1)
		}
		if got := s.got[strconv.Itoa(n)]; !slices.Equal(got, want) {
			t.Errorf("aggregate %d: %s", n, firstWrong(got, want))
		}
	}
	t.Logf("%d, %d and %d events came by the hot paths", a.hot(), hot, c.hot())
	if a.hot() == 0 || hot == 0 {
		t.Error("no event came by a hot path")
	}
}

// firstWrong says where two lists differ.
func firstWrong(got, want []int) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("event %d is %d; around it %v", i+1, got[i], got[max(0, i-3):min(len(got), i+4)])
		}
	}
	return fmt.Sprintf("%d events, want %d", len(got), len(want))
}
