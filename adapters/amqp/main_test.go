package amqp

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	rabbit "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

func TestMain(m *testing.M) {
	if queue := os.Getenv(envKilled); queue != "" {
		takeUntilKilled(queue)
	}
	// watermill-amqp's Subscriber leaves a goroutine behind if it is closed without a connection.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp.(*ConnectionWrapper).handleConnectionClose"))
}

// server is a broker under test, with a client of our own.
type server struct {
	url  string
	conn *rabbit.Connection

	mu    sync.Mutex
	taken map[string][]rabbit.Delivery // by queue
}

func connect(tb testing.TB, url string) *server {
	tb.Helper()
	conn, err := rabbit.Dial(url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return &server{url: url, conn: conn, taken: map[string][]rabbit.Delivery{}}
}

// newName returns a name of a queue that no other test uses.
func newName(tb testing.TB) string {
	return fmt.Sprintf("%s-%d", strings.NewReplacer("/", "-", "#", "-").Replace(tb.Name()), time.Now().UnixNano())
}

// channel returns a channel for the test, which ends with the connection.
func (s *server) channel(tb testing.TB) *rabbit.Channel {
	tb.Helper()
	ch, err := s.conn.Channel()
	if err != nil {
		tb.Fatal(err)
	}
	return ch
}

// queue makes a quorum queue, which is deleted when the test ends.
func (s *server) queue(tb testing.TB) string {
	tb.Helper()
	name := newName(tb)
	s.make(tb, name, quorum(0))
	return name
}

func (s *server) make(tb testing.TB, name string, args rabbit.Table) {
	tb.Helper()
	if _, err := s.channel(tb).QueueDeclare(name, true, false, false, false, args); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if ch, err := s.conn.Channel(); err == nil {
			_, _ = ch.QueueDelete(name, false, false, false)
			_ = ch.Close()
		}
	})
}

// content returns what was put into a queue since the test began, in order. It takes it out of there: what is given back to a quorum queue loses its order.
func (s *server) content(tb testing.TB, name string) []rabbit.Delivery {
	tb.Helper()
	ch := s.channel(tb)
	defer func() { _ = ch.Close() }()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		m, ok, err := ch.Get(name, true)
		if err != nil {
			tb.Fatal(err)
		}
		if !ok {
			return s.taken[name]
		}
		s.taken[name] = append(s.taken[name], m)
	}
}

// awaitMessages waits until a queue has so many messages.
func (s *server) awaitMessages(tb testing.TB, name string, n int) {
	tb.Helper()
	ch := s.channel(tb)
	defer func() { _ = ch.Close() }()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil || time.Now().After(end) {
			tb.Fatalf("queue %s has %d messages, want %d: %v", name, q.Messages, n, err)
		}
		if q.Messages >= n {
			return
		}
	}
}

// ids returns the event ids of a group in a queue, in order.
func (s *server) ids(tb testing.TB, name, group string) (ids []string) {
	tb.Helper()
	for _, m := range s.content(tb, name) {
		if m.Headers[outbox.MetaGroup] == group {
			ids = append(ids, m.MessageId)
		}
	}
	return ids
}

// destination returns a destination that is closed when the test ends.
func destination(tb testing.TB, cfg Config) *Destination {
	tb.Helper()
	if cfg.Format == "" {
		cfg.Format = format.Raw
	}
	d, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return d
}

// newMessage returns a message with a JSON payload of about size bytes.
func newMessage(id, group string, size int) *message.Message {
	return adapters.NewMessage(&adapters.Row{
		ID: id, Type: "test.happened", Group: group, Position: 1, Payload: []byte(`{"x":"` + strings.Repeat("x", size) + `"}`),
	}, "test/00")
}

// results formats errors for a comparison: "ok" or the kind, by event id.
func results(msgs []*message.Message, errs []error) map[string]string {
	got := make(map[string]string, len(msgs))
	for i, msg := range msgs {
		got[msg.UUID] = "ok"
		if errs != nil && errs[i] != nil {
			got[msg.UUID] = outbox.KindOf(errs[i]).String()
		}
	}
	return got
}

// newProxy starts a proxy in front of a broker, and returns the broker's URL through it.
func newProxy(tb testing.TB, at string) (p *testenv.Proxy, through string) {
	tb.Helper()
	u, err := url.Parse(at)
	if err != nil {
		tb.Fatal(err)
	}
	p = testenv.StartProxy(tb, u.Host)
	u.Host = p.Address()
	return p, u.String()
}
