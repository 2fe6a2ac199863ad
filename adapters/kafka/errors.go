package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox"
)

// isRejection reports whether the broker refused a batch because of what is in
// it, so that one of the records is to blame and the others are not. None of
// the batch was written.
func isRejection(err error) bool {
	return isTooLarge(err) || errors.Is(err, kerr.InvalidRecord) ||
		errors.Is(err, kerr.CorruptMessage) || errors.Is(err, kerr.UnknownServerError)
}

func isTooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// rejection is the error of the one record that was found to be rejected. What
// the broker says of the record itself is permanent. A damaged batch and an
// error that the broker has no name for may pass: they cost an attempt.
func rejection(topic, id string, err error) error {
	switch {
	case isTooLarge(err):
		return outbox.Permanent(fmt.Errorf("message %s is too large for Kafka: raise max.message.bytes of topic %q or send less: %w", id, topic, err))
	case errors.Is(err, kerr.InvalidRecord):
		return outbox.Permanent(fmt.Errorf("topic %q refuses message %s (a compacted topic needs a message group): %w", topic, id, err))
	}
	return outbox.Transient(fmt.Errorf("topic %q failed on message %s: %w", topic, id, err), 0)
}

// isRejection is [isRejection] in a wave: with times that come from messages it may be one of them that the broker refuses.
func (w *wave) isRejection(err error) bool {
	return isRejection(err) || w.dated && errors.Is(err, kerr.InvalidTimestamp)
}

// rejection is [rejection] of one record of a wave. A time that is no message's own is the clock's, which all records share.
func (w *wave) rejection(i int, err error) error {
	at := w.recs[i].Timestamp
	switch {
	case !errors.Is(err, kerr.InvalidTimestamp):
		return rejection(w.topic, w.names[i].id, err)
	case at.Equal(w.made):
		return unavailable(w.topic, err)
	}
	return outbox.Permanent(fmt.Errorf("topic %q refuses message %s because of its occurred_at, %s: raise message.timestamp.after.max.ms or message.timestamp.before.max.ms of the topic: %w",
		w.topic, w.names[i].id, at.UTC().Format(time.RFC3339), err))
}

// cause is the error of a record that was not rejected and not delivered.
func (d *Destination) cause(b *bisection, err error) error {
	topic := b.w.topic
	if errors.Is(err, kgo.ErrClientClosed) || b.c.transactional != "" && b.limited.Err() != nil {
		return d.interrupted(b)
	}
	if b.c.transactional != "" && isFenced(err) {
		return d.fenced(b, err)
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || isDenied(err) {
		b.c.forget(topic)
	}
	if b.c.transactional == "" && isLasting(err) {
		b.c.refused = true
	}
	return unavailable(topic, b.c.watch.explain(err))
}

// interrupted is the error of records whose client was closed on the way.
func (d *Destination) interrupted(b *bisection) error {
	switch {
	case b.ctx.Err() != nil:
		return ended(b.ctx, b.w.topic)
	case errors.As(context.Cause(b.limited), new(*away)):
		return outbox.Unavailable(fmt.Errorf("kafka: %w", context.Cause(b.limited)), 0)
	case b.limited.Err() != nil:
		return outbox.Unavailable(b.c.watch.explain(fmt.Errorf("kafka: records for topic %q were not acknowledged within %v", b.w.topic, d.cfg.Timeout)), 0)
	}
	return broker.ErrBehind // the wave was called off before any of it was sent
}

// ended is the error of records whose delivery's context has ended: whether they
// arrived is not known.
func ended(ctx context.Context, topic string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return outbox.Released(fmt.Errorf("kafka: the delivery to topic %q was called off: %w", topic, ctx.Err()))
	}
	return outbox.Transient(fmt.Errorf("kafka: records for topic %q were not acknowledged in the time given: %w", topic, ctx.Err()), 0)
}

// noClient is the error of a wave that never got a client.
func (d *Destination) noClient(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*outbox.Error](err); ok {
		return err // a fenced producer's, which knows best
	}
	switch {
	case errors.Is(err, errClosed), errors.Is(ctx.Err(), context.Canceled):
		return outbox.Released(err)
	case ctx.Err() != nil:
		return outbox.Transient(fmt.Errorf("kafka: no client was free in the time given: %w", err), 0)
	}
	return outbox.Unavailable(fmt.Errorf("kafka: all %d clients were busy for %v: raise the number of clients, or see why the brokers are slow", d.cfg.Clients, d.cfg.Timeout), 0)
}

// unavailable says what keeps a topic from being written to. No message is to
// blame for any of it.
func unavailable(topic string, err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return outbox.Unavailable(r, 0)
	}
	var hint string
	known := true
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		hint = fmt.Sprintf("topic %q does not exist: create it with kafka-topics.sh --create --topic %s --bootstrap-server ..., or outrider topic create DESTINATION %s --yes", topic, topic, topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		hint = fmt.Sprintf("no permission to write to topic %q: grant WRITE and DESCRIBE on it", topic)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		hint = "no permission to write idempotently: grant IDEMPOTENT_WRITE on the cluster"
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		hint = "the brokers refuse the credentials: check the SASL mechanism, username and password"
	case errors.Is(err, kerr.InvalidTimestamp):
		hint = fmt.Sprintf("topic %q refuses the time of the clock of this machine: check it", topic)
	case errors.Is(err, kerr.UnsupportedForMessageFormat), errors.Is(err, kerr.UnsupportedCompressionType):
		hint = fmt.Sprintf("topic %q cannot take records with headers or of this compression: check its message format and the compression", topic)
	default:
		hint, known = fmt.Sprintf("topic %q cannot be written to", topic), false
	}
	if errors.Is(err, kerr.SaslAuthenticationFailed) || !known {
		return outbox.Unavailable(fmt.Errorf("kafka: %s: %w", hint, err), 0)
	}
	return outbox.Unavailable(&refusal{hint, err}, 0)
}

// refusal says why a topic cannot be written to. It shows only Kafka's name of the
// error that it wraps: Kafka's description says less than the hint.
type refusal struct {
	hint string
	err  error
}

func (r *refusal) Error() string {
	if named, ok := errors.AsType[*kerr.Error](r.err); ok {
		return "kafka: " + r.hint + " (" + named.Message + ")"
	}
	return "kafka: " + r.hint + ": " + r.err.Error()
}

func (r *refusal) Unwrap() error { return r.err }

func isDenied(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) ||
		errors.Is(err, kerr.SaslAuthenticationFailed)
}

// isLasting reports whether the brokers would give the same answer again, as far as
// Kafka's protocol goes; but permissions are granted, and brokers upgraded. An error of
// one topic says nothing about the client.
func isLasting(err error) bool {
	code, ok := errors.AsType[*kerr.Error](err)
	return ok && !code.Retriable && !errors.Is(err, kerr.TopicAuthorizationFailed)
}

// warnTooLarge warns once that batches are split over and over.
func (d *Destination) warnTooLarge(topic string) {
	d.warnBatchSize.Do(func() {
		d.cfg.Logger.Warn("kafka: batches are larger than the topic takes and are sent in parts: raise the topic's max.message.bytes",
			"topic", topic, "max_message_bytes", d.cfg.MaxMessageBytes, "brokers", strings.Join(d.cfg.Brokers, ","))
	})
}
