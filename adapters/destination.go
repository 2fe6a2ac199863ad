package adapters

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/internal/lanectx"
)

// Destination delivers batches. Methods may be called concurrently, within
// what [Ordering] allows.
type Destination interface {
	// Address renders where the message goes: a topic, a subject or a URL. An
	// address is the unit that is paused if it cannot be reached. An error is
	// permanent for the message.
	Address(msg *message.Message) (string, error)

	// Deliver sends the batch to one address and returns when the outcome of
	// every message is known. The result is nil when all were delivered,
	// otherwise it has one entry per message. For each group the delivered
	// messages are a prefix of the group's messages in the batch, as far as the
	// receiver lets the destination decide; what was held back for that is
	// [outbox.Released]. Errors carry their [outbox.Kind]; an error without one is transient.
	Deliver(ctx context.Context, address string, batch []*message.Message) []error

	// Ordering declares how batches must be sequenced. It is constant.
	Ordering() Ordering

	// Close flushes nothing (Deliver has returned) and frees connections.
	Close() error
}

// AddressReporter is implemented by destinations that detect during a delivery that
// its address does not answer.
type AddressReporter interface {
	// Unanswered returns the addresses with deliveries in flight that do not
	// answer, with start time and cause.
	Unanswered() []AddressStatus
}

// DuplicateCounter is implemented by destinations that recognise duplicates.
type DuplicateCounter interface {
	// Duplicates returns the number of duplicates, which counted as delivered.
	Duplicates() int64
}

// DepthCounter is implemented by destinations that are queues and can count their waiting entries.
type DepthCounter interface {
	// Depth counts the waiting entries of the queue, from any producer, up to
	// most.
	Depth(ctx context.Context, most int) (int, error)
}

// TopicCreator is implemented by destinations whose addresses are topics that can be created.
type TopicCreator interface {
	// CreateTopic creates a topic that the destination may deliver to, and no other. It
	// returns false if the topic exists.
	CreateTopic(ctx context.Context, topic NewTopic) (bool, error)
}

// NewTopic is a topic to be created.
type NewTopic struct {
	Name       string
	Partitions int  // 0: as many as the brokers' default
	Replicas   int  // of each partition; 0: likewise
	DryRun     bool // the brokers only check whether they would
}

// Checker is implemented by destinations and sources that can verify their
// configuration against the real server.
type Checker interface {
	// Check returns an error that names the problem and a fix.
	Check(ctx context.Context) error
}

// Ordering declares how a destination keeps order. The zero value is the
// strictest: one message per request and one outstanding request per group.
type Ordering struct {
	Unit Unit

	// MaxMessages and MaxBytes (of payload) bound one batch.
	// Zero: 1 message, and no bound on bytes.
	MaxMessages int
	MaxBytes    int

	// MaxGroups bounds the groups of one batch. Zero: any number.
	MaxGroups int

	// PerGroup bounds the messages of each group in a batch, for receivers that may refuse one
	// message and take the next. Zero: any number.
	PerGroup int

	// MaxRequests bounds the outstanding batches of a route for UnitGroup.
	// Zero: 64. For UnitWave it is always one per lane and address.
	MaxRequests int

	// Whole reports that a batch is delivered or fails as a whole, or at least that nothing behind a message that failed is
	// delivered, whatever the groups. Then a route that keeps the order of all messages sends batches too, of at most 1,000.
	Whole bool

	// Static reports that Address is the same for all messages. A route whose
	// only address is down waits in place instead of parking its backlog.
	Static bool

	// Pooled reports of a destination with several addresses that they are one
	// server's: any of them may take all of MaxRequests. Otherwise no address
	// takes the last places, so that one that hangs leaves others alone.
	Pooled bool
}

// Unit is the unit that may be outstanding at once.
type Unit int

const (
	// UnitGroup puts each group in at most one outstanding batch, with many
	// batches at once. For receivers that answer each request on its own.
	UnitGroup Unit = iota

	// UnitWave sends everything that is ready as one batch, and the next
	// batch of the lane and address waits until all results are known. For
	// brokers where a rejected record takes others down with it. A wave may
	// carry many messages of one group.
	UnitWave
)

// DefaultMaxRequests is the bound on outstanding requests where an [Ordering]
// declares none.
const DefaultMaxRequests = 64

// OrderMode is the order that a route keeps.
type OrderMode string

// The orders a route can keep.
const (
	OrderGroup  OrderMode = "group"  // messages of one group in order; the default
	OrderGlobal OrderMode = "global" // all messages in order of visibility, one lane
	OrderNone   OrderMode = "none"   // no order
)

// Fencer is implemented by destinations that can make the receiver refuse the
// former owner of a lane, so that none of its late messages arrives after those
// of the next owner.
type Fencer interface {
	Destination

	// Fence returns what one session of a lane delivers through, or nil when the
	// destination is configured not to fence. The router closes it when the
	// session has ended. Two of its calls for different addresses may run at
	// once.
	//
	// Before the first message it makes the receiver refuse former owners, and
	// then calls owned: an instance that takes the lane after owned has answered does
	// the same later, and is the one that the receiver obeys. When owned says
	// false, the session delivers nothing any more: everything is [outbox.Released].
	Fence(lane string, owned Owned) Destination
}

// Owned reports from the state store, not from memory, whether the lane still belongs
// to its owner. An error: it is unknown.
type Owned func(ctx context.Context) (bool, error)

// LeaderLock is a lock outside of the state store: the one process that holds
// it leads. Relays and another system that does not use our state wait for each other by it.
type LeaderLock interface {
	// TryLock takes the lock unless another session has it, without waiting. When
	// it was taken, lost is closed as soon as it is known that it is held no
	// longer, by Unlock or because its connection dropped; nil: another process
	// has it. It is not called while the lock is held.
	TryLock(ctx context.Context) (lost <-chan struct{}, err error)

	// Unlock gives the lock up, if it is held.
	Unlock()

	// String names the lock for people.
	String() string
}

// ShareOf returns the share of the route's lanes that this instance owns now,
// above 0 and at most 1, from the message's context. A limit on a route as a
// whole, such as its rate, is multiplied by it. Outside of a lane ok is false,
// and the share is 1.
func ShareOf(ctx context.Context) (share float64, ok bool) {
	f, ok := ctx.Value(lanectx.Share).(func() float64)
	if !ok {
		return 1, false
	}
	return f(), true
}
