package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// step is one event in the life of a router.
type step struct {
	kind string
	wait time.Duration // afterwards
	rows int           // for "write"
}

// scenario is all that is random about a run of the model.
type scenario struct {
	ordering     adapters.Ordering
	order        adapters.OrderMode
	window       int
	groups       int
	addresses    int
	slow         bool
	deliverFirst bool          // chains run after deliveries, and do nothing of their own
	once         bool          // the receiver keeps notes: nothing arrives twice
	grave        bool          // dead messages go to a poison destination
	faults       int           // of ten messages, so many fail in some way
	reading      time.Duration // that it takes to read parked messages
	seed         uint64
	steps        []step
}

func drawScenario(t *rapid.T) scenario {
	sc := scenario{
		order:        rapid.SampledFrom([]adapters.OrderMode{adapters.OrderGroup, adapters.OrderGroup, adapters.OrderNone, adapters.OrderGlobal}).Draw(t, "order"),
		window:       rapid.IntRange(4, 64).Draw(t, "window"),
		groups:       rapid.IntRange(1, 12).Draw(t, "groups"),
		addresses:    rapid.IntRange(1, 3).Draw(t, "addresses"),
		slow:         rapid.Bool().Draw(t, "slow"),
		deliverFirst: rapid.Bool().Draw(t, "deliverFirst"),
		once:         rapid.Bool().Draw(t, "once"),
		grave:        rapid.Bool().Draw(t, "grave"),
		faults:       rapid.IntRange(0, 6).Draw(t, "faults"),
		reading:      time.Duration(rapid.SampledFrom([]int{0, 10, 300}).Draw(t, "reading")) * time.Millisecond,
		seed:         rapid.Uint64().Draw(t, "seed"),
	}
	sc.ordering = rapid.SampledFrom([]adapters.Ordering{
		{}, {Unit: adapters.UnitWave, MaxMessages: 50}, {Unit: adapters.UnitGroup, MaxMessages: 8, MaxRequests: 4},
		{Unit: adapters.UnitGroup, MaxMessages: 5, MaxGroups: 1},
	}).Draw(t, "unit")
	if sc.once { // one transaction after the other
		sc.slow = false
	}
	sc.ordering.Static = sc.addresses == 1 && rapid.Bool().Draw(t, "static")
	for range rapid.IntRange(1, 8).Draw(t, "steps") {
		sc.steps = append(sc.steps, step{
			kind: rapid.SampledFrom([]string{"write", "write", "write", "restart", "crash", "outage", "pause", "command", "skip", "skip", "skip"}).Draw(t, "kind"),
			wait: time.Duration(rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 3000)).Draw(t, "wait")) * time.Millisecond,
			rows: rapid.IntRange(1, 80).Draw(t, "rows"),
		})
	}
	return sc
}

// run plays a scenario and returns what went wrong.
type run struct {
	scenario
	world   *world
	source  *memSource
	state   *memState
	random  *rand.Rand
	lent    *lending
	crashes int

	begun     time.Time // the present instance, or its sessions
	commanded time.Time // when there was a command
	parking   parkingWatch
	router    *Router
	untold    []HotRows // inserts of whose commit nothing was heard

	link   *link
	store  *mortal
	cancel context.CancelFunc
	done   chan error
}

func newRun(sc scenario) *run {
	r := &run{scenario: sc, source: &memSource{}, state: newMemState(), random: rand.New(rand.NewPCG(sc.seed, 1))}
	r.world = &world{ordering: sc.ordering, slow: sc.slow, random: rand.New(rand.NewPCG(sc.seed, 2)),
		inLane: map[string][]error{}, outside: map[string][]error{}, charged: map[string]int{}, ledgers: ledgers{}, skipped: map[string]time.Time{}}
	r.lent = &lending{}
	r.parking = parkingWatch{state: r.state, known: known, overdue: map[overdueKey]time.Time{}, complain: func(format string, args ...any) {
		r.world.mu.Lock()
		defer r.world.mu.Unlock()
		r.world.complain(format, args...)
	}}
	r.source.lending, r.state.lending = r.lent, r.lent
	if sc.grave {
		r.world.poisoned = map[string]int{}
	}
	r.state.writing = r.world.checkParked
	return r
}

// script decides how a message will fail before it arrives. There are fewer
// failures than attempts, so only permanent ones end dead.
func (r *run) script() []error {
	var out []error
	if r.random.IntN(10) >= r.faults {
		return nil
	}
	for range 1 + r.random.IntN(3) {
		cause := errors.New("injected")
		out = append(out, []error{
			outbox.Transient(cause, 0),
			outbox.Transient(cause, 1500*time.Millisecond),
			outbox.Unavailable(cause, 0),
			outbox.Released(cause),
			outbox.Permanent(cause),
		}[r.random.IntN(5)])
	}
	return out
}

func (r *run) write(n int) {
	for range n {
		group := ""
		if g := r.random.IntN(r.groups + 1); g > 0 {
			group = fmt.Sprintf("g%d", g)
		}
		r.writeTo(group)
	}
	r.hearOf()
}

// writeTo writes a message of a group.
func (r *run) writeTo(group string) {
	row := &adapters.Row{ID: fmt.Sprintf("m%d", len(r.source.rows)), Type: "t", Group: group, Payload: []byte(`{}`), CreatedAt: time.Now()}
	row.Headers = map[string]string{"address": fmt.Sprintf("a%d", numberOf(group)%r.addresses)}
	r.world.mu.Lock()
	r.world.outside[row.ID] = r.script()
	if r.random.IntN(4) == 0 && !r.deliverFirst {
		r.world.inLane[row.ID] = r.script()
	}
	r.world.mu.Unlock()
	if r.random.IntN(2) == 0 { // the hot path meets polls and all else
		r.publish(row)
		return
	}
	r.source.add(row)
}

func (r *run) start() error {
	r.link, r.store = &link{world: r.world}, &mortal{memState: r.state, reading: r.reading}
	route := Route{
		Name: "orders", Source: r.source, State: r.store, Destination: r.link, Order: r.order, Window: r.window,
		Poll: Poll{Max: 200 * time.Millisecond},
	}
	if r.once {
		route.Destination = noted{r.link}
	}
	r.world.equip(&route, r.deliverFirst)
	if r.grave {
		route.Poison, route.PoisonName = tomb{r.link}, "tomb"
	}
	rt, err := New(Config{Logger: slog.New(slog.DiscardHandler), DrainTimeout: 10 * time.Second}, []Route{route})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.router, r.begun = rt, time.Now()
	r.cancel, r.done = cancel, make(chan error, 1)
	go func() { r.done <- rt.Run(ctx) }()
	return nil
}

func (r *run) stop() error {
	r.cancel()
	return <-r.done
}

// play carries out one step.
func (r *run) play(s step) error {
	switch s.kind {
	case "write":
		r.write(s.rows)
	case "restart":
		if err := r.stop(); err != nil {
			return err
		}
		if err := r.start(); err != nil {
			return err
		}
	case "crash":
		r.link.cut.Store(true)
		r.store.dead.Store(true)
		r.state.evict()
		r.crashes++
		_ = r.stop() // an error only if there was something to settle
		if err := r.start(); err != nil {
			return err
		}
	case "outage":
		r.state.setFail(errors.New("the state store is down"))
		time.Sleep(s.wait)
		r.state.setFail(nil)
	case "pause":
		if _, err := r.state.Pause(context.Background(), adapters.Pause{Route: "orders"}); err != nil {
			return err
		}
		time.Sleep(2 * s.wait)
		r.begun, r.commanded = time.Now(), time.Now()
		if _, err := r.state.Resume(context.Background(), adapters.Pause{Route: "orders"}); err != nil {
			return err
		}
	case "command": // by which an operator changed nothing: everything parked is read anew
		r.state.mu.Lock()
		r.state.raise("orders")
		r.state.mu.Unlock()
		r.commanded = time.Now()
	case "skip":
		r.skip()
	}
	time.Sleep(s.wait)
	r.observe()
	return nil
}

// settledAll tells whether nothing is under way or parked alive.
func (r *run) settledAll() bool {
	parked, _ := r.state.ListParked(context.Background(), adapters.ParkedFilter{}, 1<<40)
	ended := map[string]bool{}
	for _, p := range parked {
		if p.Status != adapters.ParkedDead {
			return false
		}
		ended[p.ID] = true
	}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	for _, a := range r.world.arrivals {
		ended[a.id] = true
	}
	for id := range r.world.skipped {
		ended[id] = true
	}
	return len(ended) == len(r.source.rows)
}

func (r *run) all() error {
	if err := r.start(); err != nil {
		return err
	}
	for _, s := range r.steps {
		if err := r.play(s); err != nil {
			return err
		}
	}
	for end := time.Now().Add(patience); !r.settledAll() && time.Now().Before(end); {
		time.Sleep(500 * time.Millisecond)
		if r.random.IntN(8) == 0 {
			r.observe()
		}
	}
	time.Sleep(time.Second)
	r.observe()
	if err := r.stop(); err != nil {
		return err
	}
	parked, _ := r.state.ListParked(context.Background(), adapters.ParkedFilter{}, 1<<40)
	// The window holds what is not durably settled; half as much may have come
	// back from the parking.
	twice := r.crashes * (r.window + r.window/2)
	if r.once {
		twice = 0
	}
	return r.world.verify(r.source.rows, parked, r.order, twice)
}

// Whatever happens, in the end every message was delivered or is parked as
// dead, first deliveries of a group are in order, nothing comes twice without
// a crash, and nobody is charged for more failures than there were. What an
// operator skips ends, what is settled is referred to by nothing, and what is parked
// is found.
func TestG1_G2_G3_G13_RouterAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := drawScenario(rt)
		var err error
		synctest.Test(t, func(*testing.T) { err = newRun(sc).all() })
		if err != nil {
			rt.Fatal(err)
		}
	})
}
