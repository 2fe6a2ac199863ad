package amqp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/endpoint"
)

var _ adapters.Examiner = (*Destination)(nil)

// Examine implements [adapters.Examiner]: the broker is dialled, its certificate looked at, and asked for what [Destination.Check] needs and for
// the type of the queue. No queue gets a message.
func (d *Destination) Examine(ctx context.Context) []adapters.Finding {
	uri, err := rabbit.ParseURI(d.cfg.URL)
	if err != nil {
		return []adapters.Finding{{Level: adapters.LevelBroken, Subject: "url", Text: "is not a URL of AMQP", Fix: "correct it"}} // New checks it
	}
	tls := d.cfg.TLS
	if uri.Scheme != "amqps" {
		tls = nil
	}
	f := endpoint.Dial(ctx, net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), tls, d.cfg.Timeout)
	if f[len(f)-1].Level == adapters.LevelBroken {
		return append(f, adapters.Finding{Level: adapters.LevelUnknown, Subject: "broker", Text: "not checked: there is no connection"})
	}
	if err := d.Check(ctx); err != nil {
		return append(f, adapters.FindingsOf("exchange "+d.exchange(), err)...)
	}
	var found adapters.Finding
	err = d.ask(ctx, func(l *link) error {
		found = adapters.Finding{Subject: "broker", Text: fmt.Sprintf("%s %s takes messages; no alarm blocks publishers", l.property("product"), l.property("version"))}
		return nil
	})
	if err != nil {
		return append(f, adapters.FindingsOf("broker", err)...)
	}
	f = append(f, found, adapters.Finding{Subject: "exchange " + d.exchange(), Text: "exists, and the user may publish to it"})
	if !d.topics.Static() {
		return append(f, adapters.Finding{Level: adapters.LevelUnknown, Subject: "routing keys " + d.cfg.RoutingKey,
			Text: "depend on the message, so whether queues take them is known when one is sent", Fix: "make sure that there is a queue for each value; a message without one waits"})
	}
	return append(f, d.examineQueue(ctx))
}

// examineQueue says what the queue with the name of the routing key may lose.
func (d *Destination) examineQueue(ctx context.Context) (f adapters.Finding) {
	name := d.cfg.RoutingKey
	f.Subject = "queue " + name
	answer := make(chan string, 1)
	err := d.ask(ctx, func(l *link) error {
		there, err := l.has(func(ch *rabbit.Channel) error { return passiveQueue(ch, name) })
		if err != nil || !there {
			answer <- ""
			return err
		}
		kind, err := l.queueType(name)
		answer <- kind
		return err
	})
	if err != nil {
		f.Level, f.Text, f.Fix = adapters.LevelUnknown, "its type is not known: "+err.Error(), "grant the user configure on it to have its type checked"
		return f
	}
	switch kind := <-answer; kind {
	case "quorum":
		f.Text = "is a quorum queue: a confirmed message is on the disks of most of its replicas"
	case "stream":
		f.Text = "is a stream: a confirmed message is on most of its replicas, and not flushed to disk at once"
	case "":
		f.Level, f.Text, f.Fix = adapters.LevelUnknown, "no queue has the name of the routing key, so which queues are bound to the exchange is not known", "see rabbitmqctl list_bindings"
	case "classic":
		f.Level, f.Text, f.Fix = adapters.LevelWarning, "is a classic queue: its messages are on one node, and lost with that node's disk", "use a quorum queue: outrider topic create makes one, consumers move to it"
	default:
		f.Level, f.Text, f.Fix = adapters.LevelUnknown, "exists; its type is not known: "+kind, "see rabbitmqctl list_queues name type"
	}
	return f
}

// queueType declares an existing queue again as a quorum queue. A server refuses that for another type and says which it is; or for another
// argument, which is returned.
func (l *link) queueType(name string) (string, error) {
	ch, err := l.conn.Channel()
	if err != nil {
		return "", unreachable(err)
	}
	_, err = ch.QueueDeclare(name, true, false, false, false, quorum(0))
	why, answered := errors.AsType[*rabbit.Error](err)
	switch {
	case err == nil:
		return "quorum", ch.Close()
	case !answered || why.Code != rabbit.PreconditionFailed:
		return "", err
	case !strings.Contains(why.Reason, "'"+rabbit.QueueTypeArg+"'"):
		return why.Reason, nil
	case strings.Contains(why.Reason, "'stream'"):
		return "stream", nil
	}
	return "classic", nil
}
