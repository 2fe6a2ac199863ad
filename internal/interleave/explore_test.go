package interleave_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

const (
	// lookAfter is when the scheduler asks whether a statement without an answer waits for a lock.
	lookAfter = 300 * time.Microsecond

	// stuckAfter is when a run that does not come to rest has failed.
	stuckAfter = 20 * time.Second
)

// choice is a step that may be next.
type choice struct {
	who  int
	step int // of the session
	do   action
	of   touches
}

func (c choice) same(o choice) bool { return c.who == o.who && c.step == o.step && c.do == o.do }

// node is a place at which the scheduler had a choice.
type node struct {
	open      []choice
	taken     int
	sleep     []choice // steps that were tried before, with which what is chosen here commutes: those runs are known
	redundant bool     // all open ones sleep
}

// asleep reports whether a choice need not be tried.
func (n *node) asleep(c choice) bool {
	for _, z := range n.sleep {
		if z.same(c) {
			return true
		}
	}
	return false
}

// advance takes the next choice that does not sleep.
func (n *node) advance() bool {
	if n.redundant {
		return false
	}
	for n.taken++; n.taken < len(n.open); n.taken++ {
		if !n.asleep(n.open[n.taken]) {
			return true
		}
	}
	return false
}

// run is one interleaving.
type run struct {
	w       *world
	trace   []string
	cuts    int
	brisk   string          // session that never waits
	blocked map[int]touches // by session: statements that waited for a lock at the last rest
}

// rest waits until each session is at its gate, waits for a lock, or is over. It returns the choices that there are, and what the
// statements have touched that went on meanwhile.
func (r *run) rest() (open []choice, resumed touches, err error) {
	w, deadline := r.w, time.Now().Add(stuckAfter)
	for time.Now().Before(deadline) {
		busy, pids, moving := w.moving()
		if !moving {
			break
		}
		wait := lookAfter
		if busy > 0 {
			wait = 10 * time.Millisecond
		}
		select {
		case <-w.changed:
			continue
		case <-time.After(wait):
		}
		if busy > 0 {
			continue
		}
		alone := w.waits(r.brisk) // before the count: what waited then may have been another session's, and be over
		n, err := w.db.waiting(pids)
		if err != nil {
			return nil, nil, err
		}
		if n > 0 && alone {
			w.fault("%s waits for a lock", r.brisk)
		}
		if n == len(pids) && len(w.changed) == 0 {
			if open = r.choices(); len(open) > 0 {
				return open, r.resumed(), nil
			}
		}
	}
	if _, _, moving := w.moving(); moving {
		return nil, nil, fmt.Errorf("the run does not come to rest:\n%s", w.describe())
	}
	return r.choices(), r.resumed(), nil
}

// resumed is what statements touch that waited for a lock and do not any more.
func (r *run) resumed() touches {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	on, now := touches{}, map[int]touches{}
	for i, s := range r.w.sessions {
		if s.is == sent {
			now[i] = s.next.of
		}
		if of, was := r.blocked[i]; was && now[i] == nil {
			on.add(of, false)
		}
	}
	r.blocked = now
	return on
}

// choices are the steps that may be next.
func (r *run) choices() (open []choice) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for i, s := range r.w.sessions {
		if s.is != atGate {
			continue
		}
		c := choice{who: i, step: s.steps, of: s.next.of}
		open = append(open, c)
		if r.cuts < s.cuts {
			for _, c.do = range []action{cutBefore, cutAfter} {
				open = append(open, c)
			}
		}
	}
	return open
}

// do carries a choice out.
func (r *run) do(c choice) {
	s := r.w.sessions[c.who]
	r.w.mu.Lock()
	s.is = sent
	s.steps++
	text := s.next.text
	r.w.mu.Unlock()
	if c.do != goOn {
		r.cuts++
	}
	r.trace = append(r.trace, fmt.Sprintf("%-10s %s%s", s.name, short(text), c.do))
	s.grant <- c.do
}

// explored is how an exploration went.
type explored struct{ runs, redundant, steps int }

func (e *explored) String() string {
	return fmt.Sprintf("%d interleavings of %d steps (%d more that commute)", e.runs-e.redundant, e.steps, e.redundant)
}

// failure is an interleaving after which something is wrong.
type failure struct {
	err   error
	trace []string
}

func (f *failure) Error() string {
	return fmt.Sprintf("%v\nafter:\n  %s", f.err, strings.Join(f.trace, "\n  "))
}

// interleave runs a scenario once, and checks what the sessions came to. Each step is the one that next chooses.
func (e *explored) interleave(w *world, sc *scenario, next func(r *run, open []choice, resumed touches) choice) error {
	if err := w.begin(sc); err != nil {
		return err
	}
	r := &run{w: w, brisk: sc.brisk}
	open, resumed, err := r.rest()
	for ; err == nil && len(open) > 0; open, resumed, err = r.rest() {
		r.do(next(r, open, resumed))
	}
	for _, s := range w.sessions {
		if err == nil && s.err != nil {
			err = fmt.Errorf("session %s: %w", s.name, s.err)
		}
	}
	if err == nil {
		err = w.check(sc)
	}
	if e.runs, e.steps = e.runs+1, max(e.steps, len(r.trace)); err != nil {
		return &failure{err, r.trace}
	}
	return nil
}

// explore runs all interleavings of a scenario, depth first, each from a clean state. Of those that differ in the order of steps that commute
// one is enough: such a step sleeps (sleep sets).
func (e *explored) explore(ctx context.Context, w *world, sc *scenario, most int) error {
	var path []*node
	for e.runs < most && ctx.Err() == nil {
		var sleep []choice
		redundant := false
		err := e.interleave(w, sc, func(r *run, open []choice, resumed touches) choice {
			depth := len(r.trace)
			if sleep = awake(sleep, resumed); depth == len(path) {
				n := &node{open: open, sleep: sleep, taken: -1, redundant: redundant}
				if redundant = !n.advance(); redundant {
					n.taken, n.redundant = 0, true
				}
				path = append(path, n)
			}
			n := path[depth]
			c := match(open, n.open[n.taken])
			sleep = awake(append(append([]choice{}, n.sleep...), n.open[:n.taken]...), c.of)
			return c
		})
		if redundant {
			e.redundant++
		}
		if err != nil {
			return err
		}
		for len(path) > 0 && !path[len(path)-1].advance() {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			break
		}
	}
	return nil
}

// sample runs so many interleavings that a seed chooses.
func (e *explored) sample(ctx context.Context, w *world, sc *scenario, most int) error {
	for n := 0; n < most && ctx.Err() == nil; n++ {
		random := rand.New(rand.NewPCG(uint64(n), 1))
		cut, pick := random.IntN(e.steps+1), newPicker(random, len(w.sessions), e.steps)
		err := e.interleave(w, sc, func(r *run, open []choice, _ touches) choice {
			c := pick.next(len(r.trace), open)
			if c.do = goOn; len(r.trace) >= cut && r.cuts < r.w.sessions[c.who].cuts {
				c.do = cutBefore + action(random.IntN(2))
			}
			return c
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// changesOfRank is how often a session falls behind all others in a run by ranks.
const changesOfRank = 3

// picker chooses steps: half of the runs at random, and half by random ranks of the sessions, of which the first one that can goes on, and
// falls behind the others at a few random steps. Few changes in the right place are what most faults take.
type picker struct {
	random *rand.Rand
	ranks  []int // nil: at random
	falls  map[int]bool
}

func newPicker(random *rand.Rand, sessions, steps int) *picker {
	p := &picker{random: random}
	if random.IntN(2) == 0 {
		p.ranks, p.falls = random.Perm(sessions), map[int]bool{}
		for range changesOfRank {
			p.falls[random.IntN(steps+1)] = true
		}
	}
	return p
}

func (p *picker) next(step int, open []choice) choice {
	if p.ranks == nil {
		return open[p.random.IntN(len(open))]
	}
	first := slices.MaxFunc(open, func(a, b choice) int { return cmp.Compare(p.ranks[a.who], p.ranks[b.who]) })
	if p.falls[step] {
		p.ranks[first.who] = slices.Min(p.ranks) - 1
		first = slices.MaxFunc(open, func(a, b choice) int { return cmp.Compare(p.ranks[a.who], p.ranks[b.who]) })
	}
	return first
}

// awake are the choices that commute with a step: they sleep on.
func awake(sleep []choice, of touches) (on []choice) {
	for _, c := range sleep {
		if c.of.commute(of) {
			on = append(on, c)
		}
	}
	return on
}

// match finds a choice of an earlier run again. Where a run goes another way than before, because of time, it takes the first one.
func match(open []choice, c choice) choice {
	for _, o := range open {
		if o.same(c) {
			return o
		}
	}
	return open[0]
}
