package amqp

import (
	"context"
	"errors"
	"fmt"

	rabbit "github.com/rabbitmq/amqp091-go"
)

// Check implements [adapters.Checker]: the broker must answer, take messages, let the user publish to the exchange, and have the queue, if the
// exchange is the default one and the routing key the same for all messages.
func (d *Destination) Check(ctx context.Context) error {
	return d.ask(ctx, func(l *link) error {
		if err := d.checkPublishing(l); err != nil {
			return err
		}
		if d.cfg.Exchange != "" || !d.topics.Static() {
			return nil
		}
		ok, err := l.has(func(ch *rabbit.Channel) error { return passiveQueue(ch, d.cfg.RoutingKey) })
		if err == nil && !ok {
			err = fmt.Errorf("amqp: queue %q does not exist; create it, or outrider topic create DESTINATION %[1]s --yes", d.cfg.RoutingKey)
		}
		return err
	})
}

// ask runs f with the connection, for as long as a delivery may take. f may go on for a while after ask has returned.
func (d *Destination) ask(ctx context.Context, f func(*link) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	done := make(chan error, 1)
	var blocked <-chan struct{}
	l, err := d.pool.connect(ctx)
	if err == nil {
		blocked, err = l.state()
	}
	if err != nil {
		return unreachable(err)
	}
	go func() { done <- f(l) }()
	select {
	case err := <-done:
		return err
	case <-blocked:
		_, err := l.state()
		return err
	case <-ctx.Done():
		l.kill() // so that f ends
		return unreachable(ctx.Err())
	}
}

// checkPublishing publishes what RabbitMQ refuses after it has checked the permission, and before it looks for queues: a message that expires at no
// time. Of another broker it is not known whether that would keep the message.
func (d *Destination) checkPublishing(l *link) error {
	if l.property("product") != "RabbitMQ" {
		return nil
	}
	ch, err := l.conn.Channel()
	if err != nil {
		return unreachable(err)
	}
	closed := ch.NotifyClose(make(chan *rabbit.Error, 1))
	if err := ch.Publish(d.cfg.Exchange, d.sampleKey(), false, false, rabbit.Publishing{Expiration: "never"}); err != nil {
		return unreachable(err)
	}
	why := <-closed
	if why == nil {
		return unreachable(errors.New("the connection ended"))
	}
	if why.Code != rabbit.PreconditionFailed {
		return d.refused(d.sampleKey(), why)
	}
	// A server that blocks publishers says so now, and answers nothing more.
	ch, err = l.conn.Channel()
	if err != nil {
		return unreachable(err)
	}
	return ch.Close()
}

// sampleKey is a routing key that the destination may publish with.
func (d *Destination) sampleKey() string {
	if d.topics.Static() {
		return d.cfg.RoutingKey
	}
	return "KEY"
}

// property returns what the server says of itself.
func (l *link) property(name string) string {
	text, _ := l.conn.Properties[name].(string)
	return text
}

// has reports whether what look asks for exists. The server closes a channel for an answer that is no.
func (l *link) has(look func(*rabbit.Channel) error) (bool, error) {
	ch, err := l.conn.Channel()
	if err != nil {
		return false, unreachable(err)
	}
	err = look(ch)
	why, answered := errors.AsType[*rabbit.Error](err)
	switch {
	case err == nil:
		return true, ch.Close()
	case answered && why.Code == rabbit.NotFound:
		return false, nil
	}
	return false, err
}

func passiveQueue(ch *rabbit.Channel, name string) error {
	_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	return err
}
