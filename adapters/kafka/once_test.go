package kafka

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

// book is the lane's side of the notes of a batch, which are lists of ids.
type book struct {
	known     map[string]bool // committed, of all batches
	sent, ids []string        // of the transaction, of the batch
	reads     []map[string]string
}

func (b *book) Read(notes map[string]string) {
	b.reads = append(b.reads, maps.Clone(notes))
	for _, note := range notes {
		for id := range strings.SplitSeq(note, " ") {
			b.known[id] = true
		}
	}
}

func (b *book) Delivered(i int) bool { return b.known[b.ids[i]] }

func (b *book) Write(indices []int) string {
	b.sent = nil
	for _, i := range indices {
		b.sent = append(b.sent, b.ids[i])
	}
	return strings.Join(slices.Concat(slices.Sorted(maps.Keys(b.known)), b.sent), " ")
}

func (b *book) Committed() {
	for _, id := range b.sent {
		b.known[id] = true
	}
}

// onceOwner is an owner that delivers with notes.
type onceOwner struct {
	*owner
	book book
}

func (o *ownership) takeOnce(t *testing.T, cfg Config, opts ...kgo.Opt) *onceOwner {
	t.Helper()
	cfg.Once = true
	return &onceOwner{o.take(t, cfg, opts...), book{known: map[string]bool{}}}
}

func (o *onceOwner) deliver(t *testing.T, topic string, ids ...string) string {
	t.Helper()
	var msgs []*message.Message
	for _, id := range ids {
		msgs = append(msgs, newMessage(id, "g", 1))
	}
	o.book.ids = ids
	return fmt.Sprint(results(msgs, o.Destination.(adapters.OnceDestination).DeliverOnce(t.Context(), topic, msgs, &o.book)))
}

// The next owner of a lane reads the notes of the last committed transactions, and does not send what they have.
func TestG1_TheNextOwnerKnowsWhatWasDelivered(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic, other := b.topic(t, 2, nil), b.topic(t, 1, nil)
	var lane ownership
	first := lane.takeOnce(t, exclusive(b, topic))
	for _, step := range []struct{ topic, id string }{{topic, "1"}, {topic, "2"}, {other, "3"}} {
		if got := first.deliver(t, step.topic, step.id); got != "map["+step.id+":ok]" {
			t.Fatalf("the first owner: %v", got)
		}
	}
	if len(first.book.reads) != 1 {
		t.Errorf("the first owner has read the notes %d times, want once", len(first.book.reads))
	}
	p := first.Destination.(onceProducer)
	c, err := p.get(t.Context()) // and dies in a transaction
	if err != nil {
		t.Fatal(err)
	}
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	w := p.newWave(topic, []*message.Message{newMessage("4", "g", 1)})
	w.send(t.Context(), c, w.pending)
	if err := c.note(t.Context(), topic, "1 2 4"); err != nil {
		t.Fatal(err)
	}
	p.put(c)

	second := lane.takeOnce(t, exclusive(b, topic))
	if got := second.deliver(t, topic, "2", "4"); got != "map[2:ok 4:ok]" {
		t.Errorf("the second owner: %v", got)
	}
	if got, want := fmt.Sprint(second.book.reads), fmt.Sprint([]map[string]string{{topic: "1 2", other: "1 2 3"}}); got != want {
		t.Errorf("the second owner has read %s, want %s", got, want)
	}
	if got := fmt.Sprint(b.ids(t, topic, "g")); got != "[1 2 4]" {
		t.Errorf("arrived: %s", got)
	}
}

// cutter cuts the connections when a commit was written to one.
type cutter struct {
	proxy *testenv.Proxy
	left  int
}

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (c *cutter) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.EndTxn) && err == nil && c.left > 0 {
		c.left--
		c.proxy.Cut()
	}
}

// After a commit whose answer was lost the messages are there once, whether it was carried out or not.
func TestG1_ACommitWithoutAnAnswerIsLookedUp(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	b := connect(t, brokers)
	topic := b.topic(t, 1, nil)
	cut := &cutter{proxy: testenv.StartProxy(t, brokers[0]), left: 100}
	var lane ownership
	own := lane.takeOnce(t, exclusive(b, topic), kgo.WithHooks(cut))
	viaProxy(t, cut.proxy, own.Destination.(onceProducer).Destination)
	var want []string
	for n := 0; n < 8 || n < 100 && len(own.book.reads) < 3; n++ { // the client asks again by itself, and may get the answer
		id := strconv.Itoa(n)
		want = append(want, id)
		for own.deliver(t, topic, id) != "map["+id+":ok]" {
			if t.Context().Err() != nil {
				t.Fatal("not delivered")
			}
		}
	}
	t.Logf("the notes were read %d times in %d deliveries", len(own.book.reads), len(want))
	if got := b.ids(t, topic, "g"); !slices.Equal(got, want) {
		t.Errorf("arrived: %v, want %v", got, want)
	}
}
