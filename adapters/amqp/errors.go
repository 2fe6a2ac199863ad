package amqp

import (
	"context"
	"errors"
	"fmt"

	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/outriderhq/outrider/outbox"
)

// errRefused says that the server closed the channel because of what is in one of several messages, and not in which.
var errRefused = errors.New("amqp: one of the messages was refused")

// unsent is the error of messages for which there was no channel.
func (w *wave) unsent(err error) error {
	switch {
	case errors.Is(err, errClosed), errors.Is(w.ctx.Err(), context.Canceled):
		return outbox.Released(err)
	case w.ctx.Err() != nil:
		return outbox.Transient(fmt.Errorf("amqp: no channel was open in the time given: %w", err), 0)
	}
	return outbox.Unavailable(unreachable(err), 0)
}

// unanswered is the error of messages that are not waited for any longer: whether they arrived is not known.
func (w *wave) unanswered(err error) error {
	switch {
	case errors.As(err, new(*blockedError)):
		return outbox.Unavailable(err, 0)
	case errors.Is(w.ctx.Err(), context.Canceled):
		return outbox.Released(fmt.Errorf("amqp: the delivery with routing key %q was called off: %w", w.key, err))
	case w.ctx.Err() != nil:
		return outbox.Transient(fmt.Errorf("amqp: messages with routing key %q were not confirmed in the time given: %w", w.key, err), 0)
	}
	return outbox.Unavailable(fmt.Errorf("amqp: messages with routing key %q were not confirmed within %v", w.key, w.d.cfg.Timeout), 0)
}

// ended is the error of messages without a confirm on a channel that has ended.
func (w *wave) ended(c *channel, messages int) error {
	var why *rabbit.Error
	select {
	case why = <-c.closed:
	default:
	}
	switch {
	case why == nil && w.d.pool.isClosed():
		return outbox.Released(errClosed)
	case why == nil:
		return outbox.Unavailable(fmt.Errorf("amqp: the connection ended before messages with routing key %q were confirmed", w.key), 0)
	case why.Code == rabbit.PreconditionFailed && messages > 1:
		return errRefused
	case why.Code == rabbit.PreconditionFailed:
		return outbox.Permanent(fmt.Errorf("amqp: the broker refuses the message: %s: raise its max_message_size, or send less", why.Reason))
	}
	return outbox.Unavailable(w.d.refused(w.key, why), 0)
}

// unroutable is the error of a message that the broker returned.
func (w *wave) unroutable(why string) error {
	return outbox.Unavailable(fmt.Errorf("amqp: %s takes routing key %q (%s); %s, or outrider topic create DESTINATION %s --yes", w.d.noQueue(), w.key, why, w.d.makeQueue(w.key), w.key), 0)
}

func (d *Destination) noQueue() string {
	if d.cfg.Exchange == "" {
		return "no queue"
	}
	return fmt.Sprintf("no queue of exchange %q", d.cfg.Exchange)
}

func (d *Destination) makeQueue(key string) string {
	if d.cfg.Exchange == "" {
		return fmt.Sprintf("create queue %q", key)
	}
	return fmt.Sprintf("bind one to exchange %q", d.cfg.Exchange)
}

// refused says why the server closed a channel or the connection.
func (d *Destination) refused(key string, why *rabbit.Error) error {
	switch why.Code {
	case rabbit.NotFound:
		return fmt.Errorf("amqp: exchange %q does not exist; create it, or outrider topic create DESTINATION %s --yes", d.cfg.Exchange, key)
	case rabbit.AccessRefused:
		return fmt.Errorf("amqp: no permission to publish: %s; grant the user write on exchange %q (rabbitmqctl set_permissions)", why.Reason, d.exchange())
	case rabbit.ConnectionForced:
		return fmt.Errorf("amqp: the broker closes its connections: %s", why.Reason)
	}
	return fmt.Errorf("amqp: the connection ended before messages with routing key %q were confirmed: %w", key, why)
}

// exchange is the name that permissions are granted on.
func (d *Destination) exchange() string {
	if d.cfg.Exchange == "" {
		return "amq.default"
	}
	return d.cfg.Exchange
}

// unreachable says why there is no connection.
func unreachable(err error) error {
	if blocked, ok := errors.AsType[*blockedError](err); ok {
		return blocked
	}
	why, ok := errors.AsType[*rabbit.Error](err)
	switch {
	case ok && why.Code == rabbit.AccessRefused:
		return fmt.Errorf("amqp: the broker refuses the credentials, or the user may not use the virtual host: %s; check user, password and vhost of the url, and rabbitmqctl list_permissions", why.Reason)
	case ok && why.Code == rabbit.NotAllowed:
		return fmt.Errorf("amqp: the virtual host does not exist, or the user may not use it: %s; correct the path of the url, or create it with rabbitmqctl add_vhost", why.Reason)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("amqp: no connection or channel in time; see whether the broker is overloaded")
	}
	return fmt.Errorf("amqp: the broker does not answer: %w; check the address and TLS, and that it runs", err)
}
