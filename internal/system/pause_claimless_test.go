package system_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// gate is a publisher that can be told to keep a call with messages of a group waiting, and later to have none.
type gate struct {
	mu      sync.Mutex
	got     map[string][]int  // numbers of what arrived, by group
	names   map[string]string // of groups, as Outrider has them
	kept    string            // the group whose next call waits
	shut    string            // the group of which nothing may come
	wrong   int
	entered chan struct{}
	leave   chan error
}

func newGate() *gate {
	return &gate{got: map[string][]int{}, names: map[string]string{}, entered: make(chan struct{}, 1), leave: make(chan error)}
}

// Publish implements message.Publisher.
func (g *gate) Publish(_ string, msgs ...*message.Message) error {
	events := make([]event, len(msgs))
	waits := false
	g.mu.Lock()
	for i, msg := range msgs {
		if err := json.Unmarshal(msg.Payload, &events[i]); err != nil {
			g.mu.Unlock()
			return err
		}
		group := events[i].Group
		g.names[group] = msg.Metadata.Get(outbox.MetaGroup)
		waits = waits || group == g.kept
		if group == g.shut {
			g.wrong++
		}
	}
	if waits {
		g.kept = ""
	}
	g.mu.Unlock()
	if waits {
		g.entered <- struct{}{}
		if err := <-g.leave; err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range events {
		g.got[e.Group] = append(g.got[e.Group], e.N)
	}
	return nil
}

// Close implements message.Publisher.
func (*gate) Close() error { return nil }

// of counts what arrived of some groups.
func (g *gate) of(groups ...string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, group := range groups {
		n += len(g.got[group])
	}
	return n
}

// A group of a table without a claim status that is paused while one of its messages is being sent gets nothing more,
// whether that message arrives or not, nor from the next instance. Others do; after it is resumed everything has come once, in order.
func TestG2_G3_G13_APausedGroupOfATableWithoutClaimsWaits(t *testing.T) {
	t.Parallel()
	for layout, insert := range map[string]string{
		"outbox-framework": `INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload, status, available_at, created_at)
			SELECT 'e' || lpad(i::text, 6, '0'), 't', 'A', 'g' || i % 5, json_build_object('n', i, 'group', 'g' || i % 5), 0, now(), clock_timestamp() FROM generate_series($1::int, $2::int) i`,
		"yantra": `INSERT INTO outbox_messages SELECT ('00000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid, 'g' || i % 5, 'A', 't', json_build_object('n', i, 'group', 'g' || i % 5), 'pending',
			clock_timestamp() FROM generate_series($1::int, $2::int) i`,
	} {
		for outcome, err := range map[string]error{"arrives": nil, "fails": errors.New("not now")} {
			t.Run(layout+"/"+outcome, func(t *testing.T) {
				t.Parallel()
				pauseWithoutClaims(t, layout, insert, err)
			})
		}
	}
}

func pauseWithoutClaims(t *testing.T, layout, insert string, outcome error) {
	url := testenv.Postgres(t)
	cfg := configured(t, `
sources: {app: {type: postgres, url: %q, layout: %s, poll: {max: 20ms}}}
routes: {work: {from: app, to: bus, middleware: [{retry: {attempts: 50, base: 20ms, max: 20ms}}]}}
`, url, layout)
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	defer pool.Close()
	const paused, each = "g3", 40 // messages of each group, at a time
	others := []string{"g0", "g1", "g2", "g4"}
	write := func(round int) {
		t.Helper()
		_, err := pool.Exec(t.Context(), insert, round*5*each, (round+1)*5*each-1)
		must(t, err)
	}
	g, log := newGate(), &logged{}
	run := func() (stop func()) {
		t.Helper()
		o, err := outrider.New(cfg, outrider.WithDestination("bus", g), outrider.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- o.Run(ctx) }()
		return sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	arrived := func(what string, n int, groups ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d of %s have arrived", n, what), func() bool { return g.of(groups...) >= n })
	}

	stop := run()
	defer stop()
	write(0)
	arrived("all", 5*each, append(others, paused)...)
	g.mu.Lock()
	g.kept = paused
	name := g.names[paused]
	g.mu.Unlock()
	write(1)
	<-g.entered
	asOperator(t, cfg, func(op *operate.Operator) {
		_, err := op.Pause(t.Context(), adapters.Pause{Route: "work", Group: name})
		must(t, err)
	})
	eventually(t, "the relay obeys", func() bool { return log.count("paused groups have changed") == 1 })
	g.mu.Lock()
	g.shut = paused
	g.mu.Unlock()
	g.leave <- outcome
	arrived("the others", 2*4*each, others...)
	stop()
	rested := g.of(paused)
	stop = run()
	defer stop()
	write(2)
	arrived("the others", 3*4*each, others...)
	g.mu.Lock()
	if g.wrong > 0 || len(g.got[paused]) != rested {
		t.Errorf("%d messages of the paused group were sent", g.wrong)
	}
	g.shut = ""
	g.mu.Unlock()
	asOperator(t, cfg, func(op *operate.Operator) {
		_, err := op.Resume(t.Context(), adapters.Pause{Route: "work", Group: name, By: "test"})
		must(t, err)
	})
	arrived("the group", 3*each, paused)
	stop()
	for group, got := range g.got {
		if len(got) != 3*each || !slices.IsSorted(got) {
			t.Errorf("group %s got %d messages, want %d in order: %v", group, len(got), 3*each, got)
		}
	}
}
