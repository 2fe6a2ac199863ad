package kafka

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

func TestMain(m *testing.M) {
	// The library of watermill-kafka keeps a metrics goroutine for the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// cluster is a cluster under test, with an admin client.
type cluster struct {
	addrs []string
	adm   *kadm.Client
}

func connect(tb testing.TB, addrs []string) *cluster {
	tb.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.MetadataMinAge(metadataMinAge))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(cl.Close)
	return &cluster{addrs, kadm.NewClient(cl)}
}

// newName returns a topic name that no other test uses.
func newName(tb testing.TB) string {
	name := strings.NewReplacer("/", "-", "#", "-").Replace(tb.Name())
	return fmt.Sprintf("%s-%d", name, time.Now().UnixNano())
}

// topic creates a topic, which is deleted when the test ends.
func (b *cluster) topic(tb testing.TB, partitions int32, config map[string]string) string {
	tb.Helper()
	name := newName(tb)
	b.create(tb, name, partitions, config)
	return name
}

func (b *cluster) create(tb testing.TB, name string, partitions int32, config map[string]string) {
	tb.Helper()
	settings := make(map[string]*string, len(config))
	for k, v := range config {
		settings[k] = &v
	}
	if _, err := b.adm.CreateTopic(tb.Context(), partitions, 1, settings, name); err != nil {
		tb.Fatalf("create topic %s: %v", name, err)
	}
	b.awaitTopic(tb, name)
	tb.Cleanup(func() { _, _ = b.adm.DeleteTopic(context.Background(), name) })
}

// awaitTopic returns when the broker serves all partitions of a new topic: a moment
// after it was created, it may still say that there is no such topic, or take records for a deleted one of that name.
func (b *cluster) awaitTopic(tb testing.TB, name string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	for {
		ends, err := b.adm.ListEndOffsets(ctx, name)
		former := false
		ends.Each(func(o kadm.ListedOffset) { former = former || o.Offset > 0 })
		if err == nil && ends.Error() == nil && len(ends[name]) > 0 && !former {
			return
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("topic %s was created and is not served: %v, %v", name, err, ends.Error())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// records returns what a topic holds for a consumer with read_committed: by
// partition, in order.
func (b *cluster) records(tb testing.TB, topic string) []*kgo.Record {
	tb.Helper()
	return b.read(tb, topic, kgo.ReadCommitted())
}

// read reads a topic to its end, over the marks of transactions. A client that
// met a topic while it was being deleted and created again may stay with the old one,
// so after a while another client tries.
func (b *cluster) read(tb testing.TB, topic string, level kgo.IsolationLevel) []*kgo.Record {
	tb.Helper()
	for range 4 {
		if got, all := b.readOnce(tb, topic, level); all {
			return got
		}
	}
	tb.Fatalf("topic %s cannot be read to its end", topic)
	return nil
}

// readOnce reads until nothing comes for 15 s; all reports whether that was enough.
func (b *cluster) readOnce(tb testing.TB, topic string, level kgo.IsolationLevel) (got []*kgo.Record, all bool) {
	tb.Helper()
	const patience = 15 * time.Second
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	silence := time.AfterFunc(patience, cancel)
	defer silence.Stop()
	ends, err := b.adm.ListEndOffsets(tb.Context(), topic)
	if err != nil {
		tb.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		tb.Fatal(err)
	}
	defer cl.Close()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			tb.Logf("%d records of %s could be read, and not all: by partition, they should reach to %v: %v", len(got), topic, left, fetches.Err())
			return nil, false
		}
		if !fetches.Empty() {
			silence.Reset(patience)
		}
		for _, r := range fetches.Records() {
			if !r.Attrs.IsControl() {
				got = append(got, r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		}
	}
	return got, true
}

// ids returns the event ids of a group in a topic, in order.
func (b *cluster) ids(tb testing.TB, topic, group string) []string {
	tb.Helper()
	var ids []string
	for _, r := range b.records(tb, topic) {
		if string(r.Key) == group {
			ids = append(ids, header(r, "id"))
		}
	}
	return ids
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// destination returns a destination that is closed when the test ends.
func destination(tb testing.TB, cfg Config) *Destination {
	tb.Helper()
	if cfg.Format == "" {
		cfg.Format = format.Raw // what arrives is told apart by the headers that only raw has
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
		ID: id, Type: "test.happened", Group: group, Position: 1,
		Payload: []byte(`{"x":"` + strings.Repeat("x", size) + `"}`),
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
