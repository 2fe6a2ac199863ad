package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outriderhq/outrider/outbox"
)

// Codes of the servers' errors.
const (
	codeAccountFull = 10002 // limits of the account
	codeTooLarge    = 10054 // max_msg_size of the stream
	codeSealed      = 10109
	codeInProcess   = 10158 // another copy of the message is being stored
)

// refused reports whether a batch was refused and nothing of it stored, and a message of it may be to blame.
func refused(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.Code < 500 || errors.Is(err, natsgo.ErrMaxPayload)
}

// undelivered says why messages were not delivered, or why that is not known. msg is the one that was sent alone.
func (w *wave) undelivered(msg *natsgo.Msg, err error) error {
	d, subject, cause := w.d, w.subject, context.Cause(w.limited)
	api, answered := errors.AsType[*jetstream.APIError](err)
	switch {
	case errors.Is(w.ctx.Err(), context.DeadlineExceeded):
		return outbox.Transient(fmt.Errorf("nats: messages for subject %q were not acknowledged in the time given: %w", subject, w.ctx.Err()), 0)
	case w.ctx.Err() != nil:
		return outbox.Released(fmt.Errorf("nats: the delivery to subject %q was called off: %w", subject, w.ctx.Err()))
	case errors.Is(err, errClosed), errors.Is(cause, errClosed):
		return outbox.Released(errClosed)
	case errors.As(err, new(*outbox.Error)):
		return err
	case errors.Is(cause, errLost):
		return outbox.Unavailable(fmt.Errorf("nats: subject %q: %w: whether messages are stored is not known, they are sent again with the same ids", subject, errLost), 0)
	case w.limited.Err() != nil:
		return outbox.Unavailable(fmt.Errorf("nats: messages for subject %q were not acknowledged within %v%s", subject, d.cfg.Timeout, d.link.denial(subject)), 0)
	case msg != nil && (errors.Is(err, natsgo.ErrMaxPayload) || answered && api.ErrorCode == codeTooLarge):
		return outbox.Permanent(fmt.Errorf("nats: message %s of %d bytes is too large: raise the servers' max_payload and the stream's max_msg_size, or send less: %w",
			eventID(subject, msg.Header.Get(jetstream.MsgIDHeader)), msg.Size(), err))
	case msg != nil && answered && api.Code < 500 && !slices.Contains([]jetstream.ErrorCode{codeAccountFull, codeSealed, codeInProcess}, api.ErrorCode):
		return outbox.Transient(fmt.Errorf("nats: the stream of subject %q refuses message %s: %w", subject, eventID(subject, msg.Header.Get(jetstream.MsgIDHeader)), err), 0)
	}
	d.streams.forget(subject)
	return d.unavailable(subject, err)
}

// unavailable says what keeps a subject from being published to. No message is to blame for any of it.
func (d *Destination) unavailable(subject string, err error) error {
	switch {
	case errors.As(err, new(*away)):
		return outbox.Unavailable(withHint(err), 0)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, natsgo.ErrNoResponders), errors.Is(err, jetstream.ErrStreamNotFound):
		err = fmt.Errorf("nats: no stream covers subject %q: create one with nats stream add, or outrider topic create DESTINATION %s --yes", subject, subject)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		err = fmt.Errorf("nats: JetStream is not enabled for the account or the servers: enable it: %w", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, natsgo.ErrTimeout):
		err = fmt.Errorf("nats: the servers did not answer in time about subject %q%s", subject, d.link.denial(subject))
	default:
		err = fmt.Errorf("nats: subject %q cannot be published to: %w", subject, err)
	}
	return outbox.Unavailable(err, 0)
}

// withHint adds what to do about logins that are refused.
func withHint(err error) error {
	if errors.Is(err, natsgo.ErrAuthorization) || errors.Is(err, natsgo.ErrAuthExpired) {
		return fmt.Errorf("%w: check the login", err)
	}
	return err
}

// denial says that the servers refused an operation on a subject, or on JetStream's API, since the connection was made; otherwise it is empty.
func (l *link) denial(subject string) string {
	text := l.denied.Load()
	if text == nil || !strings.Contains(*text, `"`+subject+`"`) && !strings.Contains(*text, "$JS.API.") {
		return ""
	}
	return ": " + *text + ": grant the permission to the user"
}
