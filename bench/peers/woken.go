package peers

import (
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/outbox"
)

// Woken is Outrider that publishers notify.
var Woken = func() Outrider {
	e := ToKafka.As("notified")
	e.Settings += "; wake: notify, and publishers that notify a relay that sleeps"
	e.Config = strings.Replace(e.Config, "url: {postgres}", "url: {postgres}, wake: notify", 1)
	e.table = wakingTable{}
	return e
}()

// wakingTable is the own layout with the INSERT of an outbox.Client with Notify.
type wakingTable struct{ ownTable }

func (t wakingTable) Insert() string {
	return fmt.Sprintf("WITH published AS (%s) SELECT pg_notify('%s', '%s') WHERE NOT pg_try_advisory_xact_lock_shared(hashtextextended('%s', %d))",
		t.ownTable.Insert(), outbox.WakeChannel, outbox.DefaultTable, outbox.DefaultTable, outbox.WakeNamespace)
}

// Followed is Outrider that follows the server's WAL.
var Followed = func() Outrider {
	e := ToKafka.As("followed")
	e.Settings = ToKafka.Settings + "; wake: replication"
	e.Config = strings.Replace(e.Config, "type: postgres,", "type: postgres, wake: replication,", 1)
	return e
}()
