package amqp

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

// waveSize is the size of the benchmarks' waves.
const waveSize = maxWaveMessages

func benchQueue(b *testing.B) (url, queue string) {
	b.Helper()
	s := connect(b, testenv.RabbitMQ(b))
	return s.url, s.queue(b)
}

func benchMessages(groups int) []*message.Message {
	msgs := make([]*message.Message, waveSize)
	for i := range msgs {
		group := ""
		if groups > 0 {
			group = "g" + strconv.Itoa(i%groups)
		}
		msgs[i] = newMessage(strconv.Itoa(i), group, 200)
	}
	return msgs
}

// BenchmarkDeliver is a lane's waves into a quorum queue, by the number of groups in a wave (0: none has one) and of messages of a group in a round.
func BenchmarkDeliver(b *testing.B) {
	for _, c := range []struct{ groups, perGroup int }{{0, 1}, {1000, 1}, {100, 1}, {10, 1}, {10, 100}, {1, 1000}} {
		b.Run(fmt.Sprintf("groups=%d/of each=%d", c.groups, c.perGroup), func(b *testing.B) {
			url, queue := benchQueue(b)
			d := destination(b, Config{URL: url, RoutingKey: queue, PerGroup: c.perGroup, Format: "watermill"})
			msgs := benchMessages(c.groups)
			for b.Loop() {
				if errs := d.Deliver(context.Background(), queue, msgs); errs != nil {
					b.Fatal(errs)
				}
			}
			b.ReportMetric(float64(b.N)*waveSize/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// BenchmarkBare is the same with the client alone: its headers are made once.
func BenchmarkBare(b *testing.B) {
	url, queue := benchQueue(b)
	conn, err := rabbit.Dial(url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	var all []rabbit.Publishing
	for _, msg := range benchMessages(0) {
		headers := rabbit.Table{watermillID: msg.UUID}
		for k, v := range msg.Metadata {
			headers[k] = v
		}
		all = append(all, rabbit.Publishing{Headers: headers, MessageId: msg.UUID, DeliveryMode: rabbit.Persistent, Body: adapters.PayloadOf(msg)})
	}
	confirms := make([]*rabbit.DeferredConfirmation, waveSize)
	for b.Loop() {
		for i := range all {
			if confirms[i], err = ch.PublishWithDeferredConfirm("", queue, true, false, all[i]); err != nil {
				b.Fatal(err)
			}
		}
		for _, confirm := range confirms {
			if !confirm.Wait() {
				b.Fatal("a message was refused")
			}
		}
	}
	b.ReportMetric(float64(b.N)*waveSize/b.Elapsed().Seconds(), "msg/s")
}
