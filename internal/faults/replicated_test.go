package faults_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/server"
	"github.com/outriderhq/outrider/outbox"
)

// A subscription writes the rows of queue tables, which a relay on the subscriber claims and settles there. (Tables that are read by cursor are refused there:
// TestG1_ATableThatASubscriptionWrites in internal/system.)
func TestG1_G2_QueueTablesOfASubscription(t *testing.T) {
	t.Parallel()
	s := testenv.StartPostgres(t)
	openPool(t, s.URL()).exec("ALTER SYSTEM SET wal_level = 'logical'")
	s.Stop(server.Fast)
	s.Start()
	open := func(url string) *catalyst {
		client, err := outbox.NewFlowCatalyst(outbox.FlowCatalystConfig{})
		must(t, err)
		c := &catalyst{openPool(t, url), client}
		c.exec(flowCatalystTables)
		return c
	}
	publisher := open(s.URL())
	publisher.exec("CREATE DATABASE subscriber")
	publisher.exec("CREATE PUBLICATION p FOR TABLE outbox_events, outbox_dispatch_jobs WITH (publish = 'insert')")
	publisher.exec("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
	subscriber := open(strings.Replace(s.URL(), "/postgres?", "/subscriber?", 1))
	u, err := url.Parse(s.URL())
	must(t, err)
	subscriber.exec(fmt.Sprintf("CREATE SUBSCRIPTION s CONNECTION 'host=%s port=%s user=postgres dbname=postgres' PUBLICATION p WITH (create_slot = false, slot_name = 's')",
		u.Hostname(), u.Port()))
	to := newAPI(t, nil)
	r := start(t, subscriber.config(to.url(), busy))
	stop := publisher.writeEvery(20 * time.Millisecond)
	r.until("delivers under load", func() bool { return to.arrived() >= testenv.Brief(500, 5000) })
	stop()
	rows := publisher.rows()
	r.until("delivered everything", func() bool { return to.arrived() >= len(rows) })
	r.until("settled everything", func() bool { return subscriber.count("status = 'COMPLETED'") == len(rows) })
	r.stop()
	report := check.Compare(rows, to.all()...)
	tell(t, "rows written by a subscription", report, stopwatch{})
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("not clean: %v", report)
	}
	subscriber.exec("ALTER SUBSCRIPTION s DISABLE")
	subscriber.exec("ALTER SUBSCRIPTION s SET (slot_name = NONE)")
	subscriber.exec("DROP SUBSCRIPTION s")
}
