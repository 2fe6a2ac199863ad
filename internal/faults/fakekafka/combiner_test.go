package fakekafka

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outriderhq/outrider/adapters/kafka"
)

// slow is a cluster that answers produce requests one by one, when the test releases
// them.
type slow struct {
	cluster *kfake.Cluster
	d       *kafka.Destination
	came    chan struct{} // receives one value for each request
	answers chan struct{} // one value lets a request pass
}

func slowBroker(t *testing.T) *slow {
	t.Helper()
	c := fake(t)
	s := &slow{cluster: c, came: make(chan struct{}, 100), answers: make(chan struct{}, 100)}
	s.d = destination(t, kafka.Config{Brokers: c.ListenAddrs(), Topic: "t", Timeout: time.Minute})
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	s.hold(c, ended)
	return s
}

func (s *slow) hold(c *kfake.Cluster, ended <-chan struct{}) {
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		s.came <- struct{}{}
		c.SleepControl(func() {
			select {
			case <-s.answers:
			case <-ended:
			}
		})
		return nil, nil, false
	})
}

// deliver delivers in the background.
func (s *slow) deliver(ctx context.Context, msgs ...*message.Message) <-chan map[string]string {
	out := make(chan map[string]string, 1)
	go func() { out <- results(msgs, s.d.Deliver(ctx, "t", msgs)) }()
	return out
}

// queue delivers in the background, and returns when the delivery waits for the
// next wave: one that does is the first to ask when its context ends.
func (s *slow) queue(ctx context.Context, msgs ...*message.Message) <-chan map[string]string {
	asked := &askedContext{Context: ctx, asked: make(chan struct{})}
	out := s.deliver(asked, msgs...)
	<-asked.asked
	return out
}

// askedContext closes a channel when it is first asked when it ends.
type askedContext struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (c *askedContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.asked) })
	return c.Context.Done()
}

// together has two deliveries in flight in one wave.
func (s *slow) together(t *testing.T, one, other context.Context) (first, second <-chan map[string]string) {
	t.Helper()
	s.answers <- struct{}{} // of the record that introduces the topic
	s.answers <- struct{}{}
	wantResults(t, s.deliver(t.Context(), newMessage("0", ""), newMessage("1", "")), map[string]string{"0": "ok", "1": "ok"})
	<-s.came
	<-s.came
	before := s.deliver(t.Context(), newMessage("2", ""))
	<-s.came
	first = s.queue(one, newMessage("a1", "a"), newMessage("a2", "a"))
	second = s.queue(other, newMessage("b1", "b"), newMessage("b2", "b"))
	s.answers <- struct{}{}
	wantResults(t, before, map[string]string{"2": "ok"})
	<-s.came
	return first, second
}

func wantResults(t *testing.T, got <-chan map[string]string, want map[string]string) {
	t.Helper()
	if got := <-got; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A lane that is called off does not affect the other lanes of its wave: their
// messages are delivered, and sent once.
func TestG3_ALaneThatIsCalledOffLeavesItsWave(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		want map[string]string
	}{
		"cancelled": {context.WithCancel, map[string]string{"a1": "released", "a2": "released"}},
		"out of time": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			late := lateContext{ctx}
			return late, func() { cancel(context.DeadlineExceeded) }
		}, map[string]string{"a1": "transient", "a2": "released"}}, // one attempt is charged
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := slowBroker(t)
			ctx, end := how.end(t.Context())
			called, other := s.together(t, ctx, t.Context())
			end()
			wantResults(t, called, how.want) // while the wave is in flight
			s.answers <- struct{}{}
			wantResults(t, other, map[string]string{"b1": "ok", "b2": "ok"})
			if n := len(ids(t, s.cluster, "b")); n != 2 || len(s.came) != 0 {
				t.Errorf("the other lane's messages are in the topic %d times, and %d more requests came", n, len(s.came))
			}
		})
	}
}

// lateContext ends with the error of a deadline, at a moment that the test chooses.
type lateContext struct{ context.Context }

func (c lateContext) Err() error { return context.Cause(c.Context) }

// When all lanes of a wave are called off, so is the wave, and what waits for it is
// not sent at all.
func TestG3_AWaveEndsWhenAllHaveLeft(t *testing.T) {
	t.Parallel()
	s := slowBroker(t)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := s.together(t, ctx, ctx)
	waiting, leave := context.WithCancel(t.Context())
	third := s.queue(waiting, newMessage("c1", "c"))
	leave()
	wantResults(t, third, map[string]string{"c1": "released"})
	cancel()
	wantResults(t, first, map[string]string{"a1": "released", "a2": "released"})
	wantResults(t, second, map[string]string{"b1": "released", "b2": "released"})
	for range cap(s.answers) - len(s.answers) {
		s.answers <- struct{}{}
	}
	wantResults(t, s.deliver(t.Context(), newMessage("d1", "d")), map[string]string{"d1": "ok"})
	if got := ids(t, s.cluster, "c"); len(got) > 0 {
		t.Errorf("%v was sent after it was called off", got)
	}
}
