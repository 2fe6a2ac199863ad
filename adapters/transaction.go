package adapters

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// TxDestination is a destination that writes into the database in which it is recorded what was
// delivered: that of the state store, or of the queue that the messages were claimed from.
// Delivery and record commit together, so every message arrives exactly once.
//
// The router calls DeliverTx where that database can do it ([TxStateStore], [TxQueue]), and Deliver
// elsewhere.
type TxDestination interface {
	Destination

	// Database names the database that it writes into, as [TxStateStore] and [TxQueue] name theirs: only those of
	// the same name have transactions for it.
	Database() string

	// DeliverTx is Deliver inside tx, whose type the state store or queue documents
	// (PostgreSQL: pgx.Tx). It neither commits nor rolls back, and waits for nothing but the
	// database: while it runs a transaction is open.
	//
	// With errs nil everything is committed. Committed, if it is not nil, is called once it is known to be: what it counts is
	// not counted again when a transaction rolls back and its messages are given again. After any other errs the transaction is rolled back. Messages whose
	// result is nil are then given again, in another transaction; if every message has an error, none of them [outbox.Released] or
	// [outbox.Skip], it is not known which of them is at fault, and they are given again in parts, until a message
	// fails alone. An [outbox.Unavailable] error is not a message's fault: it ends the delivery. Neither is [ErrConflict]: the
	// messages are given again, all of them.
	DeliverTx(ctx context.Context, tx any, address string, batch []*message.Message) (committed func(), errs []error)
}

// DatabaseName is how a PostgreSQL database is named by the methods Database: by host, port and name, as the configuration
// gives them.
func DatabaseName(host string, port uint16, name string) string {
	return "postgres://" + net.JoinHostPort(host, strconv.Itoa(int(port))) + "/" + name
}

// TxStateStore is implemented by state stores that settle in a transaction which they
// share with a delivery.
type TxStateStore interface {
	StateStore

	// Database is the [DatabaseName] of the database. Two names of
	// one database are two databases here, which costs the guarantee and nothing else.
	Database() string

	// Transact begins a transaction, has deliver write into it, asks for the settlements, writes
	// them, and commits. An error of deliver or settle rolls back and is returned as it is. Lanes
	// that are fenced roll back too, and are returned.
	//
	// Parked messages that were delivered and are not there any more, because an operator has skipped them, roll back too: the
	// error is a [*GoneError].
	//
	// When a commit fails in a way that does not say whether it was carried out, Transact looks whether the
	// settlements are there. If that cannot be found out in time the error is [ErrUnknown].
	Transact(ctx context.Context, deliver func(ctx context.Context, tx any) error,
		settle func(ctx context.Context) ([]Settlement, error)) (fenced []LaneRef, err error)
}

// TxQueue is implemented by queues that settle in a transaction which they share with a
// delivery.
type TxQueue interface {
	Queue

	// Database is as in [TxStateStore].
	Database() string

	// Transact begins a transaction, has deliver write into it, writes that the rows were delivered, which is what all
	// results say, and commits. An error of deliver rolls back and is returned as it is. Claims that are
	// lost roll back too, and are returned; so do rows that other sessions have locked, with a [*LockedError]: their claims
	// are held. After a commit the claims have ended.
	//
	// Unknown outcomes are as described at [TxStateStore].
	Transact(ctx context.Context, results []ClaimResult, deliver func(ctx context.Context, tx any) error) (lost []*Claim, err error)
}

// ErrUnknown is the error if it is unknown whether a transaction was committed.
var ErrUnknown = errors.New("it is not known whether the transaction was committed")

// GoneError lists parked messages that no longer exist.
type GoneError struct{ Keys []ParkedKey }

// Error implements error.
func (e *GoneError) Error() string {
	return fmt.Sprintf("%d parked messages were removed by an operator", len(e.Keys))
}

// ErrLost is part of the [outbox.Released] result of a message that another process has by now. It is not delivered again: its origin takes
// it back.
var ErrLost = errors.New("the message belongs to somebody else")

// ErrConflict is the error of a transaction that conflicted with another one: a deadlock, a serialization failure, or a lock
// timeout.
var ErrConflict = errors.New("another transaction was in the way")

// conflictTries is how often the same messages are tried that meet other transactions.
const conflictTries = 5

// InParts delivers a batch in as few transactions as it takes. Try delivers messages in one: errs is nil when that was
// committed, otherwise nothing was, and it says what [TxDestination.DeliverTx] says. Ended is why
// nothing more is to be tried. Of a group, the key of which group returns (empty: none), nothing is tried behind
// a message that has failed. The result is that of [Destination.Deliver].
func InParts(batch []*message.Message, group func(*message.Message) string, try func([]*message.Message) (errs []error, ended error)) []error {
	p := &parts{group: group, try: try, results: make(map[*message.Message]error, len(batch)), failed: map[string]bool{}}
	p.deliver(batch)
	if len(p.results) == 0 {
		return nil
	}
	errs := make([]error, len(batch))
	for i, msg := range batch {
		errs[i] = p.results[msg]
	}
	return errs
}

// parts is a delivery of which it is looked for what is at fault.
type parts struct {
	group   func(*message.Message) string
	try     func([]*message.Message) ([]error, error)
	results map[*message.Message]error // of those that were not delivered
	failed  map[string]bool            // groups of which a message has failed
	ended   error
}

var errBehind = outbox.Released(errors.New("a message of the same group before it has failed"))

func (p *parts) deliver(batch []*message.Message) {
	if batch = p.remaining(batch); len(batch) == 0 {
		return
	}
	errs, ended := p.whole(batch)
	if ended == nil && errs != nil && len(errs) != len(batch) {
		ended = fmt.Errorf("the destination returned %d results for %d messages", len(errs), len(batch))
	}
	switch {
	case ended != nil:
		p.ended = ended
		p.remaining(batch)
	case errs == nil:
	case len(batch) == 1 || slices.ContainsFunc(errs, tellsApart): // it is known who is at fault
		var rest []*message.Message
		for i, msg := range batch {
			if errs[i] == nil {
				rest = append(rest, msg)
			} else {
				p.results[msg], p.failed[p.group(msg)] = errs[i], true
			}
		}
		p.deliver(rest)
	default:
		half := len(batch) / 2
		p.deliver(batch[:half])
		p.deliver(batch[half:])
	}
}

// tellsApart reports whether a result says something of its own message: that it was not at fault, or that it was not
// attempted or is not to be.
func tellsApart(err error) bool {
	return err == nil || outbox.KindOf(err) == outbox.KindReleased || outbox.KindOf(err) == outbox.KindSkip
}

// whole tries a batch, and again as long as other transactions are in its way.
func (p *parts) whole(batch []*message.Message) (errs []error, ended error) {
	for range conflictTries {
		errs, ended = p.try(batch)
		i := slices.IndexFunc(errs, func(err error) bool { return errors.Is(err, ErrConflict) })
		if ended != nil || i < 0 {
			return errs, ended
		}
		ended = outbox.Unavailable(fmt.Errorf("given up after %d tries: %w", conflictTries, errs[i]), 0)
	}
	return nil, ended
}

// remaining leaves out what may not be delivered any more.
func (p *parts) remaining(batch []*message.Message) []*message.Message {
	out := batch[:0:0]
	for _, msg := range batch {
		group := p.group(msg)
		switch {
		case p.ended != nil:
			p.results[msg] = p.ended
		case group != "" && p.failed[group]:
			p.results[msg] = errBehind
		default:
			out = append(out, msg)
		}
	}
	return out
}
