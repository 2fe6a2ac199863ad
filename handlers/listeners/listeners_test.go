package listeners_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/sony/gobreaker/v2"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type order struct{ Total int }

type aggregate string

const (
	orderCreated outbox.Type[order] = "order.created"
	orders       aggregate          = "order"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func destination(t *testing.T, r *listeners.Registry) adapters.Destination {
	t.Helper()
	d, err := r.Destination(0)
	must(t, err)
	return d
}

// event is a message as a lane makes it.
func event(typ, aggregateType, payload string) *message.Message {
	return adapters.NewMessage(&adapters.Row{ID: "1", Type: typ, AggregateType: aggregateType, Group: "g", Payload: []byte(payload)}, "r/00")
}

// deliver delivers one message, and returns its error.
func deliver(ctx context.Context, d adapters.Destination, msg *message.Message) error {
	if errs := d.Deliver(ctx, "", []*message.Message{msg}); errs != nil {
		return errs[0]
	}
	return nil
}

func TestConformance(t *testing.T) {
	t.Parallel()
	adaptertest.Destination(t, func(t *testing.T) adaptertest.Harness {
		var mu sync.Mutex
		var gate chan struct{} // nil: open
		taken, rejected := map[string][]adaptertest.Received{}, map[string]bool{}
		r := listeners.New()
		listeners.Listen(r, listeners.Any, func(ctx context.Context, e outbox.Envelope) error {
			mu.Lock()
			wait := gate
			mu.Unlock()
			if wait != nil {
				select {
				case <-wait:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if rejected[e.ID()] {
				return outbox.Permanent(errors.New("refused"))
			}
			taken["all"] = append(taken["all"], adaptertest.Received{ID: e.ID(), Type: e.Type(), Payload: e.Payload()})
			return nil
		})
		locked := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
		return adaptertest.Harness{
			Destination: destination(t, r), Addresses: []string{"all"}, Opaque: true,
			Received: func(_ *testing.T, at string) (got []adaptertest.Received) {
				locked(func() { got = slices.Clone(taken[at]) })
				return got
			},
			Reject: func(id string) { locked(func() { rejected[id] = true }) },
			Hang: func(*testing.T) func() {
				hung := make(chan struct{})
				locked(func() { gate = hung })
				return func() { locked(func() { gate = nil }); close(hung) }
			},
		}
	})
}

func TestListenersRunFromExactToWildcardInOrderOfRegistration(t *testing.T) {
	t.Parallel()
	r := listeners.New()
	var ran []string
	note := func(name string) func(context.Context, outbox.Envelope) error {
		return func(context.Context, outbox.Envelope) error { ran = append(ran, name); return nil }
	}
	listeners.Listen(r, listeners.Any, note("all 1"))
	listeners.Listen(r, listeners.Any, note("orders"), listeners.OfAggregate(orders))
	listeners.Listen(r, "order.created", note("created 1"))
	listeners.Listen(r, "order.created", note("both 1"), listeners.OfAggregate(orders))
	listeners.Listen(r, "order.paid", note("paid"))
	listeners.Listen(r, listeners.Any, note("all 2"))
	listeners.Listen(r, "order.created", note("both 2"), listeners.OfAggregate("order"))
	listeners.Listen(r, "order.created", note("created 2"))
	d := destination(t, r)
	for _, tt := range []struct{ typ, aggregate, want string }{
		{"order.created", "order", "both 1, both 2, created 1, created 2, orders, all 1, all 2"},
		{"order.created", "", "created 1, created 2, all 1, all 2"},
		{"order.cancelled", "order", "orders, all 1, all 2"},
		{"order", "", "all 1, all 2"},
	} {
		ran = nil
		must(t, deliver(t.Context(), d, event(tt.typ, tt.aggregate, "{}")))
		if got := strings.Join(ran, ", "); got != tt.want {
			t.Errorf("%s of %q: %s, want %s", tt.typ, tt.aggregate, got, tt.want)
		}
	}
}

func TestAnEventWithoutListenerIsDelivered(t *testing.T) {
	t.Parallel()
	r := listeners.New()
	d := destination(t, r)
	must(t, deliver(t.Context(), d, event("order.created", "", "{}")))
	called := false
	listeners.Listen(r, orderCreated, func(context.Context, order) error { called = true; return nil })
	must(t, deliver(t.Context(), d, event("order.created", "", "{}"))) // registered while at work
	if !called {
		t.Error("a listener that was added later is not called")
	}
}

type number struct{ n byte }

func (n *number) UnmarshalBinary(b []byte) error {
	if len(b) != 1 {
		return errors.New("one byte")
	}
	n.n = b[0]
	return nil
}

func TestPayloadsAreDecoded(t *testing.T) {
	t.Parallel()
	r := listeners.New()
	got := map[string]any{}
	listeners.Listen(r, orderCreated, func(ctx context.Context, o order) error {
		e, ok := listeners.EnvelopeOf(ctx)
		got["order"] = fmt.Sprintln(o.Total, e.Type(), e.Group(), ok)
		return nil
	})
	listeners.Listen(r, "order.created", func(_ context.Context, raw []byte) error { got["bytes"] = string(raw); return nil })
	listeners.Listen(r, "order.created", func(_ context.Context, e outbox.Envelope) error { got["envelope"] = string(e.Payload()); return nil })
	listeners.Listen(r, "number", func(_ context.Context, n number) error { got["number"] = n.n; return nil })
	listeners.Listen(r, "text", func(_ context.Context, s string) error { got["text"] = s; return nil })
	d := destination(t, r)
	must(t, deliver(t.Context(), d, event("order.created", "", `{"total": 7}`)))
	binary := event("number", "", "\x07")
	binary.Metadata[outbox.MetaEncoding] = outbox.EncodingBytes
	must(t, deliver(t.Context(), d, binary))
	want := map[string]any{"order": "7 order.created g true\n", "bytes": `{"total": 7}`, "envelope": `{"total": 7}`, "number": byte(7)}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, msg := range map[string]*message.Message{
		"order.created #1": event("order.created", "", `{"total": "many"}`),
		"text #5":          event("text", "", `{`),
		"number #4":        binary,
	} {
		msg.Payload = append(msg.Payload, ' ', ' ')
		err := deliver(t.Context(), d, msg)
		if outbox.KindOf(err) != outbox.KindPermanent || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, ok := listeners.EnvelopeOf(t.Context()); ok {
		t.Error("there is an event outside of a listener")
	}
}

func TestFailuresOfListeners(t *testing.T) {
	t.Parallel()
	failure := errors.New("no stock")
	later := outbox.Transient(failure, time.Minute)
	for name, tt := range map[string]struct {
		fail     func() error
		kind     outbox.Kind
		answered bool
	}{
		"plain":             {func() error { return failure }, outbox.KindTransient, true},
		"later":             {func() error { return later }, outbox.KindTransient, true},
		"its own context":   {func() error { return context.Canceled }, outbox.KindTransient, true},
		"its own deadline":  {func() error { return context.DeadlineExceeded }, outbox.KindTransient, true},
		"panic":             {func() error { panic(failure) }, outbox.KindTransient, true},
		"goexit":            {func() error { runtime.Goexit(); return nil }, outbox.KindTransient, true},
		"permanent":         {func() error { return outbox.Permanent(failure) }, outbox.KindPermanent, false},
		"unavailable":       {func() error { return outbox.Unavailable(failure, 0) }, outbox.KindUnavailable, false},
		"breaker":           {func() error { return gobreaker.ErrOpenState }, outbox.KindUnavailable, false},
		"decided elsewhere": {func() error { return outbox.DeadLetter(failure, true) }, outbox.KindTransient, false},
	} {
		r := listeners.New()
		ran := ""
		listeners.Listen(r, "t", func(context.Context, []byte) error { ran += "a"; return nil })
		listeners.Listen(r, "t", func(context.Context, []byte) error { ran += "b"; return tt.fail() }, listeners.Named("stock"))
		listeners.Listen(r, "t", func(context.Context, []byte) error { ran += "c"; return nil })
		err := deliver(t.Context(), destination(t, r), event("t", "", "{}"))
		if outbox.KindOf(err) != tt.kind || outbox.AnsweredBy(err) != tt.answered || !strings.Contains(err.Error(), `listener "stock"`) || ran != "ab" {
			t.Errorf("%s: %v (%v, answered %v), ran %s", name, err, outbox.KindOf(err), outbox.AnsweredBy(err), ran)
		}
		if v := outbox.VerdictOf(err); name == "later" && v.RetryAfter != time.Minute || name == "decided elsewhere" && !v.Hold {
			t.Errorf("%s: verdict %+v", name, v)
		}
	}
}

func TestAListenerWhoseDeliveryIsCalledOffIsReleased(t *testing.T) {
	t.Parallel()
	r := listeners.New()
	begun := make(chan struct{})
	listeners.Listen(r, "t", func(ctx context.Context, _ []byte) error { close(begun); <-ctx.Done(); return ctx.Err() })
	d := destination(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if err := deliver(ctx, d, event("t", "", "{}")); outbox.KindOf(err) != outbox.KindReleased {
		t.Errorf("got %v", err)
	}
}

// What one listener's middleware changes, no other listener sees.
func TestEachListenerHasItsOwnMiddleware(t *testing.T) {
	t.Parallel()
	r := listeners.New()
	var ran []string
	mw := func(name string) message.HandlerMiddleware {
		return func(next message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				ran = append(ran, name)
				msg.Payload = append([]byte(nil), "changed"...)
				msg.Metadata.Set("by", name)
				_, err := next(msg)
				if err == nil && name == "outer" {
					return []*message.Message{msg}, nil // produced: dropped
				}
				return nil, nil // swallowed
			}
		}
	}
	take := func(_ context.Context, e outbox.Envelope) error {
		ran = append(ran, string(e.Payload())+e.Headers()["by"])
		return errors.New("swallowed by the middleware of this listener")
	}
	listeners.Listen(r, "t", take, listeners.With(mw("outer")), listeners.With(mw("inner")))
	listeners.Listen(r, "t", func(_ context.Context, e outbox.Envelope) error {
		ran = append(ran, string(e.Payload())+e.Headers()["by"])
		return nil
	})
	must(t, deliver(t.Context(), destination(t, r), event("t", "", "{}")))
	if want := []string{"outer", "inner", "changedinner", "{}"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
}

func TestListenersSeeTheValuesOfTheirMessage(t *testing.T) {
	t.Parallel()
	type key struct{}
	r := listeners.New()
	listeners.Listen(r, "t", func(ctx context.Context, _ []byte) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if ctx.Value(key{}) != "span" || ctx.Value("nothing") != nil {
			t.Errorf("value %v", ctx.Value(key{}))
		}
		return nil
	})
	msg := event("t", "", "{}")
	msg.SetContext(context.WithValue(t.Context(), key{}, "span"))
	must(t, deliver(t.Context(), destination(t, r), msg))
}

func TestRegistrationsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	var none func(context.Context, []byte) error
	some := func(context.Context, []byte) error { return nil }
	r := listeners.New()
	listeners.Listen(r, "t", none)
	listeners.Listen(r, "", some)
	listeners.Listen(r, "t", some, listeners.OfAggregate(""))
	listeners.Listen(r, "t", some, listeners.With(nil), listeners.Named("mine"))
	_, err := r.Destination(1)
	for _, want := range []string{`"t #1": the function is nil`, "event type is empty", "aggregate type is empty", `"mine": a middleware is nil`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}
