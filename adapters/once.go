package adapters

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// OnceDestination is what [Fencer].Fence returns where the receiver has transactions that keep a note of the lane together with its messages.
// By the notes of its former owners the lane knows what they have delivered and not settled, so every message arrives exactly once, at
// receivers that read only what is committed.
type OnceDestination interface {
	Destination

	// DeliverOnce is Deliver with notes. Each transaction that delivers messages of the batch replaces the note that the receiver has of the
	// lane for that address.
	DeliverOnce(ctx context.Context, address string, batch []*message.Message, notes Notes) []error
}

// Notes are the lane's side of a [OnceDestination].DeliverOnce. Indices are those of the batch. No two deliveries of a lane use theirs at once.
type Notes interface {
	// Read takes the notes of the lane by address, as they are after all transactions of former owners have ended: before the first message
	// of a session, and again after a transaction whose outcome was not learned, when that has ended.
	Read(notes map[string]string)

	// Delivered reports whether a note says that a message was delivered. It is not sent, and its result is nil.
	Delivered(index int) bool

	// Write returns the note of a transaction that delivers messages: printable ASCII, at most [NoteMost] bytes.
	Write(indices []int) string

	// Committed says that the last transaction was committed. Without it the transaction was aborted, or Read is called before the next one.
	Committed()
}

// NoteMost is the greatest size of a note in bytes: Kafka keeps as much beside an offset (offset.metadata.max.bytes).
const NoteMost = 4096

// Generation changes when a lane's cursor is placed: its route begins, or an operator moves it. What was noted of deliveries before is void then.
func (m LaneMark) Generation() int64 { return m.Revision >> generationShift }

// generationShift is where a revision has its generation, above the number of the last settle. State stores raise it with a move.
const generationShift = 32

// FirstRevision is the revision of a lane that begins at a time. A generation is a minute, or higher than the one before: a route
// that was removed and begins again does not have that of its former life.
func FirstRevision(at time.Time) int64 { return at.Unix() / 60 << generationShift }
