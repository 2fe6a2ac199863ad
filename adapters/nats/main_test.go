package nats

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv/natsserver"
	"github.com/outriderhq/outrider/outbox"
)

// shared is the server of all tests that change nothing of it.
var shared struct {
	url string
}

func TestMain(m *testing.M) {
	natsserver.Main()
	s, stop, err := natsserver.Open(nil)
	if err != nil {
		panic(err)
	}
	shared.url = s.ClientURL()
	if err := keepOneStream(); err != nil {
		panic(err)
	}
	code := m.Run()
	stop()
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init")); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}

// keepOneStream creates a stream that no test deletes: with its last stream a server removes the folder of all streams, and the creation of
// another at that moment fails with "error creating store for stream" (seen: 20 of 6,000).
func keepOneStream() error {
	conn, err := natsgo.Connect(shared.url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "kept", Subjects: []string{"kept"}})
	return err
}

// streamOf has a stream with files and atomic batches for all subjects that begin with the test's name, and returns that.
func streamOf(tb testing.TB, url string, change func(*jetstream.StreamConfig)) (subject string, js jetstream.JetStream) {
	tb.Helper()
	name := strings.NewReplacer("/", "-", ".", "-", " ", "-", "#", "-").Replace(tb.Name())
	js = admin(tb, url)
	createStream(tb, js, name, []string{name + ".>"}, change)
	return name, js
}

func createStream(tb testing.TB, js jetstream.JetStream, name string, subjects []string, change func(*jetstream.StreamConfig)) {
	tb.Helper()
	cfg := jetstream.StreamConfig{Name: name, Subjects: subjects, Storage: jetstream.FileStorage, AllowAtomicPublish: true}
	if change != nil {
		change(&cfg)
	}
	if _, err := js.CreateStream(tb.Context(), cfg); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = js.DeleteStream(context.Background(), name) })
}

// admin returns a connection of the test's own.
func admin(tb testing.TB, url string) jetstream.JetStream {
	tb.Helper()
	conn, err := natsgo.Connect(url, natsgo.MaxReconnects(-1), natsgo.ReconnectWait(50*time.Millisecond))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		tb.Fatal(err)
	}
	return js
}

// stored returns what the stream of a subject has, in order.
func stored(tb testing.TB, js jetstream.JetStream, subject string) (msgs []*jetstream.RawStreamMsg) {
	tb.Helper()
	name, err := js.StreamNameBySubject(tb.Context(), subject)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := js.Stream(tb.Context(), name)
	if err != nil {
		tb.Fatal(err)
	}
	for seq := max(1, s.CachedInfo().State.FirstSeq); seq <= s.CachedInfo().State.LastSeq; seq++ {
		msg, err := s.GetMsg(tb.Context(), seq)
		if err != nil {
			tb.Fatal(err)
		}
		if msg.Subject == subject {
			msgs = append(msgs, msg)
		}
	}
	return msgs
}

// ids returns the event ids that a subject has, in order; of one group, or with "*" of all.
func ids(tb testing.TB, js jetstream.JetStream, subject, group string) (ids []string) {
	tb.Helper()
	for _, msg := range stored(tb, js, subject) {
		if group == "*" || msg.Header.Get(outbox.MetaGroup) == group {
			ids = append(ids, eventID(subject, msg.Header.Get(jetstream.MsgIDHeader)))
		}
	}
	return ids
}

// destination returns a destination that is closed when the test ends.
func destination(tb testing.TB, url string, cfg Config) *Destination {
	tb.Helper()
	cfg.Servers = []string{url}
	d, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = d.Close() })
	return d
}

// newMessage returns a message with a JSON payload of about size bytes.
func newMessage(id, group string, size int) *message.Message {
	return adapters.NewMessage(&adapters.Row{ID: id, Type: "test.happened", Group: group, Position: 1, Payload: []byte(`{"x":"` + strings.Repeat("x", size) + `"}`)}, "test/00")
}

// results are errors for a comparison: "ok" or the kind, by event id.
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

func wantError(tb testing.TB, err error, want string) {
	tb.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		tb.Errorf("error %v, want %q", err, want)
	}
}
