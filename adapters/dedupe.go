package adapters

import (
	"context"
	"time"
)

// DedupeStore records which events were delivered on which route. State stores
// that keep their tables in an SQL database are one. Methods may be called
// concurrently. conformance: adapters/adaptertest.
type DedupeStore interface {
	// Seen reports for each event whether it was recorded and has not expired.
	// The result is aligned with events.
	Seen(ctx context.Context, events []EventRef) ([]bool, error)

	// Record notes that events were delivered. One that is known already
	// restarts its time. All are recorded or, with an error, perhaps none.
	Record(ctx context.Context, events []SeenEvent) error

	// Expire deletes at most limit events whose time is over and returns how
	// many it deleted.
	Expire(ctx context.Context, limit int) (int, error)
}

// EventRef names an event on a route.
type EventRef struct {
	Route string // any scope within which an id means one event
	ID    string // event id
}

// SeenEvent is an event that was delivered.
type SeenEvent struct {
	EventRef
	Keep time.Duration // how long it is remembered, from now on by the store's clock
}
