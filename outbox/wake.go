package outbox

import (
	"context"
	"fmt"
	"strings"
)

// Waker is implemented by sources and queues of which writers can tell the
// reader that there are new rows, before its next poll.
//
// Telling costs a writer more than polling costs a reader that is busy anyway. So
// writers tell only a reader that sleeps: one that has found nothing for a while
// and asked for it. One goroutine calls Sleep and Awake.
type Waker interface {
	// Wake returns a channel that receives a value, coalesced, when a writer
	// has called, and when nobody would any more. After that the reader is awake.
	// The first call begins to listen; Close ends that. nil: there is nobody
	// to listen to.
	Wake() <-chan struct{}

	// Sleep asks the writers to call from now on. Once it has returned [Asleep]
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
	// Sleepless: nobody would wake the reader. It polls.
	Sleepless Sleep = iota

	// Restless: somebody who took the reader to be awake may still commit. It
	// polls for a little longer and asks again.
	Restless

	// Asleep: whoever commits from now on wakes the reader.
	Asleep
)

// How writers learn that a reader sleeps, and how they call it. Both belong to a
// table's name without its schema: a reader may be called in vain, never left out.
const (
	// WakeChannel is the channel of NOTIFY, and the table's name its payload.
	WakeChannel = "outrider_wake"

	// WakeNamespace is the seed of a table's advisory lock, the ASCII codes of
	// "outrwake". A reader that sleeps holds it; a writer who gets it as a shared
	// lock, until its transaction ends, need not call:
	//
	//	SELECT pg_catalog.pg_notify('outrider_wake', 'outrider_outbox')
	//	WHERE NOT pg_catalog.pg_try_advisory_xact_lock_shared(
	//	    pg_catalog.hashtextextended('outrider_outbox', 8031453545463114597))
	//
	// So a reader gets the lock only when everybody who did not call has ended.
	WakeNamespace int64 = 0x6f75747277616b65
)

// calling makes a statement that inserts into the table call a reader that
// sleeps. Both are one statement, so that publishing stays one round trip. The
// table's name is as configured: it has no quotes.
func calling(insert, table string) string {
	name := table[strings.LastIndexByte(table, '.')+1:]
	return fmt.Sprintf("WITH published AS (\n%s\n)\nSELECT pg_catalog.pg_notify('%s', '%s')\n"+
		"WHERE NOT pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('%s', %d))",
		insert, WakeChannel, name, name, WakeNamespace)
}
