package parkedgroup

import (
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

var soon = time.Unix(1_000_000, 0)

// fixture is a group with three messages, of which the third is being sent when the group is parked.
type fixture struct {
	Groups
	g                   *Group
	first, second, sent Member
	woken               int
}

func newFixture(count int) *fixture {
	f := &fixture{}
	f.Groups = New(func() { f.woken++ })
	f.g = f.Open(Key{Group: "a"}, 3, soon, false)
	for _, m := range []*Member{&f.first, &f.second}[:count] {
		f.g.Store(m)
	}
	f.Again(f.g, soon)
	return f
}

func (f *fixture) load() {
	if g, _, ok := f.Next(); ok {
		f.Load(g, 10)
	}
}

func (f *fixture) enterBoth() {
	f.load()
	f.g.Loaded()
	f.g.Enter(&f.first)
	f.g.Enter(&f.second)
}

func (f *fixture) settle(m *Member) {
	f.g.Leave(m)
	f.g.Settle(m)
	f.Changed(f.g)
}

// Each transition of a parked group in ARCHITECTURE.md, and whether fresh messages may enter the lane behind it.
func TestTheStatesOfAParkedGroup(t *testing.T) {
	t.Parallel()
	held := func(f *fixture) { f.load(); f.g.Loaded(); f.g.Hold() }
	blocked := func(f *fixture) { f.g.Block(&f.sent); f.g.Block(&f.sent) }
	for name, c := range map[string]struct {
		from    func(*fixture)
		state   State
		do      func(*fixture)
		want    State
		allHere bool
	}{
		"waiting: due":                     {nil, Waiting, func(f *fixture) { f.load() }, Loading, false},
		"waiting: joined":                  {nil, Waiting, func(f *fixture) { f.g.Store(&Member{}) }, Waiting, false},
		"waiting: held":                    {nil, Waiting, func(f *fixture) { f.g.Front(adapters.ParkedHeld, time.Time{}) }, Held, false},
		"waiting: parked while it is sent": {nil, Waiting, blocked, Blocked, false},
		"loading: not due yet":             {(*fixture).load, Loading, func(f *fixture) { f.g.Loaded(); f.Again(f.g, soon.Add(1)) }, Waiting, false},
		"loading: first row is held":       {(*fixture).load, Loading, func(f *fixture) { f.g.Loaded(); f.g.Hold() }, Held, false},
		"loading: one of two comes": {(*fixture).load, Loading, func(f *fixture) {
			f.g.Loaded()
			f.g.Enter(&f.first)
		}, InLane, false},
		"loading: both come": {(*fixture).load, Loading, func(f *fixture) {
			f.g.Loaded()
			f.g.Enter(&f.first)
			f.g.Enter(&f.second)
		}, InLane, true},
		"loading: no rows left": {(*fixture).load, Loading, func(f *fixture) {
			f.g.Loaded()
			f.g.Recount(0)
			f.Changed(f.g)
		}, Empty, false},
		"in the lane: another joins the parking":  {(*fixture).enterBoth, InLane, func(f *fixture) { f.g.Store(&Member{}) }, InLane, false},
		"in the lane: one is settled":             {(*fixture).enterBoth, InLane, func(f *fixture) { f.settle(&f.first) }, InLane, true},
		"in the lane: one is parked again":        {(*fixture).enterBoth, InLane, func(f *fixture) { f.g.Leave(&f.first) }, InLane, false},
		"in the lane: both are parked again":      {(*fixture).enterBoth, InLane, func(f *fixture) { f.g.Leave(&f.first); f.g.Leave(&f.second) }, Waiting, false},
		"in the lane: last row is settled":        {(*fixture).enterBoth, InLane, func(f *fixture) { f.settle(&f.first); f.settle(&f.second) }, Empty, false},
		"in the lane: these settled, one is left": {func(f *fixture) { f.enterBoth(); f.g.Store(&Member{}) }, InLane, func(f *fixture) { f.settle(&f.first); f.settle(&f.second) }, Waiting, false},
		"blocked: it was sent":                    {blocked, Blocked, func(f *fixture) { f.settle(&f.sent) }, Waiting, false},
		"blocked: held meanwhile":                 {blocked, Blocked, func(f *fixture) { f.g.Front(adapters.ParkedHeld, time.Time{}); f.settle(&f.sent) }, Held, false},
		"held: redriven":                          {held, Held, func(f *fixture) { f.Reconcile([]adapters.ParkedGroup{{Group: "a", Count: 2}}, notPaused) }, Waiting, false},
		"held: skipped":                           {held, Held, func(f *fixture) { f.Reconcile(nil, notPaused) }, Empty, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(2)
			if c.from != nil {
				c.from(f)
			}
			if got := f.g.State(); got != c.state {
				t.Fatalf("state %d before, want %d", got, c.state)
			}
			c.do(f)
			if got := f.g.State(); got != c.want || f.g.AllHere() != c.allHere || f.g.Movable() != (c.want == Waiting) {
				t.Errorf("state %d, all here %v, movable %v; want state %d, all here %v", got, f.g.AllHere(), f.g.Movable(), c.want, c.allHere)
			}
			if _, known := f.All()[f.g.Key]; known != (c.want != Empty) {
				t.Errorf("the session knows the group: %v", known)
			}
			if _, _, due := f.Next(); due && !f.g.Movable() {
				t.Error("it is planned and cannot move")
			}
		})
	}
}

func notPaused(string) bool { return false }

// A paused group keeps its state, but does not move and takes no messages until it is resumed.
func TestAPausedGroupStays(t *testing.T) {
	t.Parallel()
	paused := func(group string) bool { return group == "a" }
	f := newFixture(2)
	f.Pause(paused)
	if _, _, due := f.Next(); due || f.g.Movable() || !f.g.Paused() || f.g.State() != Waiting {
		t.Errorf("paused: due %v, movable %v, state %d", due, f.g.Movable(), f.g.State())
	}
	f.Pause(notPaused)
	if g, due, ok := f.Next(); !ok || g != f.g || !due.IsZero() {
		t.Errorf("resumed: planned %v for %v, want at once", ok, due)
	}
	f.enterBoth()
	if f.Pause(paused); f.g.AllHere() {
		t.Error("a fresh message would enter the lane behind a paused group")
	}
	if g := f.Open(Key{Group: "b"}, 3, soon, true); g.Movable() || !g.Paused() {
		t.Error("a group that is paused when it is parked could move")
	}
}

// Something that is added while the rows of a group are read has them read again.
func TestAGroupIsReadAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(1)
	f.load()
	if f.g.Loaded() {
		t.Error("read again, though nothing was added")
	}
	f.Plan(f.g)
	f.load()
	f.g.Store(&Member{})
	if !f.g.Loaded() {
		t.Error("not read again, though a row was added")
	}
	if f.g.Loaded() {
		t.Error("the row that was added is reported twice")
	}
}

// A group that was parked to make room comes back with its address, once; one that waits for the poison destination
// likewise; one whose messages were settled meanwhile does not.
func TestAGroupIsReadmittedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do        func(*fixture)
		evictions int
		want      bool
	}{
		"evicted twice":            {func(f *fixture) { f.g.Evict(); f.g.Evict() }, 2, true},
		"waits for poison":         {func(f *fixture) { f.g.AwaitPoison(true) }, 0, true},
		"no longer waits for it":   {func(f *fixture) { f.g.AwaitPoison(true); f.g.AwaitPoison(false) }, 0, false},
		"parked because it failed": {func(*fixture) {}, 0, false},
		"evicted and then settled": {func(f *fixture) { f.g.Evict(); f.settle(&f.second) }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(2)
			c.do(f)
			if f.g.Evicted() != c.want || f.g.Evictions() != c.evictions {
				t.Errorf("evicted %v, %d times; want %v, %d", f.g.Evicted(), f.g.Evictions(), c.want, c.evictions)
			}
			f.g.Front(adapters.ParkedWaiting, soon.Add(time.Hour))
			f.Readmit()
			if f.g.Due().IsZero() != c.want || f.g.Evicted() || f.g.Evictions() != 0 {
				t.Errorf("due %v, evicted %v, want at once: %v", f.g.Due(), f.g.Evicted(), c.want)
			}
			f.g.Front(adapters.ParkedWaiting, soon)
			if f.Readmit(); f.g.Due().IsZero() {
				t.Error("readmitted twice")
			}
		})
	}
}

// A member's row is counted once, however often it is written; what it did is taken back when it leaves.
func TestAMemberIsCountedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(0)
	var m Member
	if !f.g.Store(&m) || f.g.Store(&m) || f.g.count != 1 || !m.Stored() {
		t.Errorf("%d rows of one message", f.g.count)
	}
	f.g.Block(&m)
	f.g.Block(&m)
	if f.g.blockers != 1 || !m.Blocks() {
		t.Errorf("%d blockers, want 1", f.g.blockers)
	}
	f.g.Enter(&m)
	if !m.Injected() || !f.g.Leave(&m) || f.g.Leave(&m) || f.g.blockers != 0 || f.g.live != 0 {
		t.Errorf("%d blockers and %d in the lane after it left", f.g.blockers, f.g.live)
	}
	if !f.g.Settle(&m) || f.g.Settle(&m) || f.g.count != 0 {
		t.Errorf("%d rows are left after it was settled", f.g.count)
	}
}
