package handlers

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// outcome is what the destination does with a message.
type outcome int

const (
	succeeds outcome = iota
	fails
	isUnavailable
	isReleased
	rejects
	panics
	returnsTooFew
	held // behind a failed message of its group
)

func (o outcome) err(x *tracked) error {
	cause := fmt.Errorf("%s, attempt %d", x.name, x.attempts) // its own
	switch o {
	case succeeds:
		return nil
	case isUnavailable:
		return outbox.Unavailable(cause, 0)
	case isReleased, held:
		return outbox.Released(cause)
	case rejects:
		return outbox.Permanent(cause)
	default: // the gate makes its own error if the destination panics or returns too few
		return cause
	}
}

// reaction is what becomes of a message that the destination has failed.
type reaction int

const (
	retries reaction = iota
	leaves
	withdraws
)

// script is the life of a message, as it was drawn.
type script struct {
	position int
	gate     int
	group    string // "": none
	to       string // address
	size     int
	pause    time.Duration // after the message before it entered
	chain    time.Duration // before it comes to the gate
	backoff  time.Duration
	deadline time.Duration // of its first attempt; 0: none
	skipped  bool          // by its chain
	offered  bool          // its chain runs when the outcome is known; no deadline then
	outcomes []outcome     // then success
	reaction reaction
}

// identity tells groups apart: the key, or the message itself.
func (s *script) identity() string {
	if s.group != "" {
		return s.group
	}
	return fmt.Sprint("alone ", s.position)
}

// next is the outcome of the next attempt.
func (t *tracked) next() outcome {
	t.attempts++
	if t.attempts > len(t.outcomes) {
		return succeeds
	}
	return t.outcomes[t.attempts-1]
}

// scenario is everything that happens, but for what the scheduler decides.
type scenario struct {
	ordering adapters.Ordering
	shared   bool // the places, by addresses
	apart    bool // each gate has a limiter of its own, of shared places
	gates    int
	messages []*script
	delays   []time.Duration // of deliveries, in turn
	outages  map[string]*outage
	stop     time.Duration // when gate 0 stops; 0: never
}

func ms(t *rapid.T, label string, most int) time.Duration {
	return time.Duration(rapid.IntRange(0, most).Draw(t, label)) * time.Millisecond
}

func drawScenario(t *rapid.T, unit adapters.Unit) *scenario {
	s := &scenario{gates: rapid.IntRange(1, 3).Draw(t, "gates"), outages: map[string]*outage{}}
	s.ordering = adapters.Ordering{
		Unit:        unit,
		MaxMessages: rapid.IntRange(0, 6).Draw(t, "max messages"),
		MaxBytes:    rapid.SampledFrom([]int{0, 15, 40}).Draw(t, "max bytes"),
		MaxGroups:   rapid.IntRange(0, 3).Draw(t, "max groups"),
		PerGroup:    rapid.IntRange(0, 2).Draw(t, "per group"),
		MaxRequests: rapid.IntRange(1, 4).Draw(t, "max requests"),
	}
	s.shared = rapid.Bool().Draw(t, "shared")
	s.apart = rapid.Bool().Draw(t, "apart")
	for range rapid.IntRange(1, 5).Draw(t, "number of delays") {
		s.delays = append(s.delays, ms(t, "delay", 8))
	}
	addresses := []string{"x", "y", "z"}[:rapid.IntRange(1, 3).Draw(t, "addresses")]
	for i := range rapid.IntRange(1, 40).Draw(t, "messages") {
		s.messages = append(s.messages, drawScript(t, i, s.gates, addresses))
	}
	for _, name := range append(addresses, "") {
		if rapid.IntRange(0, 2).Draw(t, "outage") == 0 {
			begins := ms(t, "begins", 20)
			s.outages[name] = &outage{begins: begins, ends: begins + ms(t, "lasts", 40),
				probes: name != "" && rapid.Bool().Draw(t, "probes")}
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "stops") == 0 {
		s.stop = 1 + ms(t, "stop", 30)
	}
	return s
}

func drawScript(t *rapid.T, position, gates int, addresses []string) *script {
	s := &script{
		position: position,
		gate:     rapid.IntRange(0, gates-1).Draw(t, "gate"),
		group:    rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "group"),
		to:       rapid.SampledFrom(addresses).Draw(t, "address"),
		size:     rapid.IntRange(0, 20).Draw(t, "size"),
		pause:    ms(t, "pause", 2),
		chain:    ms(t, "chain", 4),
		backoff:  ms(t, "backoff", 10),
		skipped:  rapid.IntRange(0, 9).Draw(t, "skipped") == 0,
		offered:  rapid.Bool().Draw(t, "offered"),
		outcomes: rapid.SliceOfN(rapid.SampledFrom([]outcome{succeeds, succeeds, succeeds, succeeds, fails, isUnavailable,
			isReleased, rejects, panics, returnsTooFew}), 0, 3).Draw(t, "outcomes"),
		reaction: rapid.SampledFrom([]reaction{retries, retries, retries, leaves, withdraws}).Draw(t, "reaction"),
	}
	if rapid.IntRange(0, 4).Draw(t, "has deadline") == 0 {
		s.deadline = 1 + ms(t, "deadline", 10)
	}
	return s
}

// Whatever happens at the destination, a gate keeps the order of every group,
// gives every message its outcome, and never lets one wait that could go.
func TestG2_G13_GateAgainstTheModel(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]adapters.Unit{"wave": adapters.UnitWave, "group": adapters.UnitGroup} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawScenario(t, unit)
				rapid.SyncTest(t, func(t *rapid.T) {
					if err := newModel(s).run(); err != nil {
						t.Fatal(err)
					}
				})
			})
		})
	}
}

// ages is longer than any scenario takes.
const ages = 24 * time.Hour

// run plays the scenario and returns what went wrong.
func (m *model) run() error {
	for name := range m.down {
		m.wg.Go(func() { m.outage(name) })
	}
	if m.scenario.stop > 0 {
		m.wg.Go(m.stopFirst)
	}
	m.wg.Go(m.enterAll)
	ended := make(chan struct{})
	go func() {
		m.wg.Wait()
		close(ended)
	}()
	watched := make(chan struct{})
	go func() {
		m.watch(ended)
		close(watched)
	}()
	late := make(chan struct{})
	timer := time.AfterFunc(ages, func() { close(late) })
	defer timer.Stop()
	select {
	case <-ended:
	case <-late:
		m.mu.Lock()
		m.failf("stuck: %s", m.unsettled())
		m.mu.Unlock()
	}
	<-watched
	synctest.Wait()
	m.checkEnd()
	m.shutDown()
	<-ended
	return m.err
}

// watch looks every millisecond, when nobody has anything left to do, for
// messages that wait although they could go. It ends with the scenario, or when
// that takes too long.
func (m *model) watch(ended chan struct{}) {
	for range 5000 {
		select {
		case <-ended:
			return
		default:
		}
		elapse(time.Millisecond)
		synctest.Wait()
		m.checkLiveness()
	}
}

// enterAll gives every message its place and runs its chain beside the others.
func (m *model) enterAll() {
	for _, s := range m.scenario.messages {
		elapse(s.pause)
		x := &tracked{script: s, name: fmt.Sprintf("message %d (%q at gate %d)", s.position, s.group, s.gate)}
		x.Owner, x.ended = x, make(chan error, 1)
		m.mu.Lock()
		m.entered = append(m.entered, x)
		m.gates[s.gate].Enter(&x.Ticket, s.group)
		m.mu.Unlock()
		m.wg.Go(func() { m.chain(x) })
	}
}

// chain is what the router and the middleware do with a message.
func (m *model) chain(x *tracked) {
	elapse(x.chain)
	if x.skipped {
		m.leave(x)
		return
	}
	for attempt := 0; ; attempt++ {
		err := m.handle(x, attempt)
		kind := outbox.KindOf(err)
		m.mu.Lock()
		m.concluded(x, err)
		done := err == nil || x.withdrawn || m.err != nil || m.stopping[x.gate] && kind == outbox.KindReleased
		m.mu.Unlock()
		switch {
		case done:
			return
		case kind == outbox.KindReleased:
			elapse(time.Millisecond)
		case kind == outbox.KindPermanent || x.reaction == leaves:
			m.leave(x)
			return
		case x.reaction == withdraws:
			m.withdraw(x)
			return
		default:
			elapse(x.backoff)
		}
	}
}

// handle runs one attempt with a fresh message, as the router does.
func (m *model) handle(x *tracked, attempt int) error {
	msg := message.NewMessage(x.name, make([]byte, x.size))
	msg.Metadata["address"] = x.to
	ctx := context.WithValue(context.Background(), trackedKey{}, x)
	switch {
	case attempt == 0 && x.deadline > 0 && !x.offered:
		limited, cancel := context.WithTimeout(ctx, x.deadline)
		defer cancel()
		ctx = limited
	case attempt%2 == 0:
		ctx = quiet{ctx, new(atomic.Int32)}
	}
	msg.SetContext(ctx)
	m.mu.Lock()
	x.waiting = msg
	m.mu.Unlock()
	if x.offered {
		m.gates[x.gate].Offer([]Offered{{Ticket: &x.Ticket, Message: msg}})
		return <-x.ended
	}
	return m.gates[x.gate].Handle(&x.Ticket, msg)
}

// outage takes an address down for a while.
func (m *model) outage(name string) {
	o := m.down[name]
	set := func(a Allowance) {
		m.mu.Lock()
		o.since = time.Now()
		o.allow.Store(int32(a))
		m.mu.Unlock()
		for _, g := range m.gates {
			g.Kick()
		}
	}
	elapse(o.begins)
	if o.probes {
		set(AllowOne)
	} else {
		set(AllowNone)
	}
	elapse(o.ends - o.begins)
	set(AllowAll)
}

// stopFirst stops a gate in the middle of everything.
func (m *model) stopFirst() {
	elapse(m.scenario.stop)
	m.mu.Lock()
	m.stopping[0] = true
	m.mu.Unlock()
	m.gates[0].Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped[0] = true
	for _, x := range m.entered {
		if x.gate == 0 && x.sending {
			m.failf("Stop returned while %s is being sent", x.name)
		}
	}
}

// unsettled lists what should have ended.
func (m *model) unsettled() []string {
	var out []string
	for _, x := range m.entered {
		if !x.settled && !m.stopping[x.gate] {
			out = append(out, x.name)
		}
	}
	return out
}

func (m *model) checkEnd() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if left := m.unsettled(); len(left) > 0 {
		m.failf("not settled: %q", left)
	}
	for i, g := range m.gates {
		if problem := leftover(g); problem != "" && !m.stopping[i] {
			m.failf("gate %d: %s", i, problem)
		}
	}
	for _, l := range m.limiters {
		if free, waiting := l.state(); free != m.scenario.ordering.MaxRequests || l.permits.free != free || waiting != 0 {
			m.failf("%d places of %d are free, %d of all, %d lanes wait", free, m.scenario.ordering.MaxRequests, l.permits.free, waiting)
		}
	}
}

// shutDown ends what a failed run has left waiting.
func (m *model) shutDown() {
	m.mu.Lock()
	for i := range m.gates {
		m.stopping[i] = true
	}
	m.mu.Unlock()
	for _, g := range m.gates {
		g.Stop()
		g.Abort()
	}
}
