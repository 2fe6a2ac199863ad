package router

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// queueFleet plays a queueScenario with several instances, which come, leave, die and
// lose their lanes.
type queueFleet struct {
	*queueRun
	members []*queueMember
	named   int
	cut     bool // deliveries were cut off: their outcome is unknown
}

// queueMember is one instance.
type queueMember struct {
	name   string
	link   *link
	store  *mortal
	queue  *memQueue
	router *Router
	cancel context.CancelFunc
	done   chan error
}

// fleetLease is short, so that it ends within a step.
const fleetLease = 4 * time.Second

func drawFleetScenario(t *rapid.T) queueScenario {
	sc := drawQueueScenario(t)
	sc.blind = false
	for i := range sc.steps {
		sc.steps[i].kind = rapid.SampledFrom([]string{"write", "write", "write", "join", "leave", "crash", "cut off", "outage", "stolen", "foreign", "evict"}).Draw(t, "event")
	}
	return sc
}

func (f *queueFleet) join() error {
	f.named++
	m := &queueMember{name: fmt.Sprint("i", f.named), link: &link{world: f.world}, store: &mortal{memState: f.state}, queue: f.table.open(), done: make(chan error, 1)}
	route := Route{
		Name: "jobs", Queue: m.queue, State: m.store, Destination: m.link, Order: f.order, Claims: f.claims,
		Poll: Poll{Max: 200 * time.Millisecond, Batch: f.batch},
	}
	f.world.equip(&route, f.deliverFirst)
	rt, err := New(Config{Logger: slog.New(slog.DiscardHandler), DrainTimeout: 10 * time.Second, Instance: m.name, Lease: fleetLease}, []Route{route})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.router, m.cancel = rt, cancel
	go func() { m.done <- rt.Run(ctx) }()
	f.members = append(f.members, m)
	return nil
}

// take removes a member, the last of which is followed by another one.
func (f *queueFleet) take() (*queueMember, error) {
	if len(f.members) == 1 {
		if err := f.join(); err != nil {
			return nil, err
		}
	}
	i := f.random.IntN(len(f.members))
	m := f.members[i]
	f.members = slices.Delete(f.members, i, i+1)
	return m, nil
}

func (m *queueMember) stop() error {
	m.cancel()
	return <-m.done
}

func (f *queueFleet) leave(m *queueMember) error {
	if err := m.stop(); err != nil && !f.broken && !f.cut {
		return err
	}
	if n := m.queue.holds(); n > 0 && !f.faulty.Load() && !f.cut {
		return fmt.Errorf("instance %s left, and %d rows are marked as being processed by it", m.name, n)
	}
	return nil
}

// crash ends a member at once. Its connection breaks, so others take its lanes.
func (f *queueFleet) crash(m *queueMember) {
	m.link.cut.Store(true)
	m.store.dead.Store(true)
	f.table.mu.Lock()
	m.queue.dead = true
	f.table.mu.Unlock()
	f.dupes += m.queue.holds()
	f.state.expire(m.name)
	_ = m.stop() // its errors follow from the crash
}

// cutOff takes the state store away from a member until its lease is over, while it
// reaches the table and the receiver: others take its lanes beside it.
func (f *queueFleet) cutOff(m *queueMember, d time.Duration) {
	f.cut = true
	m.store.dead.Store(true)
	time.Sleep(fleetLease/2 + d)
	m.store.dead.Store(false)
}

func (f *queueFleet) play(s step) error {
	switch s.kind {
	case "join":
		if len(f.members) < 3 {
			if err := f.join(); err != nil {
				return err
			}
		}
		time.Sleep(s.wait)
	case "leave", "crash":
		m, err := f.take()
		if err != nil {
			return err
		}
		if s.kind == "crash" {
			f.crash(m)
		} else if err := f.leave(m); err != nil {
			return err
		}
		time.Sleep(s.wait)
	case "cut off":
		f.cutOff(f.members[f.random.IntN(len(f.members))], s.wait)
	default:
		return f.queueRun.play(s)
	}
	return nil
}

func (f *queueFleet) all() error {
	for range 2 {
		if err := f.join(); err != nil {
			return err
		}
	}
	for _, s := range f.steps {
		if err := f.play(s); err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
	}
	for end := time.Now().Add(patience); !f.settledAll() && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Second)
	for _, m := range f.members {
		if err := f.leave(m); err != nil {
			return err
		}
		if _, problems := m.router.routes.All()[0].claimer.Inspect(); len(problems) > 0 {
			return fmt.Errorf("instance %s: %q", m.name, problems)
		}
	}
	if f.cut { // what was being sent may come again
		f.faulty.Store(true)
	}
	return f.verify()
}

// Whatever happens to the instances that share a queue, to their lanes and to their
// claims, every row arrives or is dead in the end, first deliveries of a group are in
// order, and nothing comes twice without a fault.
func TestG1_G2_G3_InstancesOfAQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := drawFleetScenario(rt)
		var err error
		synctest.Test(t, func(*testing.T) { err = (&queueFleet{queueRun: newQueueRun(sc)}).all() })
		if err != nil {
			rt.Fatal(err)
		}
	})
}
