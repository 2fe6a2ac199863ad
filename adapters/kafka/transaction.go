package kafka

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/outbox"
)

// A broker refuses a producer's next transaction until it has written the end
// of the last one to all partitions, which takes about a millisecond.
const concurrentBackoff = 2 * time.Millisecond

// transactionBackoff is backoff, but quick at first: see concurrentBackoff.
func transactionBackoff(fails int) time.Duration {
	return min(concurrentBackoff<<max(min(fails-1, 9), 0), time.Second)
}

// send sends records and waits for the outcome of each. With a transactional
// client all of them are delivered, or none.
func (b *bisection) send(indices []int) {
	if b.c.transactional == "" {
		b.w.send(b.limited, b.c, indices)
		return
	}
	// Begin would load an id that was lost with the last transaction as well, but
	// waits for that as long as it takes.
	_, _, err := b.c.ProducerID(b.limited)
	if err == nil {
		err = b.c.BeginTransaction()
	}
	if err != nil {
		b.giveUp(indices, err)
		return
	}
	b.w.send(b.limited, b.c, indices)
	if len(b.w.failed) == 0 {
		if err := b.commit(indices); err != nil {
			b.giveUp(indices, err)
		}
		return
	}
	why := b.w.reason()
	if b.c.spent || isFenced(why) || b.c.EndTransaction(b.limited, kgo.TryAbort) != nil {
		b.giveUp(indices, why)
		return
	}
	b.w.allFailed(indices, why)
}

// commit ends a transaction that delivers records, with its note.
func (b *bisection) commit(indices []int) error {
	notes := b.w.notes
	if notes != nil {
		if err := b.c.note(b.limited, b.w.topic, notes.Write(indices)); err != nil {
			return notNoted(b.c.transactional, b.w.topic, err)
		}
	}
	err := b.c.EndTransaction(b.limited, kgo.TryCommit)
	if err == nil && notes != nil {
		notes.Committed()
	}
	return err
}

// reason is what explains that a transaction failed: other records fail as well
// when a producer is fenced or one of its batches is rejected.
func (w *wave) reason() error {
	why := w.failed[0].err
	for _, f := range w.failed {
		if isFenced(f.err) {
			return f.err
		}
		if w.isRejection(f.err) && !w.isRejection(why) {
			why = f.err
		}
	}
	return why
}

// giveUp fails the records of a transaction that can neither be committed nor
// aborted here, and the client with it. The next one that initialises the id
// ends the transaction first.
func (b *bisection) giveUp(indices []int, err error) {
	if !b.c.spent {
		b.c.spent = true
		b.c.Close()
	}
	if b.w.isRejection(err) { // of the transaction as a whole: there is no culprit to look for
		err = errors.New(err.Error())
	}
	b.w.allFailed(indices, err)
}

// allFailed makes an error that of every record.
func (w *wave) allFailed(indices []int, err error) {
	w.failed = w.failed[:0]
	for _, i := range indices {
		w.failed = append(w.failed, failure{&w.recs[i], err})
	}
}

// isFenced reports whether the broker no longer obeys the producer, or has ended
// its transaction: another producer has initialised the id, or the transaction
// took too long. (A commit whose answer was lost may end like this, too.)
func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) ||
		errors.Is(err, kerr.InvalidProducerIDMapping) || errors.Is(err, kerr.UnknownProducerID) ||
		errors.Is(err, kerr.InvalidTxnState)
}

// fenced is the error of records whose producer the broker obeys no more. They
// were not attempted, as far as we have a say.
func (d *Destination) fenced(b *bisection, err error) error {
	d.cfg.Logger.Warn("kafka: a transaction was aborted by another producer with the same id, and its messages are sent again if this instance still owns the lane; "+
		"when this goes on, another installation uses the id: give each a transactional_id of its own", "topic", b.w.topic, "transactional_id", b.c.transactional)
	return outbox.Released(fmt.Errorf("kafka: the transaction for topic %q was aborted: the lane's transactional id has another producer: %w", b.w.topic, err))
}

// notInitialised says why a lane's transactional id could not be taken. No
// message is to blame for any of it.
func (d *Destination) notInitialised(id string, err error) error {
	var hint string
	if a, ok := errors.AsType[*away](err); ok {
		return outbox.Unavailable(fmt.Errorf("kafka: %w", a), 0)
	}
	switch {
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		hint = fmt.Sprintf("the brokers allow no transaction of %v: raise their transaction.max.timeout.ms, or lower the destination's timeout", d.cfg.Timeout)
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		hint = fmt.Sprintf("no permission to use transactional id %q: grant WRITE and DESCRIBE on transactional ids that begin with %q", id, d.cfg.TransactionalID+"-")
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		hint = "no permission to write idempotently: grant IDEMPOTENT_WRITE on the cluster"
	case errors.Is(err, kerr.CoordinatorNotAvailable), errors.Is(err, kerr.NotEnoughReplicas):
		hint = "the brokers have no coordinator of transactions: transaction.state.log.replication.factor and .min.isr must not exceed the number of brokers"
	default:
		hint = fmt.Sprintf("transactional id %q cannot be initialised", id)
	}
	return outbox.Unavailable(fmt.Errorf("kafka: %s: %w", hint, err), 0)
}
