package fakekafka

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/kafka"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

func TestMain(m *testing.M) {
	// The stock publisher's library keeps a metrics goroutine for the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// shortest is the shortest timeout that a destination accepts.
const shortest = 2 * time.Second

// fake starts a cluster of one broker, with a topic t of one partition.
func fake(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// destination returns a destination that is closed when the test ends.
func destination(t *testing.T, cfg kafka.Config) *kafka.Destination {
	t.Helper()
	if cfg.Format == "" {
		cfg.Format = format.Raw // the tests identify records by headers that only raw has
	}
	d, err := kafka.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return d
}

// exclusive is the configuration of a destination of topic t that lanes own.
func exclusive(c *kfake.Cluster) kafka.Config {
	return kafka.Config{Brokers: c.ListenAddrs(), Topic: "t", Exclusive: true, TransactionalID: "t", Timeout: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler)}
}

// through returns what a lane that is never lost delivers through: the
// destination itself, if that is not exclusive.
func through(t *testing.T, d *kafka.Destination, lane string) adapters.Destination {
	t.Helper()
	own := d.Fence(lane, func(context.Context) (bool, error) { return true, nil })
	if own == nil {
		return d
	}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return own
}

// newMessage returns a message with a small JSON payload.
func newMessage(id, group string) *message.Message {
	return adapters.NewMessage(&adapters.Row{ID: id, Type: "test.happened", Group: group, Position: 1, Payload: []byte(`{"x":"x"}`)}, "test/00")
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

// untilDelivered delivers messages again until all are.
func untilDelivered(t *testing.T, d adapters.Destination, msgs []*message.Message) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		errs := d.Deliver(t.Context(), "t", msgs)
		if errs == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the destination does not recover: %v", errs)
		}
	}
}

// ids returns the event ids of a group in topic t, in order, as a consumer with
// read_committed sees them.
func ids(t *testing.T, c *kfake.Cluster, group string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup("t", 0)
	var got []string
	for next := int64(0); next < end.Offset; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			next = r.Offset + 1
			if string(r.Key) == group && !r.Attrs.IsControl() {
				got = append(got, header(r, "id"))
			}
		}
	}
	return got
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}
