package amqp

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox/format"
)

// receive returns the next message of a subscription.
func receive(t *testing.T, msgs <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-msgs:
		if !ok {
			t.Fatal("the subscription has ended")
		}
		return msg
	case <-time.After(time.Minute):
		t.Fatal("no message arrives")
	}
	return nil
}

// same compares messages as a receiver sees them.
func same(t *testing.T, got, want *message.Message) {
	t.Helper()
	if got.UUID != want.UUID || string(got.Payload) != string(want.Payload) || !maps.Equal(got.Metadata, want.Metadata) {
		t.Errorf("got %s %s %v, want %s %s %v", got.UUID, got.Payload, got.Metadata, want.UUID, want.Payload, want.Metadata)
	}
}

// watermill-amqp's real Subscriber reads what the destination writes, and the source reads what its real Publisher writes.
func TestTheFormatIsWatermills(t *testing.T) {
	t.Parallel()
	s := connect(t, testenv.RabbitMQ(t))
	queue, back := newName(t), newName(t)
	s.make(t, queue, nil) // as watermill-amqp declares it
	s.make(t, back, nil)
	cfg := watermillamqp.NewDurableQueueConfig(s.url)
	msg := newMessage("id-1", "g", 10)

	sub, err := watermillamqp.NewSubscriber(cfg, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	msgs, err := sub.Subscribe(t.Context(), queue)
	if err != nil {
		t.Fatal(err)
	}
	if err := destination(t, Config{URL: s.url, RoutingKey: queue, Format: format.Watermill}).Publish(queue, msg); err != nil {
		t.Fatal(err)
	}
	got := receive(t, msgs)
	same(t, got, msg)
	got.Ack()
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}

	pub, err := watermillamqp.NewPublisher(cfg, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pub.Close() }()
	if err := pub.Publish(back, msg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ours, err := NewSubscriber(s.url, nil, slog.Default()).Subscribe(ctx, back)
	if err != nil {
		t.Fatal(err)
	}
	got = receive(t, ours)
	same(t, got, msg)
	got.Ack()
}

// envKilled is the queue that a run of the tests' program takes messages of, instead of testing.
const envKilled = "OUTRIDER_TEST_AMQP_QUEUE"

// takeUntilKilled is a process that acknowledges the first message, prints the second one and never answers for it.
func takeUntilKilled(queue string) {
	msgs, err := NewSubscriber(os.Getenv(testenv.EnvRabbitMQ), nil, slog.Default()).Subscribe(context.Background(), queue)
	if err != nil {
		panic(err) // its parent sees that it prints nothing
	}
	(<-msgs).Ack()
	msg := <-msgs
	fmt.Println(msg.UUID, msg.Metadata["n"])
	<-msgs // until it is killed
}

// A message without an ack comes again, before those behind it: nothing is lost with a process that is killed. Headers that are no texts, as the
// broker adds one then, are read.
func TestG1_G2_AMessageOfAKilledProcessComesAgain(t *testing.T) {
	t.Parallel()
	s := connect(t, testenv.RabbitMQ(t))
	queue := s.queue(t)
	ch := s.channel(t)
	for _, id := range []string{"1", "2", "3"} {
		if err := ch.PublishWithContext(t.Context(), "", queue, false, false, rabbit.Publishing{MessageId: id, Headers: rabbit.Table{"n": int32(7)}, Body: []byte(id)}); err != nil {
			t.Fatal(err)
		}
	}
	killed := exec.CommandContext(t.Context(), os.Args[0])
	killed.Env = append(os.Environ(), envKilled+"="+queue)
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "2 7\n" {
		t.Fatalf("the process took %q, %v", line, err)
	}
	_ = killed.Process.Kill()
	_ = killed.Wait() // it was killed

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	msgs, err := NewSubscriber(s.url, nil, slog.Default()).Subscribe(ctx, queue)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"2", "3"} {
		msg := receive(t, msgs)
		if msg.UUID != id {
			t.Errorf("message %s comes, want %s", msg.UUID, id)
		}
		msg.Ack()
	}
}

func TestASourceNeedsItsQueue(t *testing.T) {
	t.Parallel()
	s := connect(t, testenv.RabbitMQ(t))
	sub := NewSubscriber(s.url, nil, slog.New(slog.DiscardHandler))
	for queue, want := range map[string]string{s.queue(t): "", newName(t): "cannot be read"} {
		if err := sub.Check(t.Context(), queue); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("check of %s: %v", queue, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := sub.Subscribe(ctx, queue); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("subscription to %s: %v", queue, err)
		}
		cancel()
	}
}
