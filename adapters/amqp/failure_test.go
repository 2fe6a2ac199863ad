package amqp

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// sender is a lane: it delivers its messages in waves, as a router does, until all are delivered.
type sender struct {
	d        *Destination
	queue    string
	todo     []*message.Message
	attempts map[string]int // that may have arrived, by event id
	failures map[string]int // by kind
}

func newSender(d *Destination, queue string, groups, each int) *sender {
	l := &sender{d: d, queue: queue, attempts: map[string]int{}, failures: map[string]int{}}
	for n := range each {
		for g := range groups {
			l.todo = append(l.todo, newMessage(fmt.Sprintf("%s-%d-%04d", queue[len(queue)-4:], g, n), fmt.Sprint("g", g), 100))
		}
	}
	return l
}

// run delivers for at most a minute, with as many messages of a group in a wave as the destination allows. between runs after each wave.
func (l *sender) run(t *testing.T, between func(left int)) {
	for end := time.Now().Add(time.Minute); len(l.todo) > 0; {
		if time.Now().After(end) {
			t.Errorf("%d messages are left, of failures %v", len(l.todo), l.failures)
			return
		}
		var wave, rest []*message.Message
		taken := map[string]int{}
		for _, msg := range l.todo {
			group := msg.Metadata[outbox.MetaGroup]
			if taken[group]++; taken[group] > l.d.cfg.PerGroup || len(wave) == 200 {
				rest = append(rest, msg)
				continue
			}
			wave = append(wave, msg)
			l.attempts[msg.UUID]++
		}
		var left []*message.Message
		for i, err := range l.d.Deliver(t.Context(), l.queue, wave) {
			if err != nil {
				left = append(left, wave[i])
				l.failures[outbox.KindOf(err).String()]++
			}
		}
		l.todo = slices.Concat(left, rest)
		if between != nil {
			between(len(l.todo))
		}
	}
}

// check compares what arrived: everything, in order, and no more often than it was sent.
func (l *sender) check(t *testing.T, got []rabbit.Delivery) {
	t.Helper()
	times, last := map[string]int{}, map[string]string{}
	for _, m := range got {
		group, _ := m.Headers[outbox.MetaGroup].(string)
		if times[m.MessageId]++; times[m.MessageId] > 1 {
			continue
		}
		if m.MessageId < last[group] {
			t.Errorf("group %s: %s arrived behind %s", group, m.MessageId, last[group])
		}
		last[group] = m.MessageId
	}
	for id, most := range l.attempts {
		if times[id] == 0 || times[id] > most {
			t.Errorf("message %s arrived %d times, and was sent %d times", id, times[id], most)
		}
	}
}

// The connection is cut when messages have arrived and no confirm is back, and again and again while waves are on their way.
func TestG2_OrderAcrossReconnects(t *testing.T) {
	t.Parallel()
	s := connect(t, testenv.RabbitMQ(t))
	for _, perGroup := range []int{1, 20} {
		t.Run(fmt.Sprint("per group ", perGroup), func(t *testing.T) {
			t.Parallel()
			p, through := newProxy(t, s.url)
			d := destination(t, Config{URL: through, RoutingKey: "{{.Type}}", PerGroup: perGroup})
			lanes := make([]*sender, 4)
			for i := range lanes {
				lanes[i] = newSender(d, s.queue(t), 10, 15)
			}
			first := lanes[0]
			first.attempts[first.todo[0].UUID]++
			if errs := d.Deliver(t.Context(), first.queue, first.todo[:1]); errs != nil { // there is a channel
				t.Fatal(errs)
			}
			var cuts atomic.Int32
			var wg sync.WaitGroup
			run := func(l *sender) {
				l.run(t, func(int) { // a wave has ended: those of the other lanes are on their way
					if cuts.Add(1) <= 20 {
						p.Cut()
					}
				})
			}
			release := p.Hang()
			defer release()
			wg.Go(func() { run(first) })
			s.awaitMessages(t, first.queue, 2)
			for _, l := range lanes[1:] {
				wg.Go(func() { run(l) })
			}
			p.Cut()
			release()
			wg.Wait()
			for _, l := range lanes {
				l.check(t, s.content(t, l.queue))
			}
			if first.failures["unavailable"] == 0 {
				t.Error("the wave without confirms did not fail")
			}
		})
	}
}

// A queue that is full refuses messages, and takes some in between as its consumer makes room.
func TestG2_AQueueThatRefusesInTheMiddleOfAWave(t *testing.T) {
	t.Parallel()
	s := connect(t, testenv.RabbitMQ(t))
	queue := newName(t)
	s.make(t, queue, rabbit.Table{"x-max-length": int32(5), "x-overflow": "reject-publish"})
	d := destination(t, Config{URL: s.url, RoutingKey: queue})
	l := newSender(d, queue, 20, 20)
	done := make(chan struct{})
	var consumer sync.WaitGroup
	consumer.Go(func() { // one message at a time, so that the queue is full most of the time
		for {
			select {
			case <-done:
				return
			default:
				s.content(t, queue)
			}
		}
	})
	l.run(t, nil)
	close(done)
	consumer.Wait()
	l.check(t, s.content(t, queue))
	if l.failures["transient"] == 0 {
		t.Error("nothing was refused")
	}
}

// Confirms that never come are an unknown outcome after the timeout, and the address is tried again.
func TestG2_ConfirmsThatNeverCome(t *testing.T) {
	t.Parallel()
	s := connect(t, testenv.RabbitMQ(t))
	p, through := newProxy(t, s.url)
	queue := s.queue(t)
	d := destination(t, Config{URL: through, RoutingKey: queue, Timeout: minTimeout})
	msgs := []*message.Message{newMessage("1", "a", 1), newMessage("2", "b", 1)}
	if errs := d.Deliver(t.Context(), queue, msgs[:1]); errs != nil { // the channel is open
		t.Fatal(errs)
	}
	release := p.Hang()
	defer release()
	for i, err := range d.Deliver(t.Context(), queue, msgs) {
		if outbox.KindOf(err) != outbox.KindUnavailable || !strings.Contains(err.Error(), "not confirmed within 2s") {
			t.Errorf("message %s: %v", msgs[i].UUID, err)
		}
	}
	release()
	l := &sender{d: d, queue: queue, todo: msgs, attempts: map[string]int{"1": 2, "2": 1}, failures: map[string]int{}}
	l.run(t, nil)
	l.check(t, s.content(t, queue))
}

// A message without a queue waits, and others of its batch do.
func TestG10_AQueueThatIsDeletedAndComesBack(t *testing.T) {
	t.Parallel()
	s := connect(t, testenv.RabbitMQ(t))
	queue := s.queue(t)
	d := destination(t, Config{URL: s.url, RoutingKey: queue})
	l := newSender(d, queue, 200, 1)
	if _, err := s.channel(t).QueueDelete(queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	for i, err := range d.Deliver(t.Context(), queue, l.todo) {
		if outbox.KindOf(err) != outbox.KindUnavailable || !strings.Contains(err.Error(), "create queue") {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	s.make(t, queue, quorum(0))
	l.run(t, nil)
	l.check(t, s.content(t, queue))
}
