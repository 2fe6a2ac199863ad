package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	wave  = outbox.Ordering{Unit: outbox.UnitWave, MaxMessages: 500, Static: true}
	group = outbox.Ordering{Unit: outbox.UnitGroup, MaxMessages: 10}
)

// stack is the default middleware.
func stack(base time.Duration, attempts int) []message.HandlerMiddleware {
	return []message.HandlerMiddleware{
		middleware.Poison{}.Middleware,
		middleware.Retry{Attempts: attempts, Base: base, Jitter: middleware.NoJitter}.Middleware,
		middleware.Timeout{}.Middleware,
	}
}

// rig is a router under test with everything around it in memory.
type rig struct {
	t      *testing.T
	source *memSource
	state  *memState
	dest   *receiver
	router *Router
	cancel context.CancelFunc
	done   chan error
}

func newRig(t *testing.T, o outbox.Ordering) *rig {
	return &rig{t: t, source: &memSource{}, state: newMemState(), dest: newReceiver(o)}
}

func (r *rig) route(change func(*Route)) Route {
	def := Route{Name: "orders", Source: r.source, State: r.state, Destination: r.dest,
		Middleware: stack(10*time.Millisecond, 10), Poll: Poll{Max: 10 * time.Millisecond}}
	if change != nil {
		change(&def)
	}
	return def
}

func (r *rig) start(routes ...Route) {
	r.t.Helper()
	rt, err := New(Config{Logger: slog.New(slog.DiscardHandler)}, routes)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.router, r.cancel, r.done = rt, cancel, make(chan error, 1)
	go func() { r.done <- rt.Run(ctx) }()
	r.t.Cleanup(r.cancel)
}

func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	if err := <-r.done; err != nil {
		r.t.Fatal(err)
	}
}

// fill writes n messages to each of so many groups, interleaved.
func (r *rig) fill(groups, n int) {
	for i := range n {
		for g := range groups {
			r.source.add(&outbox.Row{ID: fmt.Sprintf("g%d-%d", g, i), Type: "t", Group: fmt.Sprintf("g%d", g),
				Payload: []byte(`{}`), CreatedAt: time.Now()})
		}
	}
}

// checkOrdered checks that each group got exactly its n messages, in order.
func (r *rig) checkOrdered(groups, n int) {
	r.t.Helper()
	got := r.dest.received()
	for g := range groups {
		var want []string
		for i := range n {
			want = append(want, fmt.Sprintf("g%d-%d", g, i))
		}
		if name := fmt.Sprintf("g%d", g); !slices.Equal(got[name], want) {
			r.t.Errorf("group %s: got %v, want %v", name, got[name], want)
		}
	}
}

func TestG2_DeliversInOrder(t *testing.T) {
	for name, o := range map[string]outbox.Ordering{"wave": wave, "group": group, "single": {}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, o)
			r.fill(50, 100)
			r.start(r.route(nil))
			r.dest.await(5000)
			r.fill(0, 0)
			r.stop()
			r.checkOrdered(50, 100)
		})
	}
}

// flaky fails each message once, with the given error.
func flaky(err error) func(string, *message.Message) error {
	var mu sync.Mutex
	seen := map[string]bool{}
	return func(_ string, msg *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if len(msg.UUID)%2 == 0 && !seen[msg.UUID] {
			seen[msg.UUID] = true
			return err
		}
		return nil
	}
}

func TestG2_FailuresKeepTheOrder(t *testing.T) {
	for name, err := range map[string]error{
		"transient":   errors.New("try again"),
		"unavailable": outbox.Unavailable(errors.New("refused"), 0),
		"released":    outbox.Released(errors.New("not now")),
	} {
		for unit, o := range map[string]outbox.Ordering{"wave": wave, "group": group} {
			t.Run(name+"/"+unit, func(t *testing.T) {
				r := newRig(t, o)
				r.dest.setFail(flaky(err))
				r.fill(5, 10)
				r.start(r.route(nil))
				r.dest.await(50)
				r.stop()
				r.checkOrdered(5, 10)
			})
		}
	}
}

func TestG2_LongRetriesAreParkedWithTheirGroup(t *testing.T) {
	r := newRig(t, wave)
	r.dest.setFail(func() func(string, *message.Message) error {
		var mu sync.Mutex
		failed := false
		return func(_ string, msg *message.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if msg.UUID == "g1-3" && !failed {
				failed = true
				return outbox.Transient(errors.New("later"), 1500*time.Millisecond)
			}
			return nil
		}
	}())
	r.fill(4, 20)
	r.start(r.route(nil))
	r.dest.await(3*20 + 3)
	r.dest.await(80)
	r.stop()
	r.checkOrdered(4, 20)
	if left, _ := r.state.ListParked(context.Background(), outbox.ParkedFilter{}); len(left) != 0 {
		t.Errorf("parked rows are left: %v", left)
	}
}

func TestG1_PermanentFailuresAreDeadAndTheGroupGoesOn(t *testing.T) {
	r := newRig(t, wave)
	r.dest.setFail(func(_ string, msg *message.Message) error {
		if msg.UUID == "g1-3" {
			return outbox.Permanent(errors.New("no such field"))
		}
		return nil
	})
	r.fill(3, 10)
	r.start(r.route(nil))
	r.dest.await(29)
	r.stop()
	parked, _ := r.state.ListParked(context.Background(), outbox.ParkedFilter{})
	if len(parked) != 1 || parked[0].ID != "g1-3" || parked[0].Status != outbox.ParkedDead || parked[0].Attempts != 1 {
		t.Errorf("parked: %+v", parked)
	}
}

func TestG3_RestartDuplicatesNothing(t *testing.T) {
	r := newRig(t, group)
	r.fill(20, 50)
	for i := range 10 {
		r.start(r.route(func(rt *Route) { rt.Window = 64 }))
		r.dest.await(100 * (i + 1))
		r.stop()
	}
	r.checkOrdered(20, 50)
}
