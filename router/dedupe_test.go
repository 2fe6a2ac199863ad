package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// eventStore is a DedupeStore that outlives routers, takes its time and fails.
type eventStore struct {
	mu     sync.Mutex
	random *rand.Rand
	known  map[adapters.EventRef]bool
	faults int // of a hundred calls, so many fail
	down   bool
}

func (e *eventStore) answer() error {
	e.mu.Lock()
	pause, fails := time.Duration(e.random.IntN(4))*time.Millisecond, e.down || e.random.IntN(100) < e.faults
	e.mu.Unlock()
	time.Sleep(pause)
	if fails {
		return errors.New("the store is down")
	}
	return nil
}

func (e *eventStore) setDown(down bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = down
}

func (e *eventStore) Seen(_ context.Context, events []adapters.EventRef) ([]bool, error) {
	if err := e.answer(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]bool, len(events))
	for i, event := range events {
		out[i] = e.known[event]
	}
	return out, nil
}

func (e *eventStore) Record(_ context.Context, events []adapters.SeenEvent) error {
	if err := e.answer(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range events {
		e.known[s.EventRef] = true
	}
	return nil
}

func (e *eventStore) Expire(context.Context, int) (int, error) { return 0, nil }

// twinWorld writes rows of which several have the same id, fails them by
// script, each row by its own, and checks what arrived.
type twinWorld struct {
	scenario
	*world
	source *memSource
	state  *memState
	events *eventStore
	inside bool           // the dedupe is innermost, not outermost
	kept   map[string]int // messages that a middleware kept, by id
	cancel context.CancelFunc
	done   chan error
}

func newTwinWorld(sc scenario, inside bool) *twinWorld {
	w := &world{ordering: sc.ordering, slow: sc.slow, random: rand.New(rand.NewPCG(sc.seed, 2)),
		inLane: map[string][]error{}, outside: map[string][]error{}, charged: map[string]int{}}
	return &twinWorld{scenario: sc, world: w, source: &memSource{}, state: newMemState(), inside: inside, kept: map[string]int{},
		events: &eventStore{random: rand.New(rand.NewPCG(sc.seed, 3)), known: map[adapters.EventRef]bool{}, faults: sc.faults}}
}

func rowKey(msg *message.Message) string { return "row" + msg.Metadata[outbox.MetaPosition] }

// write adds rows with ids of which each comes about three times.
func (w *twinWorld) write(n int) {
	script := &run{scenario: w.scenario, random: w.random}
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		g := w.random.IntN(w.groups + 1)
		row := &adapters.Row{ID: fmt.Sprintf("e%d", w.random.IntN(len(w.source.rows)/3+2)), Type: "t", Payload: []byte(`{}`),
			Headers: map[string]string{"address": fmt.Sprintf("a%d", g%w.addresses)}}
		if g > 0 {
			row.Group = fmt.Sprintf("g%d", g)
		}
		key := fmt.Sprintf("row%d", len(w.source.rows)+1)
		w.outside[key] = script.script()
		if w.random.IntN(4) == 0 {
			w.inLane[key] = script.script()
		}
		w.source.add(row)
	}
}

// dally delays a message at random, so that twins come in any order.
func (w *twinWorld) dally(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		w.mu.Lock()
		pause := time.Duration(w.random.IntN(30)) * time.Millisecond
		w.mu.Unlock()
		time.Sleep(pause)
		return h(msg)
	}
}

// fail fails messages before or after their delivery, or keeps them.
func (w *twinWorld) fail(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		w.mu.Lock()
		err, late := w.next(w.inLane, rowKey(msg)), w.random.IntN(20) == 0
		keep := w.faults > 0 && msg.Metadata[outbox.MetaPosition] == "7"
		if keep {
			w.kept[msg.UUID]++
		}
		w.mu.Unlock()
		switch {
		case keep:
			return nil, nil
		case err != nil:
			return nil, err
		}
		produced, err := h(msg)
		if late && err == nil {
			err = errors.New("after the delivery")
		}
		return produced, err
	}
}

// twinLink is a destination that takes rows by their own script.
type twinLink struct{ *twinWorld }

func (l twinLink) Ordering() adapters.Ordering { return l.world.ordering }
func (l twinLink) Close() error                { return nil }
func (l twinLink) Address(msg *message.Message) (string, error) {
	return msg.Metadata["address"], nil
}

func (l twinLink) Deliver(_ context.Context, _ string, batch []*message.Message) []error {
	l.mu.Lock()
	pause := time.Duration(l.random.IntN(20)) * time.Millisecond
	if l.world.slow && l.random.IntN(8) == 0 {
		pause = time.Duration(l.random.IntN(4000)) * time.Millisecond
	}
	l.mu.Unlock()
	time.Sleep(pause)
	l.mu.Lock()
	defer l.mu.Unlock()
	errs, blocked := make([]error, len(batch)), map[string]bool{}
	for i, msg := range batch {
		g := msg.Metadata[outbox.MetaGroup]
		if g != "" && blocked[g] {
			errs[i] = outbox.Released(errors.New("collateral"))
		} else if errs[i] = l.next(l.outside, rowKey(msg)); errs[i] == nil {
			position, _ := strconv.ParseInt(msg.Metadata[outbox.MetaPosition], 10, 64)
			l.arrivals = append(l.arrivals, arrived{msg.UUID, g, position})
		}
		blocked[g] = blocked[g] || errs[i] != nil
	}
	return errs
}

func (w *twinWorld) start() error {
	dedupe := &middleware.Dedupe{Store: w.events, Logger: slog.New(slog.DiscardHandler)}
	mws := []message.HandlerMiddleware{w.dally}
	if !w.inside {
		mws = append(mws, dedupe.Middleware)
	}
	mws = append(mws, stack(50*time.Millisecond, 10)...)
	if w.inside {
		mws = append(mws, dedupe.Middleware)
	}
	rt, err := New(Config{Logger: slog.New(slog.DiscardHandler), DrainTimeout: time.Minute}, []Route{{
		Name: "orders", Source: w.source, State: w.state, Destination: twinLink{w}, Order: w.order, Window: w.window,
		Attempts: 10, Middleware: append(mws, w.dally, w.fail), Poll: Poll{Max: 200 * time.Millisecond},
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.done = cancel, make(chan error, 1)
	go func() { w.done <- rt.Run(ctx) }()
	return nil
}

func (w *twinWorld) stop() error {
	w.cancel()
	return <-w.done
}

// dead returns how many rows of each id are parked as dead, and whether all
// rows are settled.
func (w *twinWorld) dead() (ids map[string]int, settled bool) {
	parked, _ := w.state.ListParked(context.Background(), adapters.ParkedFilter{}, 1<<40)
	ids = map[string]int{}
	for _, p := range parked {
		if p.Status != adapters.ParkedDead {
			return nil, false
		}
		ids[p.ID]++
	}
	w.state.mu.Lock()
	defer w.state.mu.Unlock()
	for _, row := range w.source.rows {
		lane := w.state.lanes[adapters.LaneRef{Route: "orders", Slot: row.Slot}]
		if lane == nil || lane.Cursor.Position < row.Position {
			return nil, false
		}
	}
	return ids, true
}

func (w *twinWorld) all() error {
	if err := w.start(); err != nil {
		return err
	}
	for _, s := range w.steps {
		switch s.kind {
		case "write":
			w.write(s.rows)
		case "outage":
			w.events.setDown(true)
			time.Sleep(s.wait)
			w.events.setDown(false)
		default:
			if err := errors.Join(w.stop(), w.start()); err != nil {
				return err
			}
		}
		time.Sleep(s.wait)
	}
	settled := false
	for end := time.Now().Add(patience); !settled && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, settled = w.dead()
	}
	if err := w.stop(); err != nil {
		return err
	}
	if !settled {
		return fmt.Errorf("not settled within %v: %d of %d rows arrived", patience, len(w.arrivals), len(w.source.rows))
	}
	return w.verify()
}

// verify compares what arrived with what was written: of each id one row
// arrived, or none because all were dead or kept; each group's in their order.
func (w *twinWorld) verify() error {
	dead, _ := w.dead()
	w.mu.Lock()
	defer w.mu.Unlock()
	times, rows, last := map[string]int{}, map[string]int{}, map[string]int64{}
	for _, a := range w.arrivals {
		times[a.id]++
		key := a.group
		if w.order == adapters.OrderGlobal {
			key = lane.GlobalKey
		}
		if key != "" && w.order != adapters.OrderNone && a.position < last[key] {
			w.complain("%s (position %d) arrived after position %d of %q", a.id, a.position, last[key], key)
		}
		last[key] = a.position
	}
	for _, row := range w.source.rows {
		rows[row.ID]++
	}
	for id, n := range rows {
		switch {
		case times[id] > 1:
			w.complain("%s arrived %d times", id, times[id])
		case times[id] == 0 && dead[id]+min(w.kept[id], 1) < n:
			w.complain("%s is lost: of %d rows %d are dead", id, n, dead[id])
		}
	}
	if len(w.problems) > 0 {
		return errors.New(fmt.Sprint(len(w.problems), " problems: ", slices.Compact(w.problems[:min(len(w.problems), 8)])))
	}
	return nil
}

// Twins of one group and of several, delayed at random on their way, failing
// before, at and after their delivery, through drains and outages of the store:
// every id arrives once, nothing stands still, and order is kept.
func TestG1_G2_G3_DedupeAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc, inside := drawScenario(rt), rapid.Bool().Draw(rt, "inside")
		var err error
		synctest.Test(t, func(*testing.T) { err = newTwinWorld(sc, inside).all() })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// The probe of an address that is down may be a twin of a message that waits
// at the gate behind another one that waits for the address: it gives up its
// turn, so that the other becomes the probe.
func TestG1_DedupeOfAProbe(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		var failed sync.Map
		r.dest.fail = func(_ string, msg *message.Message) error {
			key := msg.UUID + msg.Metadata[outbox.MetaGroup]
			if key == "zG" {
				time.Sleep(50 * time.Millisecond) // the twin fails first and will be the probe
			}
			if _, again := failed.LoadOrStore(key, true); again || key == "xG" {
				return nil
			}
			return outbox.Unavailable(errors.New("down"), 0)
		}
		late := func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				if a, _ := outbox.AttemptOf(msg.Context()); msg.UUID+msg.Metadata[outbox.MetaGroup] == "xG" && a.Number == 1 {
					time.Sleep(100 * time.Millisecond)
				}
				return h(msg)
			}
		}
		dedupe := &middleware.Dedupe{Logger: slog.New(slog.DiscardHandler)}
		r.addTo("a", "G", "z")
		r.addTo("a", "G", "x")
		r.addTo("a", "H", "x")
		r.start(r.route(func(def *Route) {
			def.Middleware = append([]message.HandlerMiddleware{late, dedupe.Middleware}, def.Middleware...)
		}))
		r.await(2)
		time.Sleep(time.Minute)
		r.stop()
		if got := r.dest.received(); !slices.Equal(got["G"], []string{"z", "x"}) || len(got["H"]) > 0 {
			t.Errorf("received %v", got)
		}
	})
}
