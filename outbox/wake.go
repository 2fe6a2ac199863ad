package outbox

import (
	"fmt"
	"strings"
)

// The channel and the lock by which writers detect a sleeping reader and wake it.
// Both use the table's name without its schema: a reader may be woken without
// need, but is always woken if needed.
const (
	// WakeChannel is the channel of NOTIFY, and the table's name its payload.
	WakeChannel = "outrider_wake"

	// WakeNamespace is the seed of a table's advisory lock, the ASCII codes of
	// "outrwake". A sleeping reader holds it; a writer that gets it as a shared
	// lock, until its transaction ends, need not notify:
	//
	//	SELECT pg_catalog.pg_notify('outrider_wake', 'outrider_outbox')
	//	WHERE NOT pg_catalog.pg_try_advisory_xact_lock_shared(
	//	    pg_catalog.hashtextextended('outrider_outbox', 8031453545463114597))
	//
	// So a reader gets the lock only when all transactions that did not notify
	// have ended.
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
