package adapters

import "context"

// LeaderLock is a lock outside of the state store: the one process that holds
// it leads. By it relays and another system that does not use our state stand
// by for each other.
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
