package kafka

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.After(time.Minute); !cond(); {
		select {
		case <-end:
			t.Fatalf("%s: not within a minute", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// While nothing listens a delivery and a check end with that as their error, long
// before the delivery's timeout, which is ten minutes here.
func TestKafkaAwayIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	one, two := testenv.Refused(t), testenv.Refused(t)
	want := "no broker of " + one + ", " + two + " answers: connection refused"
	for name, exclusive := range map[string]bool{"plain": false, "exclusive": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := destination(t, Config{Brokers: []string{one, two}, Topic: "orders", Timeout: 10 * time.Minute, Exclusive: exclusive})
			if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "start the brokers") {
				t.Errorf("the check says %v", err)
			}
			var to adapters.Destination = d
			if exclusive {
				to = d.Fence("orders/00", func(context.Context) (bool, error) { return true, nil })
			}
			for range 2 { // the second time with a client that was thrown away
				errs := to.Deliver(t.Context(), "orders", []*message.Message{newMessage("1", "a", 10), newMessage("2", "b", 10)})
				if len(errs) != 2 {
					t.Fatalf("got %v", errs)
				}
				for _, err := range errs {
					if outbox.KindOf(err) != outbox.KindUnavailable || err.Error() != "kafka: "+want {
						t.Errorf("the delivery says %v", err)
					}
				}
			}
		})
	}
}

// A broker that is killed while a wave waits for it is reported, and the wave continues:
// the broker that is back has its records once.
func TestAWaveThatWaitsForAKilledBrokerIsReported(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 1, nil)
	p := testenv.StartProxy(t, b.addrs[0])
	var log lines
	d := viaProxy(t, p, destination(t, Config{Brokers: b.addrs, Topic: topic, Timeout: 10 * time.Minute,
		Logger: slog.New(slog.NewTextHandler(io.MultiWriter(&log, t.Output()), nil))}))
	if errs := d.Deliver(t.Context(), topic, []*message.Message{newMessage("1", "g", 10)}); errs != nil {
		t.Fatal(errs)
	}
	release := p.Hang() // the records arrive, and their answer does not
	done := make(chan []error, 1)
	go func() {
		done <- d.Deliver(t.Context(), topic, []*message.Message{newMessage("2", "g", 10), newMessage("3", "g", 10)})
	}()
	waitFor(t, "the records arrive", func() bool { return len(b.ids(t, topic, "g")) == 3 })
	up := p.Down()
	release()
	waitFor(t, "it is reported", func() bool { return len(d.Unanswered()) == 1 })
	if s := d.Unanswered()[0]; s.Address != topic || !strings.Contains(s.Cause, "no broker of "+b.addrs[0]+" answers") {
		t.Errorf("got %+v", s)
	}
	if text := log.String(); strings.Count(text, "no broker answers") != 1 || !strings.Contains(text, "topic="+topic) {
		t.Errorf("the log says\n%s", text)
	}
	up()
	if errs := <-done; errs != nil {
		t.Errorf("got %v", errs)
	}
	if got := b.ids(t, topic, "g"); len(got) != 3 {
		t.Errorf("arrived: %v", got)
	}
	if s := d.Unanswered(); len(s) != 0 {
		t.Errorf("still %+v", s)
	}
}

// One broker of a cluster that is down is not the cluster: while another one answers,
// nothing is called off.
func TestABrokerOfSeveralThatIsDownIsNotKafkaAway(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	to := func(host string) kgo.BrokerMetadata { return kgo.BrokerMetadata{Host: host, Port: 9092} }
	long := 2 * awayAfter // a dial that has taken that long
	for name, c := range map[string]struct {
		seeds int
		then  func(r *reach)
		away  bool
	}{
		"all refuse for long": {2, func(r *reach) { r.failedAt(to("a"), long, refused); r.failedAt(to("b"), 0, refused) }, true},
		"one of two":          {2, func(r *reach) { r.failedAt(to("a"), long, refused); r.failedAt(to("a"), 0, refused) }, false},
		"the other one reads": {1, func(r *reach) { r.failedAt(to("a"), 0, refused); r.OnBrokerRead(to("b"), 3, 9, 0, 0, nil); r.judge() }, false},
		"it is back":          {1, func(r *reach) { r.failedAt(to("a"), 0, refused); r.OnBrokerRead(to("a"), 3, 9, 0, 0, nil); r.judge() }, false},
		"no answer in time":   {1, func(r *reach) { r.failedAt(to("a"), long, context.DeadlineExceeded) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &reach{seeds: []string{"a", "b"}[:c.seeds]}
			var got error
			defer r.guard(func(err error) { got = err })()
			c.then(r)
			if (got != nil) != c.away {
				t.Errorf("got %v", got)
			}
			if c.away && !errors.As(got, new(*away)) {
				t.Errorf("got %T", got)
			}
			r.answered() // stops the timer
		})
	}
}
