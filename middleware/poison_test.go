package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	stock "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

func TestPoisonOnLaneHolds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in        error
		exhausted bool
		text      string
	}{
		"permanent":   {outbox.Permanent(errBoom), false, "boom (no further attempts)"},
		"exhausted":   {outbox.Exhaust(errBoom), true, "boom (no further attempts)"},
		"dead letter": {outbox.DeadLetter(errBoom, false), false, "boom (no further attempts)"},
		"held":        {outbox.DeadLetter(errBoom, true), false, "boom (no further attempts)"},
		"wrapped":     {fmt.Errorf("route: %w", outbox.Exhaust(errBoom)), true, "route: boom (no further attempts) (no further attempts)"},
	} {
		publisher := &recorder{}
		h, _ := returning(c.in)
		_, err := middleware.Poison{Hold: true, Publisher: publisher, Topic: "poison"}.Middleware(h)(newMessage(onLane(1)))
		v := wantVerdict(t, err, outbox.OutcomeDead)
		if !v.Hold || v.Exhausted != c.exhausted || !errors.Is(err, errBoom) {
			t.Errorf("%s: %+v, want held, exhausted %v, caused by boom", name, v, c.exhausted)
		}
		if err.Error() != c.text {
			t.Errorf("%s: error %q, want %q", name, err, c.text)
		}
		if len(publisher.published()) != 0 {
			t.Errorf("%s: published on a lane", name)
		}
	}
}

func TestPoisonOnLanePassesTheRest(t *testing.T) {
	t.Parallel()
	for _, hold := range []bool{true, false} {
		for _, in := range []error{
			nil, errBoom, context.Canceled, outbox.Skip("duplicate"), outbox.Released(errBoom),
			outbox.Unavailable(errBoom, 0), outbox.Gone(errBoom), outbox.RetryAt(time.Now(), errBoom),
		} {
			h, _ := returning(in)
			_, err := middleware.Poison{Hold: hold}.Middleware(h)(newMessage(onLane(1)))
			if err != in { //nolint:errorlint // identity is the point
				t.Errorf("hold %v: %v became %v", hold, in, err)
			}
		}
	}
	dead := outbox.Exhaust(errBoom)
	h, _ := returning(dead)
	if _, err := (middleware.Poison{}).Middleware(h)(newMessage(onLane(1))); err != dead { //nolint:errorlint // identity is the point
		t.Errorf("continue: %v became %v", dead, err)
	}
}

func TestPoisonPublishesTheDeadOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in     error
		dead   bool
		passes bool
	}{
		"delivered":           {in: nil, passes: true},
		"transient":           {in: errBoom, passes: true},
		"unavailable":         {in: outbox.Unavailable(errBoom, 0), passes: true},
		"released":            {in: outbox.Released(outbox.Transient(errBoom, 0)), passes: true},
		"cancelled":           {in: fmt.Errorf("send: %w", context.Canceled), passes: true},
		"permanent cancelled": {in: outbox.Permanent(context.Canceled), passes: true},
		"exhausted cancelled": {in: outbox.Exhaust(outbox.Transient(context.Canceled, 0)), passes: true},
		"timed out":           {in: context.DeadlineExceeded, passes: true},
		"skip":                {in: outbox.Skip("duplicate")},
		"permanent":           {in: outbox.Permanent(errBoom), dead: true},
		"exhausted":           {in: outbox.Exhaust(errBoom), dead: true},
	} {
		publisher := &recorder{}
		h, _ := returning(c.in)
		_, err := middleware.Poison{Publisher: publisher, Topic: "poison"}.Middleware(h)(newMessage(t.Context()))
		if c.passes && err != c.in || !c.passes && err != nil { //nolint:errorlint // identity is the point
			t.Errorf("%s: returned %v", name, err)
		}
		if dead := len(publisher.published()) == 1; dead != c.dead {
			t.Errorf("%s: published %v, want %v", name, dead, c.dead)
		}
	}
}

func TestPoisonWithoutPublisherReturnsTheError(t *testing.T) {
	t.Parallel()
	in := outbox.Permanent(errBoom)
	h, _ := returning(in)
	if _, err := (middleware.Poison{Hold: true}).Middleware(h)(newMessage(t.Context())); err != in { //nolint:errorlint // identity is the point
		t.Errorf("returned %v", err)
	}
}

// The message that comes back must not look poisoned, and the failure of a
// publisher must not count as a message taken care of.
func TestPoisonThatCannotPublishGivesTheMessageBack(t *testing.T) {
	t.Parallel()
	errBroker := errors.New("broker is away")
	for _, c := range []struct {
		poison middleware.Poison
		want   string
	}{
		{
			middleware.Poison{Publisher: &recorder{err: errBroker}, Topic: "poison"},
			`poison: publish to topic "poison": broker is away; the message is dead because: boom`,
		},
		{
			middleware.Poison{Publisher: &recorder{}},
			"poison: a publisher is set, but no topic: set the topic for dead messages\nboom",
		},
	} {
		h, _ := returning(outbox.Permanent(errBoom))
		msg := newMessage(t.Context())
		_, err := c.poison.Middleware(h)(msg)
		wantInvalid(t, err, c.want)
		if !errors.Is(err, errBoom) {
			t.Errorf("%v hides the cause", err)
		}
		if len(msg.Metadata) != 0 {
			t.Errorf("the message was given back with metadata %v", msg.Metadata)
		}
	}
}

func TestPoisonInRouterPublishesWithTheReasonAndAcks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		publisher := &recorder{}
		h, calls := returning(errBoom)
		b := startRouter(t, h,
			middleware.Poison{Publisher: publisher, Topic: "poison"}.Middleware,
			steady.Middleware,
			stock.Timeout(time.Minute))
		msg := newMessage(t.Context())
		msg.Metadata.Set("own", "kept")
		b.publish(msg)
		defer b.stop()
		<-time.After(time.Minute)
		synctest.Wait()
		if len(publisher.published()) != 1 || calls.Load() != 3 {
			t.Fatalf("%d published after %d attempts, want 1 after 3", len(publisher.published()), calls.Load())
		}
		got := publisher.published()[0]
		if publisher.topics[0] != "poison" || got.UUID != msg.UUID || string(got.Payload) != string(msg.Payload) {
			t.Errorf("published %+v to %v", got, publisher.topics)
		}
		for key, want := range map[string]string{
			"own":                       "kept",
			stock.ReasonForPoisonedKey:  "attempt 3 of 3: boom (no further attempts)",
			stock.PoisonedTopicKey:      "in",
			stock.PoisonedHandlerKey:    "handler",
			stock.PoisonedSubscriberKey: "gochannel.GoChannel",
		} {
			if got := got.Metadata.Get(key); got != want {
				t.Errorf("metadata %s is %q, want %q", key, got, want)
			}
		}
		d, ok := outbox.DeathOf(got.Metadata)
		if age := time.Since(d.At); !ok || age < 0 || age > time.Minute {
			t.Errorf("it died %v ago (%v)", age, ok)
		}
		d.At = time.Time{}
		want := outbox.Death{Reason: outbox.DeathExhausted, Error: "attempt 3 of 3: boom (no further attempts)", Attempts: 3, Route: "handler"}
		if d != want {
			t.Errorf("it died of %+v, want %+v", d, want)
		}
	})
}

// The trap of Watermill's PoisonQueue: a program that ends while messages are
// on their way must not poison them, whatever their handlers make of it.
func TestG1_PoisonInRouterPoisonsNothingOnShutdown(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(error) error{
		"as it is":     func(err error) error { return err },
		"wrapped":      func(err error) error { return fmt.Errorf("send: %w", err) },
		"permanent":    outbox.Permanent,
		"another text": func(err error) error { return errors.New(strings.ToUpper(err.Error())) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				publisher := &recorder{}
				b := startRouter(t, func(msg *message.Message) ([]*message.Message, error) {
					<-msg.Context().Done() // the subscriber's, which ends with the router
					return nil, wrap(msg.Context().Err())
				}, middleware.Poison{Publisher: publisher, Topic: "poison"}.Middleware,
					middleware.Retry{Attempts: 1}.Middleware)
				b.publish(newMessage(t.Context()))
				synctest.Wait()
				b.stop()
				if n := len(publisher.published()); n != 0 {
					t.Errorf("%d messages poisoned", n)
				}
			})
		})
	}
}

func TestPoisonValidate(t *testing.T) {
	t.Parallel()
	wantInvalid(t, middleware.Poison{Hold: true}.Validate(), "")
	wantInvalid(t, middleware.Poison{Publisher: &recorder{}, Topic: "poison"}.Validate(), "")
	wantInvalid(t, middleware.Poison{Publisher: &recorder{}}.Validate(),
		"poison: a publisher is set, but no topic: set the topic for dead messages")
	wantInvalid(t, middleware.Poison{Topic: "poison"}.Validate(),
		`poison: topic "poison" is set, but no publisher: set the publisher, or no topic`)
}
