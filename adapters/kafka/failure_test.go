package kafka

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func TestTooLargeIsRefusedUnsent(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 1, nil)
	d := destination(t, Config{Brokers: b.addrs, Topic: topic, MaxMessageBytes: 2000})
	msgs := []*message.Message{
		newMessage("1", "a", 10), newMessage("2", "a", 3000), newMessage("3", "a", 10), newMessage("4", "b", 10),
	}
	errs := d.Deliver(t.Context(), topic, msgs)
	want := map[string]string{"1": "ok", "2": "permanent", "3": "released", "4": "ok"}
	if got := results(msgs, errs); !maps.Equal(got, want) {
		t.Errorf("results %v, want %v", got, want)
	}
	if !strings.Contains(errs[1].Error(), "message 2 is too large") || !strings.Contains(errs[1].Error(), "2000 allowed") {
		t.Errorf("error %v", errs[1])
	}
	if got := fmt.Sprint(b.ids(t, topic, "a"), b.ids(t, topic, "b")); got != "[1] [4]" {
		t.Errorf("arrived: %s", got)
	}
}

// The size that is checked is the one that the broker checks: what is just
// small enough is taken by a topic of the same limit, at the first wave too.
func TestLargestMessageIsTaken(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	const limit = 5000
	topic := b.topic(t, 1, map[string]string{"max.message.bytes": strconv.Itoa(limit)})
	d := destination(t, Config{Brokers: b.addrs, Topic: topic, MaxMessageBytes: limit})
	w := newWave(d)
	w.encode(topic, []*message.Message{newMessage("1", "g", 4000)})
	msgs := []*message.Message{newMessage("1", "g", 4000+limit-batchSize(&w.recs[0]))}
	for range 2 {
		if errs := d.Deliver(t.Context(), topic, msgs); errs != nil {
			t.Fatal(errs)
		}
	}
	msgs[0].Payload = append(msgs[0].Payload, ' ')
	if errs := d.Deliver(t.Context(), topic, msgs); errs == nil || !strings.Contains(errs[0].Error(), "5001 bytes") {
		t.Errorf("one byte more: %v", errs)
	}
}

func TestG2_BrokerFindsRecordsTooLarge(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 2, map[string]string{"max.message.bytes": "3000"})
	d := destination(t, Config{Brokers: b.addrs, Topic: topic})
	deliverWithTwoTooLarge(t, b, d, topic, 100)
}

// deliverWithTwoTooLarge delivers n messages of five groups, of which two are larger
// than the topic takes: those are refused, and what is behind them in their groups
// is not sent.
func deliverWithTwoTooLarge(t *testing.T, b *cluster, d adapters.Destination, topic string, n int) {
	t.Helper()
	var msgs []*message.Message
	want := map[string]string{}
	for i := range n {
		id, group, size := strconv.Itoa(i), fmt.Sprint("g", i%5), 10
		want[id] = "ok"
		switch {
		case i == 22, i == 48: // g2 and g3
			size, want[id] = 5000, "permanent"
		case i > 22 && i%5 == 2, i > 48 && i%5 == 3:
			want[id] = "released"
		}
		msgs = append(msgs, newMessage(id, group, size))
	}
	if got := results(msgs, d.Deliver(t.Context(), topic, msgs)); !maps.Equal(got, want) {
		t.Errorf("results\n got %v\nwant %v", got, want)
	}
	if got := fmt.Sprint(b.ids(t, topic, "g2"), b.ids(t, topic, "g3")); got != "[2 7 12 17] [3 8 13 18 23 28 33 38 43]" {
		t.Errorf("arrived: %s", got)
	}
}

func TestCompactedTopicNeedsAKey(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 1, map[string]string{"cleanup.policy": "compact"})
	d := destination(t, Config{Brokers: b.addrs, Topic: topic})
	msgs := []*message.Message{newMessage("1", "a", 1), newMessage("2", "", 1), newMessage("3", "a", 1), newMessage("4", "", 1)}
	errs := d.Deliver(t.Context(), topic, msgs)
	want := map[string]string{"1": "ok", "2": "permanent", "3": "ok", "4": "permanent"}
	if got := results(msgs, errs); !maps.Equal(got, want) {
		t.Errorf("results %v, want %v: %v", got, want, errs)
	}
}

func TestTopicIsDeletedAndComesBack(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 2, nil)
	d := destination(t, Config{Brokers: b.addrs, Topic: topic})
	msgs := []*message.Message{newMessage("1", "a", 1), newMessage("2", "b", 1)}
	if errs := d.Deliver(t.Context(), topic, msgs); errs != nil {
		t.Fatal(errs)
	}
	if _, err := b.adm.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	for i, err := range d.Deliver(t.Context(), topic, msgs) {
		if outbox.KindOf(err) != outbox.KindUnavailable || !strings.Contains(err.Error(), "--create --topic "+topic) {
			t.Errorf("message %d of a deleted topic: %v", i, err)
		}
	}
	b.create(t, topic, 1, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l := &lane{d: d, topic: topic, todo: msgs, attempts: map[string]int{}}
	if err := l.run(ctx); err != nil || len(l.dead) > 0 {
		t.Fatalf("the destination does not recover: %v, dead: %v", err, l.dead)
	}
	for _, msg := range msgs { // an attempt that failed may have arrived all the same
		got := b.ids(t, topic, msg.Metadata[outbox.MetaGroup])
		if len(got) == 0 || len(got) > l.attempts[msg.UUID] || slices.ContainsFunc(got, func(id string) bool { return id != msg.UUID }) {
			t.Errorf("message %s after the topic came back, and %d attempts: %v", msg.UUID, l.attempts[msg.UUID], got)
		}
	}
}

// lane delivers the messages of its groups the way router does: a message whose
// error is permanent is dead, any other is sent again before what follows it.
type lane struct {
	d     adapters.Destination
	topic string
	todo  []*message.Message
	dead  []string

	attempts map[string]int // by id
}

func (l *lane) run(ctx context.Context) error {
	for len(l.todo) > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("%d messages are left: %w", len(l.todo), ctx.Err())
		}
		wave := l.todo[:min(len(l.todo), 1+rand.IntN(200))]
		for _, msg := range wave {
			l.attempts[msg.UUID]++
		}
		errs := l.d.Deliver(ctx, l.topic, wave)
		if errs == nil {
			l.todo = l.todo[len(wave):]
			continue
		}
		var again []*message.Message
		for i, err := range errs {
			switch {
			case err == nil:
			case outbox.KindOf(err) == outbox.KindPermanent:
				l.dead = append(l.dead, wave[i].UUID)
			default:
				again = append(again, wave[i])
			}
		}
		l.todo = append(again, l.todo[len(wave):]...)
	}
	return nil
}

// lanes makes n lanes with groups of their own, which begin with name; every
// 50th message is of the size.
func lanes(d adapters.Destination, topic, name string, n, messages, size int) []*lane {
	all := make([]*lane, n)
	for l := range all {
		all[l] = &lane{d: d, topic: topic, attempts: map[string]int{}}
		for i := range messages {
			s := 20
			if i%50 == 49 {
				s = size
			}
			all[l].todo = append(all[l].todo, newMessage(fmt.Sprintf("%05d", i), fmt.Sprintf("%s%d-%d", name, l, i%4), s))
		}
	}
	return all
}

// runLanes runs them all at once.
func runLanes(t *testing.T, all []*lane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range all {
		wg.Go(func() {
			if err := l.run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// tally reads a topic: how many distinct messages it holds, how many more than
// once, and how many arrived first behind a later one of their group.
func tally(t *testing.T, b *cluster, topic string) (distinct, duplicates, inverted int) {
	t.Helper()
	seen, last := map[string]bool{}, map[string]string{}
	for _, r := range b.records(t, topic) {
		group, id := string(r.Key), header(r, "id")
		switch {
		case seen[group+id]:
			duplicates++
			continue
		case id < last[group]:
			inverted++
		default:
			last[group] = id
		}
		seen[group+id] = true
		distinct++
	}
	return distinct, duplicates, inverted
}

// Lanes that share partitions, with records that the broker refuses among them:
// what one lane's culprits do must neither reorder nor repeat nor kill anything
// of another.
func TestG2_G3_RejectionsLeaveOrderAlone(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 2, map[string]string{"max.message.bytes": "20000"})
	d := destination(t, Config{Brokers: b.addrs, Topic: topic})
	const n, messages = 6, 1000
	all := lanes(d, topic, "g", n, messages, 30000)
	runLanes(t, all)
	dead := 0
	for _, l := range all {
		dead += len(l.dead)
	}
	distinct, duplicates, inverted := tally(t, b, topic)
	if dead != n*messages/50 || distinct+dead != n*messages || duplicates != 0 || inverted != 0 {
		t.Errorf("%d delivered and %d dead of %d, %d duplicates, %d out of order; want %d dead and no others",
			distinct, dead, n*messages, duplicates, inverted, n*messages/50)
	}
}

// A broker that is killed and comes back: nothing is lost or reordered, and
// nothing dies of it.
func TestG1_G2_G10_BrokerIsKilled(t *testing.T) {
	t.Parallel()
	server := testenv.StartKafka(t)
	b := connect(t, server.Brokers())
	topic := b.topic(t, 4, nil)
	d := destination(t, Config{Brokers: b.addrs, Topic: topic, Timeout: 3 * time.Second})
	const n, messages = 4, 4000
	rounds := 1
	if os.Getenv("OUTRIDER_SOAK") != "" {
		rounds = 5
	}
	for round := range rounds {
		all := lanes(d, topic, fmt.Sprint("round", round, "-"), n, messages, 20)
		done := make(chan struct{})
		go func() {
			defer close(done)
			runLanes(t, all)
		}()
		server.Kill()
		server.Start()
		<-done
		for _, l := range all {
			if len(l.dead) > 0 {
				t.Errorf("%d messages died of an outage", len(l.dead))
			}
		}
	}
	distinct, _, inverted := tally(t, b, topic)
	if distinct != rounds*n*messages || inverted != 0 {
		t.Errorf("%d of %d delivered, %d out of order", distinct, rounds*n*messages, inverted)
	}
}
