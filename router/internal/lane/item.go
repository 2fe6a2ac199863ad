package lane

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/internal/lanectx"
	"github.com/outriderhq/outrider/internal/shorten"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/parkedgroup"
)

// The memory of an item without its row: the item, its message with metadata, the request or record of the destination and, if its chain
// waits, the stack of the chain. Measured with the benchmark's messages; see docs/benchmarks.md.
const (
	WaitingOverhead = 8 << 10
	offeredOverhead = 4 << 10
)

// Overhead is the memory of an item of the route without its row, in bytes.
func (c *Config) Overhead() int64 {
	if c.DeliverFirst {
		return offeredOverhead
	}
	return WaitingOverhead
}

// Item is one message in a lane. It is also the root of its messages' contexts, which saves two allocations per message and gives
// middleware the attempt.
//
// There is one per message in flight, so its size counts: fields that few messages need are behind pointers, and small fields are adjacent.
type Item struct {
	handlers.Ticket

	Session *Session
	key     string // group at the gate and in the parking
	cost    int64

	// The source of the message: a row, or (parked, subscriber) a record.
	row     *adapters.Row
	content *content

	stream *Stream         // nil unless it came by cursor
	index  uint64          // in the stream
	seq    int64           // in the parking; 0: it has no row there
	charge *Charge         // of its attempts, to be given back perhaps
	Handle any             // by which its origin knows it; nil: it came by cursor, or from the parking
	parent context.Context // for values; nil: the lane's

	outcome error  // when delivering first: of its delivery, for its chain
	death   *death // why it is dead, until the poison destination has it
	saved   saved  // what its parked row says
	tries   *tries // that failed; nil: none did

	Attempt outbox.Attempt // Number: of the current attempt, or the next
	arrival uint64         // orders the items of a session
	wait    *wait          // before the next attempt; nil: there is none

	slot    int   // of the cursor row that it is parked under
	credits int   // attempts to be given back when the chain has returned
	probes  int32 // failures charged to the address instead
	phase   phase
	parkedgroup.Member
	reserved  bool // its place at the gate is kept meanwhile
	uncounted bool // being sent, stored meanwhile: takes no room
	committed bool // it is written that it was delivered, in the transaction of its delivery
	unwanted  bool // an operator has taken its row away
	asked     bool // its chain has asked for the outcome
	ahead     bool // it came by the hot path, and its row was not read yet
	redriven  bool // an operator wants it attempted again from the first attempt, after the current one
}

// newItem makes an item of a session, whose first attempt is next.
func newItem(s *Session, key string) *Item {
	it := &Item{Session: s, key: key, slot: s.Lane.Slots[0], Attempt: outbox.Attempt{Route: s.Route.Name, Lane: s.Lane.Name, Number: 1}}
	it.Owner = it
	return it
}

// record is the content of a message that has no row.
type content struct {
	id, eventType string
	position      int64
	metadata      message.Metadata
	payload       []byte
	created       time.Time
}

// owner returns the item of a gate's ticket.
func owner(t *handlers.Ticket) *Item {
	return t.Owner.(*Item) //nolint:forcetypeassert // nothing else enters our gates
}

// newMessage makes a fresh message for the next run of the chain. When delivering first no chain can wait for its ack, so the message
// has no channels for that.
func (it *Item) newMessage() *message.Message {
	var msg *message.Message
	switch {
	case it.row != nil && it.Session.Route.DeliverFirst:
		msg = &message.Message{UUID: it.row.ID, Payload: it.row.Payload, Metadata: it.row.Metadata(it.Session.Lane.Name)}
	case it.row != nil:
		msg = adapters.NewMessage(it.row, it.Session.Lane.Name)
	default:
		msg = message.NewMessage(it.content.id, it.content.payload)
		maps.Copy(msg.Metadata, it.content.metadata)
		msg.Metadata[outbox.MetaLane] = it.Session.Lane.Name
	}
	msg.SetContext(it)
	return msg
}

// content returns the message as it entered the route, to be parked.
func (it *Item) toPark() adapters.Parked {
	if it.row != nil {
		return adapters.Parked{ID: it.row.ID, Type: it.row.Type, Position: it.row.Position,
			Metadata: it.row.Metadata(it.Session.Lane.Name), Payload: it.row.Payload}
	}
	r := it.content
	return adapters.Parked{ID: r.id, Type: r.eventType, Position: r.position, Metadata: r.metadata, Payload: r.payload}
}

// DeathWritten lets the item's group go on: it is dead, and that is durable.
func (it *Item) DeathWritten() { it.Session.gate.Leave(&it.Ticket) }

func (it *Item) id() string {
	if it.row != nil {
		return it.row.ID
	}
	return it.content.id
}

// saved has the values of a parked row that may change while its message is in the lane: short retries and a death are in memory at first.
type saved struct {
	attempts      int
	deadLettering bool
}

// toSave returns the values that the item's row would have now, unless it is dead.
func (it *Item) toSave() saved {
	if it.death != nil {
		return saved{it.Attempt.Number, true}
	}
	return saved{attempts: it.Attempt.Number - 1}
}

// Identity implements health.Message.
func (it *Item) Identity() string {
	if it.key != "" {
		return it.key
	}
	return "\x00" + it.id()
}

// Precedes implements health.Message.
func (it *Item) Precedes(other *Item) bool {
	return it.Session == other.Session && it.Identity() == other.Identity() && it.arrival < other.arrival
}

// FailProbe implements health.Message. Failed probes do not count until the message has had as many as its route allows attempts.
func (it *Item) FailProbe() (last bool) {
	it.probes++
	attempts := it.Session.Route.Attempts
	if int(it.probes) == attempts-1 {
		it.Attempt.Number = attempts // so that retry sees the last one
	}
	return int(it.probes) >= attempts
}

// rowSlot is the slot of the cursor row that the item came by, or is parked under.
func (it *Item) rowSlot() int {
	if it.stream != nil {
		return it.stream.Slot
	}
	return it.slot
}

// parkedKey and parkedRow name the item's group and row in the parking.
func (it *Item) parkedKey() parkedgroup.Key { return parkedgroup.KeyOf(it.slot, it.key, it.seq) }
func (it *Item) parkedRow() parkedgroup.Row { return parkedgroup.Row{Slot: it.slot, Seq: it.seq} }

// Created is when the message was written.
func (it *Item) Created() time.Time {
	if it.row != nil {
		return it.row.CreatedAt
	}
	return it.content.created
}

// Deadline implements context.Context: a lane sets none.
func (it *Item) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed when the lane stops: middleware that waits should give up.
func (it *Item) Done() <-chan struct{} { return it.Session.ctx.Done() }

// Err reports whether the lane has stopped.
func (it *Item) Err() error { return it.Session.ctx.Err() }

// Quiet tells the gate that the lane itself wakes those that wait.
func (it *Item) Quiet() bool { return true }

// Value implements context.Context: after the lane's own values come those of the subscriber's message, the Watermill handler and the lane.
func (it *Item) Value(key any) any {
	switch key {
	case lanectx.Attempt:
		return &it.Attempt
	case itemKey:
		return it
	case lanectx.Delivered:
		return it.Delivered()
	case lanectx.Limit: // every timeout asks; Watermill and the lane set none
		if it.parent == nil {
			return nil
		}
	}
	if it.parent != nil {
		if v := it.parent.Value(key); v != nil {
			return v
		}
	}
	if v := it.Session.ctx.Value(key); v != nil {
		return v
	}
	return it.Session.Lane.base.Value(key)
}

type itemKeyType struct{}

var itemKey any = itemKeyType{}

// itemOf returns the item of a message.
func itemOf(msg *message.Message) *Item {
	it, _ := msg.Context().Value(itemKey).(*Item)
	return it
}

// ShortDelay is how long a message may wait for its next attempt in memory; longer waits are parked.
const ShortDelay = time.Second

// ReleaseDelay is the pause after a chain released its message: such a chain must not spin.
const ReleaseDelay = 100 * time.Millisecond

// skippedByOperator is the reason of messages whose rows an operator removed while they were in the lane.
const skippedByOperator = "operator"

// tryBytes bounds the error of each remembered attempt.
const tryBytes = 500

// tries has the failed attempts of an item, for its parked row. Few items have any.
type tries struct {
	lastError string         // of the attempts so far
	list      []adapters.Try // never changed in place: rows that are to be written refer to it
}

// lastError returns the error of the latest failed attempt; empty: none failed.
func (it *Item) lastError() string {
	if it.tries == nil {
		return ""
	}
	return it.tries.lastError
}

// failed remembers the current attempt as failed.
func (it *Item) failed(cause error) {
	if cause == nil {
		return
	}
	if it.tries == nil {
		it.tries = &tries{}
	}
	t := it.tries
	t.lastError = textOf(cause)
	rest := t.list[max(len(t.list)-adapters.TriesMost+1, 0):]
	t.list = append(slices.Clone(rest), adapters.Try{Number: it.Attempt.Number, At: time.Now(), Error: shorten.To(t.lastError, tryBytes)})
}

// textOf returns an error as it is kept and shown: without the time of the next attempt, which differs each time.
func textOf(err error) string {
	text := err.Error()
	if d, ok := errors.AsType[*outbox.Decision](err); ok && d.Outcome == outbox.OutcomeRetry && d.Err != nil {
		return strings.Replace(text, d.Error(), textOf(d.Err), 1)
	}
	return text
}

// restore takes over the failed attempts of a parked row.
func (it *Item) restore(row *adapters.Parked) {
	if row.LastError != "" || len(row.Tries) > 0 {
		it.tries = &tries{lastError: row.LastError, list: row.Tries}
	}
}

// remembered returns the failed attempts for the item's row.
func (it *Item) remembered() []adapters.Try {
	if it.tries == nil {
		return nil
	}
	return it.tries.list
}
