package middleware_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	stock "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker"

	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// ours is the default stack of a route, with a Throttle.
func ours(poison middleware.Poison) []message.HandlerMiddleware {
	return []message.HandlerMiddleware{
		poison.Middleware,
		(&middleware.Throttle{Rate: 100, Burst: 10}).Middleware,
		steady.Middleware,
		middleware.Timeout{Limit: 10 * time.Second}.Middleware,
	}
}

// theirs is what Watermill brings along. The breaker opens after three failures
// in a row, for 30 s.
func theirs() []message.HandlerMiddleware {
	return []message.HandlerMiddleware{
		stock.Recoverer,
		stock.CorrelationID,
		stock.NewThrottle(100, time.Second).Middleware,
		stock.NewCircuitBreaker(gobreaker.Settings{
			Timeout:     30 * time.Second,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
		}).Middleware,
		stock.Timeout(20 * time.Second),
	}
}

// inBothOrders runs the test with our middleware outside of Watermill's, and
// the other way round.
func inBothOrders(
	t *testing.T,
	test func(t *testing.T, oursOutside bool, stack func(middleware.Poison) []message.HandlerMiddleware),
) {
	t.Helper()
	for _, oursOutside := range []bool{true, false} {
		t.Run(fmt.Sprintf("ours outside %v", oursOutside), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				test(t, oursOutside, func(poison middleware.Poison) []message.HandlerMiddleware {
					if oursOutside {
						return slices.Concat(ours(poison), theirs())
					}
					return slices.Concat(theirs(), ours(poison))
				})
			})
		})
	}
}

// moody handles messages as their ids say; those that fail do so once, unless
// they are bad. It answers each with a message of the same id.
func moody() message.HandlerFunc {
	var seen sync.Map
	return func(msg *message.Message) ([]*message.Message, error) {
		_, again := seen.LoadOrStore(msg.UUID, true)
		first := !again
		switch {
		case msg.UUID == "bad":
			return nil, outbox.Permanent(errBoom)
		case msg.UUID == "skipped":
			return nil, outbox.Skip("filtered")
		case msg.UUID == "flaky" && first:
			return nil, errBoom
		case msg.UUID == "panics" && first:
			return explode(msg)
		case msg.UUID == "slow" && first:
			<-msg.Context().Done()
			return nil, msg.Context().Err()
		}
		return message.Messages{message.NewMessage(msg.UUID, nil)}, nil
	}
}

func TestTogetherInRouter(t *testing.T) {
	t.Parallel()
	inBothOrders(t, func(t *testing.T, _ bool, stack func(middleware.Poison) []message.HandlerMiddleware) {
		t.Helper()
		publisher := &recorder{}
		tracing, spans := recording(t)
		mws := slices.Concat(
			[]message.HandlerMiddleware{
				tracing.Middleware, (&middleware.Metrics{Registerer: prometheus.NewPedanticRegistry()}).Middleware,
				(&middleware.Dedupe{}).Middleware,
			},
			stack(middleware.Poison{Publisher: publisher, Topic: "poison"}),
			[]message.HandlerMiddleware{(&middleware.Breaker{Logger: quiet}).Middleware},
		)
		b := startRouter(t, moody(), mws...)
		defer b.stop()
		out, err := b.pubsub.Subscribe(t.Context(), "out")
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"fine", "bad", "flaky", "panics", "skipped", "slow"} {
			msg := message.NewMessage(id, nil)
			stock.SetCorrelationID("of "+id, msg)
			b.publish(msg)
			b.publish(msg.Copy()) // a duplicate
		}
		got := map[string]int{}
		for range 4 {
			msg := <-out
			got[msg.UUID]++
			if id := stock.MessageCorrelationID(msg); id != "of "+msg.UUID {
				t.Errorf("%s: correlation id %q", msg.UUID, id)
			}
			msg.Ack()
		}
		<-time.After(time.Hour) // anything that came back would come again
		synctest.Wait()
		if want := "map[fine:1 flaky:1 panics:1 slow:1]"; fmt.Sprint(got) != want {
			t.Errorf("handled %v, want %v", got, want)
		}
		if dead := publisher.published(); len(dead) != 1 || dead[0].UUID != "bad" {
			t.Errorf("poisoned %v, want the bad one", dead)
		}
		select {
		case msg := <-out:
			t.Errorf("%s was handled again", msg.UUID)
		default:
		}
		if n := len(spans.Ended()); n < 12 {
			t.Errorf("%d spans of 12 messages", n)
		}
	})
}

// What a lane concludes from the whole stack, in either order.
func TestTogetherOnLane(t *testing.T) {
	t.Parallel()
	inBothOrders(t, func(t *testing.T, oursOutside bool, stack func(middleware.Poison) []message.HandlerMiddleware) {
		t.Helper()
		mws := stack(middleware.Poison{Hold: true})
		for _, c := range []struct {
			name    string
			attempt int
			h       message.HandlerFunc
			want    outbox.Outcome
		}{
			{"delivered", 1, failing(nil), outbox.OutcomeDelivered},
			{"transient", 1, failing(errBoom), outbox.OutcomeRetry},
			{"delivered", 1, failing(nil), outbox.OutcomeDelivered},
			{"exhausted", 3, failing(errBoom), outbox.OutcomeDead},
			{"permanent", 1, failing(outbox.Permanent(errBoom)), outbox.OutcomeDead},
			{"delivered", 1, failing(nil), outbox.OutcomeDelivered},
			{"skipped", 1, failing(outbox.Skip("filtered")), outbox.OutcomeSkipped},
			{"released", 1, failing(outbox.Released(errBoom)), outbox.OutcomeReleased},
			{"delivered", 1, failing(nil), outbox.OutcomeDelivered},
			{"timed out", 1, func(msg *message.Message) ([]*message.Message, error) {
				<-msg.Context().Done()
				return nil, msg.Context().Err()
			}, outbox.OutcomeRetry},
			{"panic", 1, explode, outbox.OutcomeRetry},
			// The third failure in a row opens the breaker.
			{"unavailable", 3, failing(outbox.Unavailable(errBoom, 0)), outbox.OutcomeUnavailable},
			{"breaker open", 3, failing(nil), outbox.OutcomeUnavailable},
		} {
			_, err := chain(c.h, mws...)(newMessage(onLane(c.attempt)))
			v := outbox.VerdictOf(err)
			if v.Outcome != c.want {
				t.Errorf("%s: verdict %v of error %v, want %v", c.name, v.Outcome, err, c.want)
			}
			// A panic that only Watermill's outermost Recoverer stops has
			// passed Retry by; the router's own backoff applies.
			decided := oursOutside || c.name != "panic"
			if v.Outcome == outbox.OutcomeRetry && v.At.IsZero() == decided {
				t.Errorf("%s: next attempt at %v", c.name, v.At)
			}
			if v.Outcome == outbox.OutcomeDead && (!v.Hold || v.Exhausted != (c.name == "exhausted")) {
				t.Errorf("%s: %+v", c.name, v)
			}
		}
	})
}

func failing(err error) message.HandlerFunc {
	h, _ := returning(err)
	return h
}
