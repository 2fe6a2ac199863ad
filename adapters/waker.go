package adapters

import (
	"context"
)

// Waker is implemented by sources and queues of which writers can notify the
// reader that there are new rows, before its next poll.
//
// Telling costs a writer more than polling costs a reader that is busy anyway. So
// writers notify only a reader that sleeps: one that has found nothing for a while
// and asked for it. One goroutine calls Sleep and Awake.
type Waker interface {
	// Wake returns a channel that receives a value, coalesced, when a writer
	// has called, and when no publisher would any more. After that the reader is awake.
	// The first call begins to listen; Close ends that. nil: there is no connection
	// to listen to.
	Wake() <-chan struct{}

	// Sleep makes the writers notify from now on. Once it has returned [Armed]
	// the reader reads again before it pauses: rows of those who were not asked
	// are visible by then.
	Sleep(ctx context.Context) Sleep

	// Awake takes that back.
	Awake()
}

// Sleep is whether a reader is woken; see [Waker].
type Sleep int

// The answers to a reader that wants to sleep.
const (
	// Unsupported: no publisher would wake the reader. It polls.
	Unsupported Sleep = iota

	// Draining: a publisher that took the reader to be awake may still commit. It
	// polls for a little longer and calls Sleep again.
	Draining

	// Armed: every publisher that commits from now on wakes the reader.
	Armed
)
