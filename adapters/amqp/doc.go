// Package amqp delivers messages to RabbitMQ (and other brokers of AMQP 0.9.1) with amqp091-go: persistent, mandatory, and confirmed by the
// broker.
//
// # Waves
//
// A [Destination] has one connection. Each wave has a channel of its own for as long as it lasts: it publishes all its messages, and returns when the
// broker has confirmed all of them. Channels are kept and reused, unless a wave ended with an unknown outcome: then its channel is closed. What a
// server has not read of it by then may still be stored, as a duplicate.
//
// A broker takes the messages of a channel in order, but it may refuse one (basic.nack, or a return because no queue is bound) and take the next: a
// queue with a maximum length and overflow: reject-publish does, when a consumer makes room between the two. So only one message of each group is
// sent before its confirm has arrived ([Config.PerGroup]), and the order of a group never depends on what a queue does. Larger values are for queues
// that refuse nothing: with those the messages of a group are stored in order, also when the connection ends in the middle of a wave, because
// everything after the last confirm is sent again.
//
// # Outcomes
//
// A message without a queue, a missing exchange, missing permissions and a broker that is away or blocks publishers (its alarms) are outages of the
// address: messages wait and no attempt counts. A confirm that does not come within [Config.Timeout] is an unknown outcome, and the message is sent again.
// A nack is a failed attempt. What the broker refuses for its size is dead.
//
// # Formats
//
// The body is the payload, and the message id the event id. Headers are those of package format: metadata and "_watermill_message_uuid", as watermill-amqp
// writes and reads them (watermill), "id", "type" and metadata (raw), or attributes with the prefix "cloudEvents_" and the content type (cloudevents).
package amqp
