package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// scenario is a few sessions that meet.
type scenario struct {
	name  string
	setup func(w *world) error // before each run; its statements are no steps
	roles []role
	brisk string               // session whose statements never wait for a lock
	ends  func(w *world) error // what holds when all sessions are over
	after func(w *world) error // what holds when all is delivered, besides what always does
	drain func(w *world) error // delivers what is left; nil: nothing is, and no row is followed
}

// role is what one session does.
type role struct {
	session string
	cuts    int // how many of its steps may lose their connection
	run     func(w *world) error
}

// mutant is a change of statements on their way to the server.
type mutant struct {
	name, by, find, replace string       // by: the scenario that kills it
	within                  string       // only statements that contain it are changed
	met                     atomic.Int64 // statements that were changed
}

// world is a database with the sessions that use it.
type world struct {
	ctx     context.Context
	server  string
	db      database
	reset   func() error
	closers []func() error
	closing chan struct{} // closed when no run goes on: gates are open
	mutant  *mutant
	changed chan struct{}

	relays   map[string]*relay
	claimers map[string]*claimer   // of the run
	start    adapters.Cursor       // of a new lane
	put      func(id string) error // commits a row
	count    func(query string) (int, error)
	insert   func(id string) string // statement that publishes a row of a queue
	open     func(url string, timeout time.Duration) (adapters.OperatorQueue, error)
	endLease string                                           // statement that ends the lease of an instance
	exec     func(session string, statements ...string) error // runs SQL in a session

	mu       sync.Mutex
	sessions []*session
	order    []string // sessions by step
	facts
}

// facts are what has happened in a run.
type facts struct {
	committed []event           // in the order of their inserts
	received  []string          // ids, by the destination
	settled   map[string]int    // how often each id was settled
	epochs    map[string]string // owners by lane and epoch
	holders   map[string]string // who has a row of a queue
	notes     map[string]int    // what scenarios count
	wrong     []string
}

func newFacts() facts {
	return facts{settled: map[string]int{}, epochs: map[string]string{}, notes: map[string]int{}, holders: map[string]string{}}
}

// event is a row that a publisher wrote.
type event struct{ id, group, publisher string }

func newWorld(ctx context.Context, server string, db database) *world {
	return &world{ctx: ctx, server: server, db: db, changed: make(chan struct{}, 1), closing: make(chan struct{})}
}

// signal has the scheduler look again.
func (w *world) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// moving counts the sessions that run, and lists the connections that have a statement at the server.
func (w *world) moving() (busy int, pids []int64, moving bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		switch s.is {
		case running:
			busy++
		case sent:
			pids = append(pids, s.pid)
		case atGate, over:
		}
	}
	return busy, pids, busy > 0 || len(pids) > 0
}

// waits reports whether the only statement that is at the server is a session's.
func (w *world) waits(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := false
	for _, s := range w.sessions {
		if s.is == sent && s.name != name {
			return false
		}
		found = found || s.is == sent
	}
	return found
}

// describe says where the sessions are.
func (w *world) describe() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, s := range w.sessions {
		fmt.Fprintf(&b, "%s: %s %s\n", s.name, [...]string{"runs", "at its gate", "at the server", "is over"}[s.is], short(s.next.text))
	}
	return b.String()
}

// session returns one by its name.
func (w *world) session(name string) *session {
	return w.sessions[slices.IndexFunc(w.sessions, func(s *session) bool { return s.name == name })]
}

// begin begins a run from a clean state.
func (w *world) begin(sc *scenario) (*run, error) {
	if err := w.reset(); err != nil {
		return nil, err
	}
	w.order = nil
	w.facts = newFacts()
	if err := sc.setup(w); err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	for _, s := range w.sessions {
		s.cuts, s.steps, s.err = 0, 0, nil
	}
	for _, role := range sc.roles {
		s := w.session(role.session)
		s.cuts = role.cuts
		s.start(func() error { return role.run(w) })
	}
	return &run{w: w, brisk: sc.brisk}, nil
}

// note counts something.
func (w *world) note(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes[what] += n
}

// fault notes that something is wrong.
func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// commit notes rows that were committed.
func (w *world) commit(events ...event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.committed = append(w.committed, events...)
}

// receive is the destination.
func (w *world) receive(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = append(w.received, ids...)
}

// settle notes that rows were settled.
func (w *world) settle(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.settled[id]++
	}
}

// own notes that an instance has acquired lanes.
func (w *world) own(name string, lanes []adapters.LaneState) {
	for i := range lanes {
		key := fmt.Sprintf("%s/%d epoch %d", lanes[i].Route, lanes[i].Slot, lanes[i].Epoch)
		w.mu.Lock()
		former, taken := w.epochs[key]
		w.epochs[key] = name
		w.mu.Unlock()
		if taken {
			w.fault("%s was acquired by %s and by %s", key, former, name)
		}
	}
}

// check says what is wrong after a run: each committed row was received, those of a group and a publisher for the first time in their order,
// and each was settled once.
func (w *world) check(sc *scenario) error {
	if sc.ends != nil {
		if err := sc.ends(w); err != nil {
			return err
		}
	}
	if sc.drain != nil {
		if err := sc.drain(w); err != nil {
			return fmt.Errorf("what is ready cannot be delivered: %w", err)
		}
	}
	var errs []error
	for _, text := range w.wrong {
		errs = append(errs, errors.New(text))
	}
	if sc.drain == nil {
		return errors.Join(errs...)
	}
	last := map[string]int{}
	for _, e := range w.committed {
		at := slices.Index(w.received, e.id)
		if key := e.group + " of " + e.publisher; at < 0 {
			errs = append(errs, fmt.Errorf("row %s was lost: received %v", e.id, w.received))
		} else if e.group != "" && at < last[key] {
			errs = append(errs, fmt.Errorf("row %s came out of order: received %v", e.id, w.received))
		} else {
			last[key] = at
		}
	}
	for _, id := range w.received {
		if !slices.ContainsFunc(w.committed, func(e event) bool { return e.id == id }) {
			errs = append(errs, fmt.Errorf("row %s was delivered and not committed", id))
		}
	}
	for id, n := range w.settled {
		if n > 1 {
			errs = append(errs, fmt.Errorf("row %s was settled %d times", id, n))
		}
	}
	if sc.after != nil {
		errs = append(errs, sc.after(w))
	}
	return errors.Join(errs...)
}
