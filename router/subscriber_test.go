package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/listening"
)

// feed is a Subscriber whose messages the test hands over one by one.
type feed struct {
	out chan *message.Message
	ctx context.Context // of the subscription
}

func (f *feed) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	f.ctx = ctx
	return f.out, nil
}

func (f *feed) Close() error { return nil }

func (f *feed) send(group, id string) *message.Message {
	msg := message.NewMessage(id, []byte(`{}`))
	msg.Metadata[outbox.MetaGroup] = group
	f.out <- msg
	return msg
}

// fate tells what became of a subscriber's message.
func fate(msg *message.Message) string {
	select {
	case <-msg.Acked():
		return "acked"
	case <-msg.Nacked():
		return "nacked"
	default:
		return "open"
	}
}

func (r *rig) wantFate(msg *message.Message, want string) {
	r.t.Helper()
	if got := fate(msg); got != want {
		r.t.Errorf("%s is %s, want %s", msg.UUID, got, want)
	}
}

func (r *rig) fromFeed(change func(*Route)) (Route, *feed) {
	f := &feed{out: make(chan *message.Message)}
	return r.route(func(rt *Route) {
		rt.Source, rt.Subscriber = nil, f
		if change != nil {
			change(rt)
		}
	}), f
}

func TestG1_SubscriberNeedsAStateStore(t *testing.T) {
	t.Parallel()
	_, err := New(Config{}, []Route{{Name: "in", Subscriber: &feed{}, Destination: &receiver{}}})
	if err == nil || !strings.Contains(err.Error(), `route "in": needs a state store`) {
		t.Errorf("got %v", err)
	}
}

func TestG1_SubscriberAcks(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.dest.setFail(func(_ string, msg *message.Message) error {
			switch msg.UUID {
			case "later":
				return outbox.Transient(errInjected, time.Hour)
			case "dead":
				return outbox.Permanent(errInjected)
			case "hangs":
				time.Sleep(10 * time.Second)
			}
			return nil
		})
		route, f := r.fromFeed(with(func(msg *message.Message) error {
			if msg.UUID == "skipped" {
				return outbox.Skip("duplicate")
			}
			return nil
		}))
		r.start(route)
		delivered, skipped, hangs := f.send("a", "delivered"), f.send("b", "skipped"), f.send("d", "hangs")
		time.Sleep(time.Second)
		r.wantFate(delivered, "acked")
		r.wantFate(skipped, "acked")
		r.wantFate(hangs, "open")

		// Parked is acked when it is durable, not before.
		r.state.setFail(errors.New("the state store is down"))
		later, dead, behind := f.send("c", "later"), f.send("e", "dead"), f.send("c", "behind")
		time.Sleep(2 * time.Second)
		r.wantFate(later, "open")
		r.wantFate(dead, "open")
		r.wantFate(behind, "open")
		r.state.setFail(nil)
		time.Sleep(2 * time.Second)
		r.wantFate(later, "acked")
		r.wantFate(dead, "acked")
		r.wantFate(behind, "acked")
		r.wantParked("behind waiting 0", "dead dead 1", "later retrying 1") //nolint:dupword // a message named dead that is dead

		// What is under way at the end is finished and acked while the
		// subscription is still there to take it.
		r.cancel()
		time.Sleep(100 * time.Millisecond)
		if f.ctx.Err() != nil {
			t.Error("the subscription ended before the drain")
		}
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.wantFate(hangs, "acked")
		if f.ctx.Err() == nil {
			t.Error("the subscription did not end")
		}
	})
}

func TestG1_SubscriberNacksOnShutdown(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.dest.setFail(func(string, *message.Message) error { return outbox.Unavailable(errInjected, 0) })
		route, f := r.fromFeed(nil)
		r.start(route)
		msg, behind := f.send("a", "m"), f.send("a", "behind")
		time.Sleep(time.Second)
		r.wantFate(msg, "open")
		r.stop()
		r.wantFate(msg, "nacked")
		r.wantFate(behind, "nacked")
		r.wantParked()
	})
}

// A lane that was lost must not ack what another instance may not know of.
func TestG1_SubscriberNacksWhatWasFenced(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.config.Lease = time.Hour
		r.dest.setFail(func(string, *message.Message) error { return outbox.Permanent(errInjected) })
		route, f := r.fromFeed(nil)
		r.start(route)
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		time.Sleep(time.Second)
		r.state.mu.Lock()
		for ref, l := range r.state.lanes {
			l.Epoch++
			r.state.owner[ref] = "b"
		}
		r.state.mu.Unlock()
		msg := f.send("a", "m")
		time.Sleep(time.Second)
		r.wantFate(msg, "nacked")
		r.wantParked()
		r.stop()
	})
}

func TestG7_SubscriberStopsAtTheBudget(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.config.Memory = 1 << 20
		r.dest.setFail(func(string, *message.Message) error { return outbox.Unavailable(errInjected, 0) })
		route, f := r.fromFeed(nil)
		r.start(route)
		go func() {
			for i := range 40 {
				msg := message.NewMessage(fmt.Sprint("m", i), make([]byte, 100<<10))
				select {
				case f.out <- msg:
				case <-time.After(time.Hour):
				}
			}
		}()
		time.Sleep(time.Minute)
		if used := r.router.budget.Used.Load(); used > 1<<20 || used < 1<<19 {
			t.Errorf("%d bytes are used, want at most 1 MiB, and more than half", used)
		}
		r.dest.setFail(nil)
		r.await(40)
		r.stop()
		if used := r.router.budget.Used.Load(); used != 0 {
			t.Errorf("%d bytes were not given back", used)
		}
	})
}

func TestG1_WatermillSubscriberAsSource(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		pubsub := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
		r.dest.setFail(flaky(errInjected))
		r.start(r.route(func(rt *Route) { rt.Source, rt.Subscriber, rt.Topic = nil, pubsub, "events" }))
		<-r.router.Ready()
		time.Sleep(time.Second)
		for i := range 20 {
			msg := message.NewMessage(fmt.Sprintf("g0-%d", i), []byte(`{}`))
			msg.Metadata[outbox.MetaGroup] = "g0"
			if err := pubsub.Publish("events", msg); err != nil {
				t.Fatal(err)
			}
			r.await(i + 1)
		}
		r.stop()
		_ = pubsub.Close()
		r.checkOrdered(1, 20)
	})
}

// One lane of a subscriber's route is full of messages that do not move: others
// arrive.
func TestG6_ASubscribersFullLaneLeavesOthersAlone(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		names := sameLane(3)
		h := newHanging(nil, names[0])
		r.dest.setFail(h.fault)
		route, f := r.fromFeed(func(rt *Route) { rt.Window, rt.SendTimeout, rt.Middleware = 64, time.Hour, nil })
		r.start(route)
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		const n = 500
		go func() {
			for i := range n {
				msg := message.NewMessage(fmt.Sprint("slow", i), []byte(`{}`))
				msg.Metadata[outbox.MetaGroup], msg.Metadata["address"] = names[0], "slow"
				f.out <- msg
				f.send(names[1+i%2], fmt.Sprint("m", i))
			}
		}()
		r.await(n)
		close(h.release)
		r.await(2 * n)
		r.stop()
	})
}

// What a drain writes last may be fenced as well.
func TestG1_SubscriberNacksWhatADrainCouldNotWrite(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.config.Lease = time.Hour
		r.dest.setFail(func(string, *message.Message) error { return outbox.Permanent(errInjected) })
		route, f := r.fromFeed(nil)
		r.start(route)
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		time.Sleep(time.Second)
		r.state.setFail(errInjected)
		msg := f.send("a", "m")
		time.Sleep(time.Second)
		r.cancel()
		time.Sleep(time.Second) // its sessions have ended
		r.state.steal()
		r.state.setFail(nil)
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.wantFate(msg, "nacked")
		r.wantParked()
	})
}

// A message beyond the limits is dead by its names alone: what is too large of it is
// kept nowhere.
func TestG7_ASubscribersMessageThatIsTooLargeIsDead(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		route, f := r.fromFeed(func(rt *Route) { rt.MaxRow = 100 })
		r.start(route)
		large, many := message.NewMessage("large", make([]byte, 101)), message.NewMessage("many", nil)
		large.Metadata[outbox.MetaGroup] = "a"
		for i := range adapters.MaxRowPairs + 1 {
			many.Metadata[fmt.Sprint("key-", i)] = "v"
		}
		f.out <- large
		f.out <- many
		fits := f.send("a", "fits")
		time.Sleep(time.Second)
		r.wantFate(large, "acked")
		r.wantFate(many, "acked")
		r.wantFate(fits, "acked")
		r.wantParked("large dead 1", "many dead 1")
		page, err := r.state.ListParked(context.Background(), adapters.ParkedFilter{}, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page {
			if len(p.Payload) > 0 || len(p.Metadata) > 20 || !strings.Contains(p.LastError, "too large") {
				t.Errorf("parked %+v", p)
			}
		}
	})
}

// shaky is a Subscriber whose subscriptions the test ends.
type shaky struct {
	mu    sync.Mutex
	out   chan *message.Message // of the latest subscription
	fail  error
	tries int
}

func (f *shaky) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries++
	if f.fail != nil {
		return nil, f.fail
	}
	f.out = make(chan *message.Message)
	return f.out, nil
}

func (f *shaky) Close() error { return nil }

// end ends the subscription; with an error no other can be made.
func (f *shaky) end(fail error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.tries = fail, 0
	close(f.out)
}

func (f *shaky) current() chan<- *message.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out
}

func (f *shaky) tried() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tries
}

// A subscriber that closes its channel is subscribed to again, with pauses that
// grow, in the log and in what says whether the relay is ready.
func TestG13_ASubscriberThatClosesItsChannelIsSubscribedToAgain(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		var log bytes.Buffer
		r.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		f := &shaky{}
		r.start(r.route(func(rt *Route) { rt.Source, rt.Subscriber, rt.Topic = nil, f, "topic" }))
		send := func(id string) {
			t.Helper()
			msg := message.NewMessage(id, []byte("{}"))
			f.current() <- msg
			time.Sleep(time.Second)
			r.wantFate(msg, "acked")
		}
		time.Sleep(time.Second)
		send("1")
		f.end(errors.New("the broker is away"))
		time.Sleep(50 * time.Millisecond)
		if got := r.router.Problems(); len(got) != 1 || !strings.Contains(got[0], `route orders has no subscription to "topic"`) {
			t.Errorf("the problems are %q", got)
		}
		time.Sleep(10 * time.Minute)
		if n := f.tried(); n < 20 || n > 40 { // every 30 s in the end
			t.Errorf("it was tried %d times in 10 minutes", n)
		}
		f.mu.Lock()
		f.fail = nil
		f.mu.Unlock()
		time.Sleep(listening.LongestSubscribePause)
		send("2")
		if got := r.router.Problems(); len(got) != 0 {
			t.Errorf("it is back, and the problems are %q", got)
		}
		f.end(nil)
		time.Sleep(listening.Steady + time.Second) // idle
		if got := r.router.Problems(); len(got) != 0 {
			t.Errorf("a subscription lasts, and the problems are %q", got)
		}
		send("3")
		f.end(nil) // a stop may come while there is none
		r.stop()
		for text, most := range map[string]int{"closed its channel": 3, "the broker is away": 11, "gets messages again": 2} {
			if n := strings.Count(log.String(), text); n == 0 || n > most {
				t.Errorf("%q is logged %d times", text, n)
			}
		}
	})
}
