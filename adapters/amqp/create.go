package amqp

import (
	"context"
	"errors"
	"fmt"

	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/outriderhq/outrider/adapters"
)

var _ adapters.TopicCreator = (*Destination)(nil)

// CreateTopic implements [adapters.TopicCreator]: a durable exchange of type topic if one is named and missing, a quorum queue with the name of the
// routing key if it is missing, and its binding. What exists stays as it is.
func (d *Destination) CreateTopic(ctx context.Context, t adapters.NewTopic) (created bool, err error) {
	if err := d.topics.Produces(t.Name); err != nil {
		return false, fmt.Errorf("amqp: %w", err)
	}
	if t.Partitions > 0 {
		return false, errors.New("amqp: a queue has no partitions: leave --partitions out")
	}
	made := make(chan bool, 1)
	err = d.ask(ctx, func(l *link) error {
		ok, err := d.create(l, t)
		made <- ok
		return err
	})
	if err != nil {
		return false, d.notCreated(t.Name, err)
	}
	return <-made, nil
}

func (d *Destination) create(l *link, t adapters.NewTopic) (created bool, err error) {
	exchange := d.cfg.Exchange
	there := true
	if exchange != "" {
		there, err = l.has(func(ch *rabbit.Channel) error {
			return ch.ExchangeDeclarePassive(exchange, "topic", true, false, false, false, nil)
		})
		if err != nil {
			return false, err
		}
	}
	queue, err := l.has(func(ch *rabbit.Channel) error { return passiveQueue(ch, t.Name) })
	if err != nil || t.DryRun {
		return !there || !queue, err
	}
	ch, err := l.conn.Channel()
	if err != nil {
		return false, err
	}
	if !there {
		if err := ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil); err != nil {
			return false, err
		}
	}
	if !queue {
		if _, err := ch.QueueDeclare(t.Name, true, false, false, false, quorum(t.Replicas)); err != nil {
			return false, err
		}
	}
	if exchange != "" {
		if err := ch.QueueBind(t.Name, t.Name, exchange, false, nil); err != nil {
			return false, err
		}
	}
	return !there || !queue, ch.Close()
}

// quorum are the arguments of a quorum queue with so many replicas; 0: as many as the broker's default.
func quorum(replicas int) rabbit.Table {
	args := rabbit.Table{rabbit.QueueTypeArg: rabbit.QueueTypeQuorum}
	if replicas > 0 {
		args["x-quorum-initial-group-size"] = int32(replicas)
	}
	return args
}

// notCreated says why a queue is not created.
func (d *Destination) notCreated(name string, err error) error {
	if why, ok := errors.AsType[*rabbit.Error](err); ok && why.Code == rabbit.AccessRefused {
		return fmt.Errorf("amqp: no permission to create queue %q: %s; grant the user configure and write on it (and on exchange %q configure and read), or create it by another user", name, why.Reason, d.exchange())
	}
	return fmt.Errorf("amqp: queue %q cannot be created: %w", name, err)
}
