package watermill

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// publisher keeps what is published and fails or hangs when told to.
type publisher struct {
	mu       sync.Mutex
	taken    map[string][]adaptertest.Received
	exists   map[string]bool
	rejected map[string]bool
	gate     chan struct{} // nil: open
	down     bool
	closed   int
}

var (
	errMissing  = errors.New("no such topic")
	errRejected = errors.New("cannot take this message")
)

func (p *publisher) Publish(topic string, msgs ...*message.Message) error {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	if gate != nil {
		<-gate // like a publisher that ignores contexts
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, msg := range msgs {
		switch {
		case p.down, !p.exists[topic]:
			return errMissing
		case p.rejected[msg.UUID]:
			return errRejected
		}
		p.taken[topic] = append(p.taken[topic], adaptertest.Received{
			ID: msg.UUID, Type: msg.Metadata[outbox.MetaType], Position: msg.Metadata[outbox.MetaPosition],
			Lane: msg.Metadata[outbox.MetaLane], Payload: msg.Payload,
		})
	}
	return nil
}

func (p *publisher) Close() error { p.closed++; return nil }

func (p *publisher) locked(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func classify(_ string, err error) error {
	switch {
	case errors.Is(err, errMissing):
		return outbox.Unavailable(err, 0)
	case errors.Is(err, errRejected):
		return outbox.Permanent(err)
	}
	return err
}

func TestConformance(t *testing.T) {
	t.Parallel()
	adaptertest.Destination(t, func(t *testing.T) adaptertest.Harness {
		p := &publisher{
			taken: map[string][]adaptertest.Received{}, exists: map[string]bool{"a": true, "b": true},
			rejected: map[string]bool{},
		}
		d, err := New(p, Config{Topic: "{{.Type}}", Classify: classify})
		if err != nil {
			t.Fatal(err)
		}
		return adaptertest.Harness{
			Destination: d,
			Addresses:   []string{"a", "b"},
			Received: func(_ *testing.T, topic string) (got []adaptertest.Received) {
				p.locked(func() { got = append(got, p.taken[topic]...) })
				return got
			},
			Missing: "missing",
			Create:  func(*testing.T) { p.locked(func() { p.exists["missing"] = true }) },
			Reject:  func(id string) { p.locked(func() { p.rejected[id] = true }) },
			Hang: func(*testing.T) func() {
				gate := make(chan struct{})
				p.locked(func() { p.gate = gate })
				return func() { p.locked(func() { p.gate = nil }); close(gate) }
			},
			Break: func(*testing.T) func() {
				p.locked(func() { p.down = true })
				return func() { p.locked(func() { p.down = false }) }
			},
		}
	})
}

// failing answers every publish with one error.
type failing struct{ err error }

func (f failing) Publish(string, ...*message.Message) error { return f.err }
func (f failing) Close() error                              { return nil }

func TestErrorsKeepTheirKind(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	for _, test := range []struct {
		err      error
		classify func(string, error) error
		want     outbox.Kind
	}{
		{plain, nil, outbox.KindTransient},
		{outbox.Gone(plain), classify, outbox.KindGone},
		{errMissing, classify, outbox.KindUnavailable},
	} {
		d, err := New(failing{test.err}, Config{Topic: "t", Classify: test.classify})
		if err != nil {
			t.Fatal(err)
		}
		msgs := []*message.Message{message.NewMessage("1", nil), message.NewMessage("2", nil)}
		msgs[1].Metadata[outbox.MetaGroup] = "g"
		msgs = append(msgs, msgs[1].Copy())
		errs := d.Deliver(t.Context(), "t", msgs)
		if outbox.KindOf(errs[0]) != test.want || outbox.KindOf(errs[1]) != test.want {
			t.Errorf("%v becomes %v, want %v", test.err, errs[:2], test.want)
		}
		if outbox.KindOf(errs[2]) != outbox.KindReleased {
			t.Errorf("what follows in the group gets %v, want released", errs[2])
		}
	}
}

func TestCloseOnce(t *testing.T) {
	t.Parallel()
	p := &publisher{}
	d, err := New(p, Config{Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = d.Close(), d.Close()
	if p.closed != 1 {
		t.Errorf("the publisher was closed %d times", p.closed)
	}
}

func TestMessageIsCopied(t *testing.T) {
	t.Parallel()
	d, err := New(failing{}, Config{Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	msg := message.NewMessage("1", nil)
	type key struct{}
	own := context.WithValue(t.Context(), key{}, 1)
	msg.SetContext(own)
	if errs := d.Deliver(t.Context(), "t", []*message.Message{msg}); errs != nil {
		t.Fatal(errs)
	}
	if msg.Context() != own {
		t.Error("the context of the route's message was changed")
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{"topic: none given": {}, "Typ": {Topic: "{{.Typ}}"}} {
		if _, err := New(failing{}, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want an error with %q", err, want)
		}
	}
	if _, err := New(nil, Config{Topic: "t"}); err == nil {
		t.Error("New without a publisher is no error")
	}
}
