package main

import (
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/outbox"
)

// wokenWay is Outrider that is notified by those who publish.
var wokenWay = func() embedded {
	e := toKafka.as("notified")
	e.settings += "; wake: notify, and publishers that notify a relay that sleeps"
	e.config = strings.Replace(e.config, "url: {postgres}", "url: {postgres}, wake: notify", 1)
	e.table = wakingTable{}
	return e
}()

// wakingTable is the own layout, written to as outbox.Client with Notify does.
type wakingTable struct{ ownTable }

func (t wakingTable) insert() string {
	return fmt.Sprintf("WITH published AS (%s) SELECT pg_notify('%s', '%s') WHERE NOT pg_try_advisory_xact_lock_shared(hashtextextended('%s', %d))",
		t.ownTable.insert(), outbox.WakeChannel, outbox.DefaultTable, outbox.DefaultTable, outbox.WakeNamespace)
}
