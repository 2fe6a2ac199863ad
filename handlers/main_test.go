package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("as the test wants it")

// destination is one that a test scripts. The address is in the metadata.
type destination struct {
	ordering adapters.Ordering
	deliver  func(ctx context.Context, address string, batch []*message.Message) []error
}

func (d *destination) Address(msg *message.Message) (string, error) {
	address := msg.Metadata["address"]
	if address == "" {
		return "", errTest
	}
	return address, nil
}

func (d *destination) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	return d.deliver(ctx, address, batch)
}

func (d *destination) Ordering() adapters.Ordering { return d.ordering }
func (d *destination) Close() error                { return nil }

// request is a delivery that a test answers.
type request struct {
	ctx     context.Context
	address string
	ids     []string
	answer  chan []error
}

// bench is a gate whose every delivery waits for the test's answer. It lives
// in a synctest bubble, where [bench.sent] knows when nothing more will happen.
type bench struct {
	t        *testing.T
	offers   bool // messages are offered, and no chain waits
	gate     *Gate
	requests chan *request
	closed   atomic.Bool // Permit answers no
}

func newBench(t *testing.T, s setup, change ...func(*GateConfig)) *bench {
	b := &bench{t: t, offers: s.offers, requests: make(chan *request, 100)}
	cfg := GateConfig{
		Destination: &destination{ordering: s.Ordering, deliver: b.deliver},
		Limiter:     NewLimiter(s.MaxRequests, !s.Static && !s.Pooled),
		SendTimeout: 30 * time.Second,
		Allow:       func(string, *Ticket) Allowance { return AllowAll },
		Permit:      func() bool { return !b.closed.Load() },
		Ended: func(ended []Ended) {
			for _, e := range ended {
				e.Ticket.Owner.(*chain).ended <- e.Err
			}
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	b.gate = NewGate(cfg)
	t.Cleanup(func() {
		b.gate.Abort()
		b.gate.Stop()
	})
	return b
}

func (b *bench) deliver(ctx context.Context, address string, batch []*message.Message) []error {
	r := &request{ctx: ctx, address: address, answer: make(chan []error, 1)}
	for _, msg := range batch {
		r.ids = append(r.ids, msg.UUID)
	}
	b.requests <- r
	select {
	case errs := <-r.answer:
		return errs
	case <-ctx.Done():
		return sameError(len(batch), context.Cause(ctx))
	}
}

// next returns the next delivery.
func (b *bench) next() *request {
	b.t.Helper()
	synctest.Wait()
	if len(b.requests) == 0 {
		b.t.Fatal("nothing was sent")
	}
	return <-b.requests
}

// sent returns the next delivery and checks what it carries.
func (b *bench) sent(ids ...string) *request {
	b.t.Helper()
	r := b.next()
	if !slices.Equal(r.ids, ids) {
		b.t.Fatalf("sent %q, want %q", r.ids, ids)
	}
	return r
}

// together makes the messages ready at once.
func (b *bench) together(chains ...*chain) {
	b.t.Helper()
	b.closed.Store(true)
	for _, c := range chains {
		c.handle()
	}
	b.silent()
	b.closed.Store(false)
	b.gate.Kick()
}

// silent checks that nothing more is sent.
func (b *bench) silent() {
	b.t.Helper()
	synctest.Wait()
	if len(b.requests) > 0 {
		b.t.Fatalf("%q was sent too early", (<-b.requests).ids)
	}
}

// chain is a message at the gate of a bench.
type chain struct {
	Ticket
	bench *bench
	msg   *message.Message
	ended chan error
}

// enter gives a new message its place.
func (b *bench) enter(id, group, address string) *chain {
	msg := message.NewMessage(id, []byte(id))
	if address != "" {
		msg.Metadata["address"] = address
	}
	c := &chain{bench: b, msg: msg, ended: make(chan error, 1)}
	c.Owner = c
	b.gate.Enter(&c.Ticket, group)
	return c
}

// handle runs the chain to the gate; its end is awaited with result.
func (c *chain) handle() *chain {
	c.bench.t.Helper()
	if c.bench.offers {
		c.bench.gate.Offer([]Offered{{Ticket: &c.Ticket, Message: c.msg}})
	} else {
		ended := c.ended
		go func() { ended <- c.bench.gate.Handle(&c.Ticket, c.msg) }()
	}
	synctest.Wait()
	return c
}

// result returns what the chain ended with.
func (c *chain) result() error {
	c.bench.t.Helper()
	synctest.Wait()
	select {
	case err := <-c.ended:
		return err
	default:
		c.bench.t.Fatalf("message %s still waits", c.msg.UUID)
		return nil
	}
}

// waits checks that the chain has not ended.
func (c *chain) waits() {
	c.bench.t.Helper()
	synctest.Wait()
	if len(c.ended) > 0 {
		c.bench.t.Fatalf("message %s was woken: %v", c.msg.UUID, <-c.ended)
	}
}

// empty checks that the gate holds nothing.
func (b *bench) empty() {
	b.t.Helper()
	synctest.Wait()
	if problem := leftover(b.gate); problem != "" {
		b.t.Fatal(problem)
	}
}

// leftover describes what an idle gate should not hold.
func leftover(g *Gate) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.groups) > 0 || len(g.pipes) > 0 || g.workers > 0 || len(g.batches) > 0 || len(g.reserved) > 0 {
		return fmt.Sprintf("the gate still holds %d groups, %d pipes, %d workers, %d batches and %d messages that were lent",
			len(g.groups), len(g.pipes), g.workers, len(g.batches), len(g.reserved))
	}
	return ""
}

// wantKind checks an error's kind.
func wantKind(t *testing.T, err error, kind outbox.Kind) {
	t.Helper()
	if err == nil || outbox.KindOf(err) != kind {
		t.Fatalf("got %v, want an error of kind %s", err, kind)
	}
}

func wantNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want success", err)
	}
}

// elapse lets virtual time pass. Many goroutines of a bubble that receive from
// a timer's channel at once bring the race detector of Go 1.26 down (SIGSEGV).
func elapse(d time.Duration) {
	time.Sleep(d)
}

var (
	wave     = adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: 100}
	perGroup = adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 100}
)

// bubble runs a test with virtual time, beside others.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// setup is how a test uses its gate.
type setup struct {
	adapters.Ordering
	offers bool // messages are offered, and no chain waits
}

// inBubbles runs a test for both units, with chains that wait and without.
func inBubbles(t *testing.T, f func(t *testing.T, ordering setup)) {
	t.Helper()
	inChains(t, f)
	for name, ordering := range map[string]adapters.Ordering{"wave offered": wave, "group offered": perGroup} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { f(t, setup{ordering, true}) })
		})
	}
}

// inChains runs a test for both units, with chains that wait.
func inChains(t *testing.T, f func(t *testing.T, ordering setup)) {
	t.Helper()
	t.Parallel()
	for name, ordering := range map[string]adapters.Ordering{"wave": wave, "group": perGroup} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { f(t, setup{ordering, false}) })
		})
	}
}
