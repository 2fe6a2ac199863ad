package router

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// world is what the property test's router works on: a destination and a
// middleware that fail by script, and the record of what arrived.
type world struct {
	ordering adapters.Ordering
	slow     bool // some deliveries take seconds

	mu       sync.Mutex
	random   *rand.Rand
	inLane   map[string][]error // failures of the middleware, per id
	outside  map[string][]error // failures of the destination, per id
	charged  map[string]int     // failures so far that may count as attempts
	arrivals []arrived
	skipped  map[string]time.Time
	poisoned map[string]int // what the poison destination got, by id; nil: there is none
	ledgers  ledgers
	problems []string
}

type arrived struct {
	id, group string
	position  int64
}

func (w *world) complain(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// next takes the next failure of a message from its script; a permanent one
// stays. Call with the mutex held.
func (w *world) next(script map[string][]error, id string) error {
	rest := script[id]
	if len(rest) == 0 {
		return nil
	}
	if outbox.KindOf(rest[0]) != outbox.KindPermanent {
		script[id] = rest[1:]
	}
	if k := outbox.KindOf(rest[0]); k == outbox.KindTransient || k == outbox.KindPermanent {
		w.charged[id]++
	}
	return rest[0]
}

// equip gives a route its middleware: the default alone, whose chains run after
// deliveries, or with one that fails messages before.
func (w *world) equip(rt *Route, deliverFirst bool) {
	rt.Attempts, rt.Middleware = 10, stack(50*time.Millisecond, 10)
	if deliverFirst {
		withDeliverFirst(rt)
	} else {
		rt.Middleware = append(rt.Middleware, w.middleware)
	}
}

// middleware fails messages before they come to the gate.
func (w *world) middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		w.mu.Lock()
		err := w.next(w.inLane, msg.UUID)
		pause := time.Duration(w.random.IntN(3)) * time.Millisecond
		w.mu.Unlock()
		time.Sleep(pause)
		if err != nil {
			return nil, err
		}
		return h(msg)
	}
}

// checkParked is called with every settlement that is written.
func (w *world) checkParked(s adapters.Settlement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range s.Park {
		if p.Attempts > w.charged[p.ID] {
			w.complain("%s is parked (%s) with %d attempts, but failed %d times", p.ID, p.Status, p.Attempts, w.charged[p.ID])
		}
	}
}

// deliver applies the scripts to a batch; cut tells that the process is dead.
func (w *world) deliver(ctx context.Context, batch []*message.Message, cut *atomic.Bool) []error {
	errs, arrivals := w.attempt(ctx, batch, cut)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrivals = append(w.arrivals, arrivals...)
	return errs
}

// attempt is what would arrive of a batch.
func (w *world) attempt(ctx context.Context, batch []*message.Message, cut *atomic.Bool) (errs []error, arrivals []arrived) {
	w.mu.Lock()
	for _, msg := range batch {
		w.checkSkipped(msg.UUID)
	}
	pause := time.Duration(w.random.IntN(20)) * time.Millisecond
	if w.slow && w.random.IntN(8) == 0 {
		pause = time.Duration(w.random.IntN(4000)) * time.Millisecond
	}
	w.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	errs = make([]error, len(batch))
	w.mu.Lock()
	defer w.mu.Unlock()
	blocked := map[string]bool{}
	collateral := false
	for i, msg := range batch {
		group := msg.Metadata[outbox.MetaGroup]
		switch {
		case cut.Load() || ctx.Err() != nil:
			errs[i] = outbox.Unavailable(errors.New("cut off"), 0)
		case collateral || group != "" && blocked[group]:
			errs[i] = outbox.Released(errors.New("collateral"))
		default:
			errs[i] = w.next(w.outside, msg.UUID)
		}
		if errs[i] != nil {
			blocked[group] = true
			collateral = collateral || w.random.IntN(3) == 0
			continue
		}
		position, _ := strconv.ParseInt(msg.Metadata[outbox.MetaPosition], 10, 64)
		arrivals = append(arrivals, arrived{msg.UUID, group, position})
	}
	return errs, arrivals
}

// link is one instance's connection to the world.
type link struct {
	*world
	cut atomic.Bool
}

func (l *link) Ordering() adapters.Ordering { return l.ordering }
func (l *link) Close() error                { return nil }
func (l *link) Address(msg *message.Message) (string, error) {
	return msg.Metadata["address"], nil
}
func (l *link) Deliver(ctx context.Context, _ string, batch []*message.Message) []error {
	return l.deliver(ctx, batch, &l.cut)
}

// tomb is one instance's connection to the world's poison destination, which
// fails at random.
type tomb struct{ *link }

func (t tomb) Deliver(_ context.Context, _ string, batch []*message.Message) []error {
	t.mu.Lock()
	dice, pause := t.random.IntN(8), time.Duration(t.random.IntN(3000))*time.Millisecond
	t.mu.Unlock()
	time.Sleep(pause)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.cut.Load(), dice == 0:
		return []error{outbox.Unavailable(errors.New("the poison destination is away"), 0)}
	case dice == 1:
		return []error{errors.New("the poison destination fails")}
	}
	t.poisoned[batch[0].UUID]++
	return nil
}

// checkPoisoned tells of dead messages that the poison destination has not got.
// Call with the mutex held.
func (w *world) checkPoisoned(parked []adapters.Parked, dupes bool) {
	if w.poisoned == nil {
		return
	}
	for _, p := range parked {
		if n := w.poisoned[p.ID]; n == 0 || n > 1 && !dupes {
			w.complain("%s is dead, and the poison destination got it %d times", p.ID, n)
		}
	}
}

// mortal is one instance's connection to the state store.
type mortal struct {
	*memState
	dead    atomic.Bool
	reading time.Duration // that it takes to read parked messages
}

var errDead = errors.New("the process is dead")

func (m *mortal) Settle(ctx context.Context, all []adapters.Settlement) ([]adapters.LaneRef, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	return m.memState.Settle(ctx, all)
}

// ParkedQueue takes a while: operators are faster.
func (m *mortal) ParkedQueue(ctx context.Context, ref adapters.LaneRef, group string, after int64, limit int, bytes int64) ([]adapters.Parked, error) {
	time.Sleep(m.reading / 2)
	rows, err := m.memState.ParkedQueue(ctx, ref, group, after, limit, bytes)
	time.Sleep(m.reading / 2)
	return rows, err
}

func (m *mortal) Renew(ctx context.Context, instance string, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	return m.memState.Renew(ctx, instance, lease)
}

func (m *mortal) Acquire(ctx context.Context, instance, route string, slots []int, most int) ([]adapters.LaneState, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	return m.memState.Acquire(ctx, instance, route, slots, most)
}

func (m *mortal) Leave(ctx context.Context, instance string) error {
	if m.dead.Load() {
		return errDead
	}
	return m.memState.Leave(ctx, instance)
}

// verify compares what arrived with what was written.
func (w *world) verify(rows []*adapters.Row, parked []adapters.Parked, order adapters.OrderMode, dupes int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, last, again := map[string]bool{}, map[string]int64{}, map[int]int{}
	for _, a := range w.arrivals {
		if seen[a.id] {
			again[adapters.SlotOf(a.group, a.id)]++
			continue
		}
		seen[a.id] = true
		key := a.group
		if order == adapters.OrderGlobal {
			key = lane.GlobalKey
		}
		if key == "" || order == adapters.OrderNone {
			continue
		}
		if a.position < last[key] {
			w.complain("%s (position %d) arrived after position %d of its group %q", a.id, a.position, last[key], key)
		}
		last[key] = max(last[key], a.position)
	}
	w.checkPoisoned(parked, dupes > 0)
	for slot, n := range again {
		if n > dupes {
			w.complain("%d messages of slot %d came twice, at most %d may", n, slot, dupes)
		}
	}
	for _, p := range parked {
		if p.Status != adapters.ParkedDead {
			w.complain("%s is still parked: %s", p.ID, p.Status)
		}
		if seen[p.ID] {
			w.complain("%s was delivered and is parked as dead", p.ID)
		}
		seen[p.ID] = true
	}
	for _, row := range rows {
		if _, skipped := w.skipped[row.ID]; !seen[row.ID] && !skipped {
			w.complain("%s is lost", row.ID)
		}
	}
	if len(w.problems) > 0 {
		return errors.New(fmt.Sprint(len(w.problems), " problems: ", slices.Compact(w.problems[:min(len(w.problems), 8)])))
	}
	return nil
}
