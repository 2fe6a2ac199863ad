package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
)

// queueScenario is all that is random about a run of the queue model.
type queueScenario struct {
	ordering     adapters.Ordering
	order        adapters.OrderMode
	claims       Claims
	batch        int
	groups       int
	addresses    int
	slow         bool // deliveries take seconds
	deliverFirst bool // chains run after deliveries, and do nothing of their own
	faults       int  // of ten messages, so many fail in some way
	broken       bool // statements may fail after they were carried out
	blind        bool
	transactions bool // deliveries commit with what settles them
	seed         uint64
	steps        []step
}

// drawQueueScenario draws one whose steps are of these kinds, and those that every scenario has.
func drawQueueScenario(t *rapid.T, kinds ...string) queueScenario {
	kinds = append(kinds, "write", "write", "write", "restart", "crash", "outage", "stolen", "foreign", "evict")
	sc := queueScenario{
		order: rapid.SampledFrom([]adapters.OrderMode{adapters.OrderGroup, adapters.OrderGroup, adapters.OrderGroup, adapters.OrderNone}).Draw(t, "order"),
		claims: Claims{
			InMemory: rapid.IntRange(4, 100).Draw(t, "memory"),
			PerGroup: rapid.IntRange(1, 30).Draw(t, "per group"),
			Timeout:  time.Duration(rapid.SampledFrom([]int{4, 20}).Draw(t, "timeout")) * time.Second, Recover: 3 * time.Second},
		batch:        rapid.IntRange(1, 60).Draw(t, "batch"),
		groups:       rapid.IntRange(1, 12).Draw(t, "groups"),
		addresses:    rapid.IntRange(1, 3).Draw(t, "addresses"),
		slow:         rapid.Bool().Draw(t, "slow"),
		deliverFirst: rapid.Bool().Draw(t, "deliverFirst"),
		faults:       rapid.IntRange(0, 6).Draw(t, "faults"),
		broken:       rapid.Bool().Draw(t, "broken"),
		blind:        rapid.Bool().Draw(t, "blind"),
		seed:         rapid.Uint64().Draw(t, "seed"),
	}
	sc.ordering = rapid.SampledFrom([]adapters.Ordering{
		{}, {Unit: adapters.UnitWave, MaxMessages: 50}, {Unit: adapters.UnitGroup, MaxMessages: 8, MaxRequests: 4},
		{Unit: adapters.UnitGroup, MaxMessages: 5, MaxGroups: 1},
	}).Draw(t, "unit")
	sc.ordering.Static = sc.addresses == 1 && rapid.Bool().Draw(t, "static")
	for range rapid.IntRange(1, 8).Draw(t, "steps") {
		sc.steps = append(sc.steps, step{
			kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			wait: time.Duration(rapid.IntRange(0, 3000).Draw(t, "wait")) * time.Millisecond,
			rows: rapid.IntRange(1, 80).Draw(t, "rows"),
		})
	}
	return sc
}

// queueRun plays a queueScenario.
type queueRun struct {
	queueScenario
	world  *world
	table  *queueTable
	state  *memState
	random *rand.Rand
	down   bool        // the table cannot be reached
	dupes  int         // claims that were cut off or stolen: so many may come again
	faulty atomic.Bool // an outcome was unknown: anything that was in memory may
	lent   *lending
	paused map[string]time.Time // groups, since when
	begun  time.Time            // the present instance

	link   *link
	store  *mortal
	queue  *memQueue
	router *Router
	cancel context.CancelFunc
	done   chan error
}

func newQueueRun(sc queueScenario) *queueRun {
	r := &queueRun{queueScenario: sc, table: newQueueTable(), state: newMemState(), random: rand.New(rand.NewPCG(sc.seed, 1))}
	r.world = &world{ordering: sc.ordering, slow: sc.slow, random: rand.New(rand.NewPCG(sc.seed, 2)),
		inLane: map[string][]error{}, outside: map[string][]error{}, charged: map[string]int{}}
	r.table.timeout, r.table.blind = sc.claims.Timeout, sc.blind
	r.lent, r.paused = &lending{}, map[string]time.Time{}
	r.table.lending = r.lent
	random := rand.New(rand.NewPCG(sc.seed, 3))
	r.table.delay = func() time.Duration {
		r.world.mu.Lock()
		defer r.world.mu.Unlock()
		return time.Duration(random.IntN(20)) * time.Millisecond
	}
	r.table.fail = func(string) error {
		if r.down {
			return errTable
		}
		return nil
	}
	breaks := rand.New(rand.NewPCG(sc.seed, 4))
	r.table.broken = func() error {
		if sc.broken && breaks.IntN(40) == 0 {
			r.faulty.Store(true)
			return errTable
		}
		return nil
	}
	r.table.retried = func(id string, attempts int) {
		r.world.mu.Lock()
		defer r.world.mu.Unlock()
		if attempts > r.world.charged[id] {
			r.world.complain("%s has %d attempts in the table, but failed %d times", id, attempts, r.world.charged[id])
		}
	}
	return r
}

func (r *queueRun) write(n int) {
	for range n {
		g := r.random.IntN(r.groups + 1)
		row := adapters.Row{ID: fmt.Sprintf("m%d", len(r.table.rows)), Payload: []byte(`{}`), CreatedAt: time.Now(),
			Headers: map[string]string{"address": fmt.Sprintf("a%d", g%r.addresses)}}
		if g > 0 {
			row.Group = fmt.Sprintf("g%d", g)
		}
		script := run{scenario: scenario{faults: r.faults}, random: r.random}
		r.world.mu.Lock()
		r.world.outside[row.ID] = script.script()
		if r.addresses > 1 && g == 0 && r.random.IntN(4) == 0 { // dies, and its address never succeeds
			row.Headers["address"] = row.ID
			r.world.outside[row.ID] = slices.Repeat([]error{errors.New("injected")}, 1000)
		}
		if r.random.IntN(4) == 0 && !r.deliverFirst {
			r.world.inLane[row.ID] = script.script()
		}
		r.world.mu.Unlock()
		r.table.add(row)
	}
}

func (r *queueRun) start() error {
	r.link, r.store, r.queue = &link{world: r.world}, &mortal{memState: r.state}, r.table.open()
	route := Route{
		Name: "jobs", Queue: r.queue, State: r.store, Destination: r.link, Order: r.order, Claims: r.claims,
		Poll: Poll{Max: 200 * time.Millisecond, Batch: r.batch},
	}
	if r.transactions {
		r.inTransactions(&route)
	}
	r.world.equip(&route, r.deliverFirst)
	rt, err := New(Config{Logger: slog.New(slog.DiscardHandler), DrainTimeout: 10 * time.Second}, []Route{route})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.router, r.cancel, r.done, r.begun = rt, cancel, make(chan error, 1), time.Now()
	go func() { r.done <- rt.Run(ctx) }()
	return nil
}

func (r *queueRun) stop() error {
	r.cancel()
	return <-r.done
}

// processing is the number of rows that are marked so.
func (r *queueRun) processing() int { return r.table.statuses()["processing"] }

func (r *queueRun) restart() error {
	if err := r.stop(); err != nil && !r.broken {
		return err
	}
	if n := r.queue.holds(); n > 0 && !r.faulty.Load() {
		return fmt.Errorf("after a stop %d rows are marked as being processed", n)
	}
	return r.start()
}

func (r *queueRun) crash() error {
	r.link.cut.Store(true)
	r.store.dead.Store(true)
	r.table.mu.Lock()
	r.queue.dead = true
	r.table.mu.Unlock()
	r.state.evict()
	r.dupes += r.processing()
	_ = r.stop()
	return r.start()
}

// setDown makes the table unreachable, or reachable again.
func (r *queueRun) setDown(down bool) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	r.down = down
}

// play carries out one step.
func (r *queueRun) play(s step) error {
	switch s.kind {
	case "write":
		r.write(s.rows)
	case "restart":
		return r.restart()
	case "crash":
		return r.crash()
	case "outage":
		if r.claims.Timeout < 10*time.Second { // claims may end meanwhile
			r.faulty.Store(true)
		}
		r.setDown(true)
		time.Sleep(s.wait)
		r.setDown(false)
	case "stolen":
		r.dupes += r.table.steal(func(*queueRow) bool { return r.random.IntN(4) == 0 })
	case "foreign":
		r.foreign(s)
	case "evict": // another instance takes the lanes and gives them back
		r.state.evict()
	case "pause":
		return r.pauseGroups(s.rows)
	case "resume":
		return r.resumeGroups()
	}
	time.Sleep(s.wait)
	return nil
}

// foreign is another processor that holds some rows for a while.
func (r *queueRun) foreign(s step) {
	r.table.mu.Lock()
	var mine []*queueRow
	taken := map[string]bool{}
	for _, row := range r.table.rows {
		if row.status == "pending" && (taken[row.Group] || r.random.IntN(6) == 0) && row.Group != "" && len(mine) < s.rows {
			taken[row.Group] = true
			row.status, row.token, row.since = "processing", "foreign", time.Now()
			mine = append(mine, row)
		}
	}
	r.table.mu.Unlock()
	time.Sleep(s.wait)
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	for _, row := range mine {
		if row.token == "foreign" {
			row.status, row.token = "pending", ""
		}
	}
}

func (r *queueRun) settledAll() bool {
	st := r.table.statuses()
	return st["pending"]+st["processing"] == 0
}

func (r *queueRun) all() error {
	if err := r.start(); err != nil {
		return err
	}
	for _, s := range r.steps {
		if err := r.play(s); err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
		if s.kind != "restart" && s.kind != "crash" {
			r.observe()
		}
	}
	if err := r.resumeGroups(); err != nil {
		return err
	}
	for end := time.Now().Add(patience); !r.settledAll() && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		if r.random.IntN(60) == 0 {
			r.observe()
		}
	}
	time.Sleep(time.Second)
	r.observe()
	if err := r.stop(); err != nil && !r.broken {
		return err
	}
	if n := r.queue.holds(); n > 0 && !r.faulty.Load() {
		return fmt.Errorf("at the end %d rows are marked as being processed by us", n)
	}
	return r.verify()
}

// verify compares what arrived with what the table says.
func (r *queueRun) verify() error {
	r.world.mu.Lock()
	arrived := map[string]int{}
	for _, a := range r.world.arrivals {
		arrived[a.id]++
	}
	again, charged := 0, r.world.charged
	for _, row := range r.table.rows {
		n := arrived[row.ID]
		switch {
		case row.status == "pending" || row.status == "processing":
			r.world.complain("%s is %s at the end", row.ID, row.status)
		case row.status == "done" && n == 0:
			r.world.complain("%s is done and never arrived", row.ID)
		case row.status == "dead" && n > 0 && r.dupes == 0 && !r.faulty.Load():
			r.world.complain("%s is dead and arrived", row.ID)
		case row.attempts > charged[row.ID]:
			r.world.complain("%s ends with %d attempts, but failed %d times", row.ID, row.attempts, charged[row.ID])
		}
		again += max(n-1, 0)
	}
	if r.transactions && again > 0 {
		r.world.complain("%d came twice, though deliveries commit with what settles them", again)
	}
	if again > r.dupes && !r.faulty.Load() && !r.evicted() {
		r.world.complain("%d came twice, at most %d may", again, r.dupes)
	}
	r.world.problems = append(r.world.problems, r.table.problems...)
	rows := make([]*adapters.Row, 0, len(r.table.rows))
	for _, row := range r.table.rows {
		if row.status != "dead" {
			rows = append(rows, &row.Row)
		}
	}
	r.world.mu.Unlock()
	return r.world.verify(rows, nil, r.order, 1<<20)
}

// evicted tells whether deliveries were cut off by the loss of lanes, which
// leaves their outcome unknown.
func (r *queueRun) evicted() bool {
	for _, s := range r.steps {
		if s.kind == "evict" {
			return true
		}
	}
	return false
}

// Whatever happens to the relay, its table and its claims, in the end every row
// is done and has arrived, or is dead; first deliveries of a group are in order;
// nothing comes twice without a fault; no row is charged for more failures than
// there were; after a stop nothing is marked as being processed; and what is settled is
// referred to by nothing.
func TestG1_G2_G3_G13_QueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := drawQueueScenario(rt)
		var err error
		synctest.Test(t, func(*testing.T) { err = newQueueRun(sc).all() })
		if err != nil {
			rt.Fatal(err)
		}
	})
}
