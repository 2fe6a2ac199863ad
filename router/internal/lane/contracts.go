package lane

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// Origin is the source of a session's messages, and takes their results: the cursor and the parking, a queue's table, or a subscriber.
// Each session has its own. All methods but GiveBack are called with the session's mutex held.
type Origin interface {
	// Enter reports whether a message may enter the lane, and how many failed attempts count for it already.
	Enter(it *Item) (failed int, ok bool)

	// Settled takes the end of a message: it was delivered, skipped, or is dead of cause; kept: cursor and parking need not record it.
	// Where nothing parks, a dead message keeps its place at the gate until [Item.DeathWritten].
	Settled(it *Item, outcome outbox.Outcome, cause error) (kept bool)

	// Retry gives a failed message back to be tried again at a time; false: the lane plans that itself.
	Retry(it *Item, at time.Time, cause error) (kept bool)

	// Parks reports whether messages may be parked. Otherwise they are given back instead.
	Parks() bool

	// Parked notes that a row of the parking is about to be written for a message. Durable gets the returned value when the row is
	// durable; nil: there is nothing to acknowledge.
	Parked(it *Item) (ack any)

	// Durable takes what Parked returned, when the rows are durable. Lost: the session was fenced, and the rows perhaps not written.
	Durable(acks []any, lost bool)

	// GiveBack returns an attempt of a message that the origin keeps, by its handle. If the message has come to the session again, its
	// item is returned.
	GiveBack(handle any) (again *Item)

	// PutBack takes back a message whose group is paused, or whose claim is lost, with what is behind it. It is called only where
	// nothing parks.
	PutBack(it *Item)

	// Release takes back what the session leaves unfinished.
	Release()
}

// ByCursor is the origin of messages that are read by cursor: the lane itself updates cursor and parking. Other origins embed it.
type ByCursor struct{}

// Enter implements [Origin].
func (ByCursor) Enter(*Item) (int, bool) { return 0, true }

// Settled implements [Origin].
func (ByCursor) Settled(*Item, outbox.Outcome, error) bool { return false }

// Retry implements [Origin].
func (ByCursor) Retry(*Item, time.Time, error) bool { return false }

// Parks implements [Origin].
func (ByCursor) Parks() bool { return true }

// Parked implements [Origin].
func (ByCursor) Parked(*Item) any { return nil }

// Durable implements [Origin].
func (ByCursor) Durable([]any, bool) {}

// GiveBack implements [Origin].
func (ByCursor) GiveBack(any) *Item { return nil }

// PutBack implements [Origin].
func (ByCursor) PutBack(*Item) {}

// Release implements [Origin].
func (ByCursor) Release() {}

// Feeder brings messages to the lanes of a route: a reader, a claimer or a listener. None of its methods waits for a lane, but GiveUp may
// take as long as a write.
type Feeder interface {
	// Origin returns the origin of a new session.
	Origin(s *Session) Origin

	// RoomFreed says that a lane may have room again.
	RoomFreed()

	// Wake has the feeder check its lanes and their sessions.
	Wake()

	// AddressBack says that an address of the route works again.
	AddressBack()

	// GiveUp ends what was taken for sessions that have stopped, before their lanes are given up: results of claims are written, a
	// subscription ends.
	GiveUp(ctx context.Context, lanes []adapters.LaneRef) error
}

// Lease answers a lane's questions about its ownership.
type Lease interface {
	// MaySend reports whether enough of the lease is left to send: what is sent after another instance took over may arrive behind what
	// that one sends.
	MaySend() bool

	// StillOwned asks the state store whether all of the lane is still the session's.
	StillOwned(ctx context.Context, s *Session) (bool, error)

	// Lost ends a session whose cursors are not valid any more.
	Lost(s *Session)

	// RememberGone has it written that an address is gone, so that no other owner uses it before an operator has resumed it. It does not
	// wait for that.
	RememberGone(address string, cause error)
}
