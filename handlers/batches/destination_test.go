package batches_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/handlers/batches"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// publisher is a program's own.
type publisher struct {
	mu   sync.Mutex
	sick bool
	err  error
	got  []outbox.Envelope
}

func (*publisher) Name() string { return "mine" }

func (p *publisher) IsHealthy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.sick
}

func (p *publisher) PublishBatch(_ context.Context, events []outbox.Envelope) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	p.got = append(p.got, events...)
	return nil
}

func (p *publisher) received(*testing.T, string) (out []adaptertest.Received) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.got {
		out = append(out, adaptertest.Received{ID: e.ID(), Type: e.Type(), Payload: e.Payload()})
	}
	return out
}

func TestDestination(t *testing.T) {
	t.Parallel()
	adaptertest.Destination(t, func(*testing.T) adaptertest.Harness {
		p := &publisher{}
		return adaptertest.Harness{Destination: batches.Destination(p), Addresses: []string{"mine"}, Received: p.received, Opaque: true}
	})
}

func events(ids ...string) (out []*message.Message) {
	for _, id := range ids {
		out = append(out, message.NewMessage(id, []byte("1")))
	}
	return out
}

// A batch is taken or refused as a whole, by the kind of the error.
func TestPublisherTakesOrRefusesAll(t *testing.T) {
	t.Parallel()
	p := &publisher{}
	d := batches.Destination(p)
	for _, c := range []struct {
		sick     bool
		err      error
		kind     outbox.Kind
		answered bool
		says     string
	}{
		{sick: true, kind: outbox.KindUnavailable, says: "publisher mine reports that it is not healthy"},
		{err: errors.New("full"), kind: outbox.KindTransient, answered: true, says: "publisher mine: full"},
		{err: outbox.Permanent(errors.New("too large")), kind: outbox.KindPermanent, says: "too large"},
		{err: outbox.Unavailable(errors.New("closed"), 0), kind: outbox.KindUnavailable, says: "closed"},
	} {
		p.sick, p.err = c.sick, c.err
		errs := d.Deliver(t.Context(), "mine", events("1", "2"))
		if len(errs) != 2 {
			t.Fatalf("%v: %d errors", c, len(errs))
		}
		for _, err := range errs {
			known := new(outbox.Error)
			if !errors.As(err, &known) || known.Kind != c.kind || known.Answered != c.answered || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: the error is %v", c, err)
			}
		}
	}
	p.sick, p.err = false, nil
	if errs := d.Deliver(t.Context(), "mine", events("1", "2", "3")); errs != nil {
		t.Error(errs)
	}
	got := []string{}
	for _, r := range p.received(t, "") {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("published %v", got)
	}
}

type panicking struct{ publisher }

func (*panicking) PublishBatch(context.Context, []outbox.Envelope) error { panic("boom") }

func TestPublisherThatPanicsFailsTheAttempt(t *testing.T) {
	t.Parallel()
	errs := batches.Destination(&panicking{}).Deliver(t.Context(), "mine", events("1"))
	if len(errs) != 1 || outbox.KindOf(errs[0]) != outbox.KindTransient || !strings.Contains(errs[0].Error(), "boom") {
		t.Errorf("%v", errs)
	}
}

// A message that is no event is dead; the others of its batch come again.
func TestUnreadableEventIsDeadAlone(t *testing.T) {
	t.Parallel()
	p, batch := &publisher{}, events("1", "2")
	batch[1].Metadata[outbox.MetaTags] = "["
	errs := batches.Destination(p).Deliver(t.Context(), "mine", batch)
	if len(errs) != 2 || outbox.KindOf(errs[0]) != outbox.KindReleased || outbox.KindOf(errs[1]) != outbox.KindPermanent || len(p.got) > 0 {
		t.Errorf("%v, published %v", errs, p.got)
	}
}
