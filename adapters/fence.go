package adapters

import "context"

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
