package router

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
)

var (
	wave      = adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: 500, Static: true}
	group     = adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 10}
	templated = adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 10, MaxRequests: 1000}
)

// stack is the default middleware.
func stack(base time.Duration, attempts int) []message.HandlerMiddleware {
	out := []message.HandlerMiddleware{
		middleware.Poison{}.Middleware,
		middleware.Retry{Attempts: attempts, Base: base, Jitter: middleware.NoJitter}.Middleware,
		middleware.Timeout{}.Middleware,
	}
	stacks.Store(&out[0], true)
	return out
}

// stacks knows the first element of what stack has made: with anything appended
// it is another one.
var stacks sync.Map

// withDeliverFirst has a route with nothing but the default middleware run its chains
// when deliveries are over; false when it is another one.
func withDeliverFirst(rt *Route) bool {
	if len(rt.Middleware) == 0 {
		return false
	}
	_, ours := stacks.Load(&rt.Middleware[0])
	if ours {
		rt.DeliverFirst, rt.Middleware = true, rt.Middleware[:2:2] // the limit of the third is the route's
	}
	return ours
}

// rig is a router under test with everything around it in memory, in a bubble
// of its own time.
type rig struct {
	t      *testing.T
	source *memSource
	state  *memState
	dest   *receiver
	config Config
	router *Router

	deliverFirst bool // of routes with the default middleware

	cancel context.CancelFunc
	done   chan error
}

// inBubble runs a test with a rig, in virtual time, once with chains that wait
// for their deliveries and once with such as run after them.
func inBubble(t *testing.T, o adapters.Ordering, f func(r *rig)) {
	t.Helper()
	t.Parallel()
	for name, deliverFirst := range map[string]bool{"chains": false, "deliverFirst": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, o)
				r.deliverFirst = deliverFirst
				f(r)
			})
		})
	}
}

func newRig(t *testing.T, o adapters.Ordering) *rig {
	return &rig{t: t, source: &memSource{}, state: newMemState(), dest: &receiver{ordering: o},
		config: Config{Logger: slog.New(slog.DiscardHandler)}}
}

func (r *rig) route(change func(*Route)) Route {
	def := Route{Name: "orders", Source: r.source, State: r.state, Destination: r.dest,
		Middleware: stack(10*time.Millisecond, 10), Poll: Poll{Max: 100 * time.Millisecond}}
	if change != nil {
		change(&def)
	}
	return def
}

func (r *rig) start(routes ...Route) {
	r.t.Helper()
	if r.deliverFirst {
		different := false
		for i := range routes {
			different = withDeliverFirst(&routes[i]) || different
		}
		if !different {
			r.t.Skip("no route of this test has just the default middleware: it was tested with chains")
		}
	}
	rt, err := New(r.config, routes)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.router, r.cancel, r.done = rt, cancel, make(chan error, 1)
	go func() { r.done <- rt.Run(ctx) }()
	r.t.Cleanup(cancel)
}

func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	if err := <-r.done; err != nil {
		r.t.Fatal(err)
	}
}

// patience is how long (in virtual time) a test waits for what must happen.
const patience = 10 * time.Minute

// until waits for a condition, in virtual time.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.cancel()
			err := <-r.done
			r.t.Fatalf("%s: not within %v; %d messages have arrived, parked: %v; Run returned %v", what, patience, r.dest.count(),
				brief(r.parked()[:min(len(r.parked()), 8)]), err)
		}
	}
}

// await returns when n messages have arrived.
func (r *rig) await(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d messages", n), func() bool { return r.dest.count() >= n })
}

// parked returns the parked rows by id.
func (r *rig) parked() []adapters.Parked {
	rows, _ := r.state.ListParked(context.Background(), adapters.ParkedFilter{}, 1<<40)
	slices.SortFunc(rows, func(a, b adapters.Parked) int { return cmp.Compare(a.ID, b.ID) })
	return rows
}

// brief shows parked rows as "id status attempts".
func brief(rows []adapters.Parked) []string {
	out := []string{}
	for _, p := range rows {
		out = append(out, fmt.Sprintf("%s %s %d", p.ID, p.Status, p.Attempts))
	}
	return out
}

// wantParked checks the parked rows, given as brief shows them.
func (r *rig) wantParked(want ...string) {
	r.t.Helper()
	if got := brief(r.parked()); !slices.Equal(got, append([]string{}, want...)) {
		r.t.Errorf("parked: %q, want %q", got, want)
	}
}

// add writes one message.
func (r *rig) add(group, id string) {
	r.source.add(&adapters.Row{ID: id, Type: "t", Group: group, Payload: []byte(`{}`), CreatedAt: time.Now()})
}

// addTo writes one message for an address.
func (r *rig) addTo(address, group, id string) {
	r.source.add(&adapters.Row{ID: id, Type: "t", Group: group, Payload: []byte(`{}`), CreatedAt: time.Now(),
		Headers: map[string]string{"address": address}})
}

// fill writes n messages to each of so many groups, interleaved.
func (r *rig) fill(groups, n int) { r.fillFrom(groups, 0, n) }

// fillFrom writes messages from..to-1 of each group.
func (r *rig) fillFrom(groups, from, to int) {
	for i := from; i < to; i++ {
		for g := range groups {
			r.add(fmt.Sprintf("g%d", g), fmt.Sprintf("g%d-%d", g, i))
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

// sameLane returns n group names of one slot.
func sameLane(n int) []string {
	var out []string
	for i := 0; len(out) < n; i++ {
		if g := fmt.Sprintf("k%d", i); adapters.SlotOf(g, "") == 3 {
			out = append(out, g)
		}
	}
	return out
}
