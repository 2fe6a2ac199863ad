package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// amqpBroker is a server of RabbitMQ with a quorum queue. What was read is acknowledged; what comes again because the server was killed
// before it knew that, is no second copy.
func amqpBroker(t *testing.T) broker {
	s := testenv.StartRabbitMQ(t)
	with := func(f func(ch *amqp.Channel) error) error {
		conn, err := amqp.Dial(s.URL())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		return f(ch)
	}
	must(t, with(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare("orders", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		return err
	}))
	s.AwaitSaved("orders")
	seen := map[string]bool{}
	u, err := url.Parse(s.URL())
	must(t, err)
	network := testenv.StartProxy(t, u.Host)
	u.Host = network.Address()
	waiting := 0 // when the queue was seen last
	return broker{server: s, network: network, section: fmt.Sprintf("type: amqp, url: %q, routing_key: orders, timeout: 2s", u),
		source: fmt.Sprintf("type: amqp, url: %q, queue: orders", s.URL()),
		// A server that is killed gives back what a reader has not acknowledged, behind later messages.
		progress: func() int {
			_ = with(func(ch *amqp.Channel) error { // it may be down
				q, err := ch.QueueDeclarePassive("orders", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
				if err == nil {
					waiting = q.Messages
				}
				return err
			})
			return waiting
		},
		content: reading(t, func(_ context.Context, take func(id, group string)) error {
			return with(func(ch *amqp.Channel) error {
				return takeReady(ch, func(msg *amqp.Delivery) {
					group, _ := msg.Headers[outbox.MetaGroup].(string)
					if !msg.Redelivered || !seen[msg.MessageId] {
						take(msg.MessageId, group)
					}
					seen[msg.MessageId] = true
				})
			})
		})}
}

// takeReady takes the messages that the queue has now, and acknowledges them. It takes no others, however fast they come, and leaves none
// without an answer: the queue would give those back behind later ones.
func takeReady(ch *amqp.Channel, take func(*amqp.Delivery)) error {
	q, err := ch.QueueDeclarePassive("orders", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	n := min(q.Messages, math.MaxUint16)
	if err != nil || n == 0 {
		return err
	}
	if err := ch.Qos(n, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	var last amqp.Delivery
	for range n {
		var ok bool
		if last, ok = <-deliveries; !ok {
			return errors.New("the channel ended")
		}
		take(&last)
	}
	return last.Ack(true)
}
