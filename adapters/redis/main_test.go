package redis

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// TestMain waits for goroutines of the client: one that tries to dial ends up to a second after its pool was closed.
func TestMain(m *testing.M) {
	code := m.Run()
	leaked := goleak.Find()
	for end := time.Now().Add(10 * time.Second); leaked != nil && time.Now().Before(end); {
		leaked = goleak.Find()
	}
	if leaked != nil && code == 0 {
		fmt.Fprintln(os.Stderr, leaked)
		code = 1
	}
	os.Exit(code)
}

// newKey returns a key that no other test uses.
func newKey(tb testing.TB) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(tb.Name(), "/", "-"), time.Now().UnixNano())
}

// client connects a test to a server.
func client(tb testing.TB, address string) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{Addr: address, Protocol: 2, DisableIdentity: true})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// destination returns a destination that is closed when the test ends.
func destination(tb testing.TB, cfg Config) *Destination {
	tb.Helper()
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

// at are the servers of one address.
func at(address string) Servers {
	return Servers{Addresses: []string{address}, Timeout: 3 * time.Second}
}

// entries returns what a stream has, in order.
func entries(tb testing.TB, c redis.Cmdable, key string) []redis.XMessage {
	tb.Helper()
	got, err := c.XRange(tb.Context(), key, "-", "+").Result()
	if err != nil {
		tb.Fatal(err)
	}
	return got
}

// newMessage returns a message with a JSON payload of about size bytes.
func newMessage(id, group string, size int) *message.Message {
	return adapters.NewMessage(&adapters.Row{
		ID: id, Type: "test.happened", Group: group, Position: 1, Payload: []byte(`{"x":"` + strings.Repeat("x", size) + `"}`),
	}, "test/00")
}

// kinds formats errors for a comparison: "ok" or the kind, by event id.
func kinds(msgs []*message.Message, errs []error) string {
	var got []string
	for i, msg := range msgs {
		kind := "ok"
		if errs != nil && errs[i] != nil {
			kind = outbox.KindOf(errs[i]).String()
		}
		got = append(got, msg.UUID+" "+kind)
	}
	return strings.Join(got, ", ")
}

func adaptersNewTopic(name string) adapters.NewTopic { return adapters.NewTopic{Name: name} }
