package system_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"testing"
	"time"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/jackc/pgx/v5/stdlib" // watermill-sql needs database/sql

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

// stockTopic makes a topic of watermill-sql and returns what publishes a message with
// an unchanged Publisher, in a transaction of its own.
func stockTopic(t *testing.T, url string) (db *sql.DB, publish func(from, to int) *sql.Tx) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	queries := append(wmsql.DefaultPostgreSQLSchema{}.SchemaInitializingQueries("orders"),
		wmsql.DefaultPostgreSQLOffsetsAdapter{}.SchemaInitializingQueries("orders")...)
	for _, q := range queries {
		_, err := db.ExecContext(t.Context(), q.Query, q.Args...)
		must(t, err)
	}
	// What Outrider's own reading needs; the stock Subscriber does without.
	_, err = db.ExecContext(t.Context(), `CREATE UNIQUE INDEX ON watermill_orders ("offset")`)
	must(t, err)
	return db, func(from, to int) *sql.Tx {
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		pub, err := wmsql.NewPublisher(tx, wmsql.PublisherConfig{SchemaAdapter: wmsql.DefaultPostgreSQLSchema{}}, nil)
		must(t, err)
		for i := from; i < to; i++ {
			msg := message.NewMessage(strconv.Itoa(i), fmt.Appendf(nil, `{"n": %d}`, i))
			msg.Metadata.Set("customer", strconv.Itoa(i%3))
			must(t, pub.Publish("orders", msg))
		}
		return tx
	}
}

// relayed runs a relay with the source's keys until the condition holds.
func relayed(t *testing.T, url, keys, start string, got arrivals, until func() bool) {
	t.Helper()
	relay, err := outrider.New(takeoverConfig(t, url, keys, start), outrider.WithBatchDestination("here", got))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	for deadline := time.Now().Add(time.Minute); !until(); {
		select {
		case err := <-done:
			cancel()
			t.Fatalf("the relay ended: %v", err)
		case <-time.After(10 * time.Millisecond):
			if time.Now().After(deadline) {
				t.Error("not all has arrived")
				cancel()
				must(t, <-done)
				return
			}
		}
	}
	cancel()
	must(t, <-done)
}

func takeoverConfig(t *testing.T, url, keys, start string) *outrider.Config {
	t.Helper()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
sources: {app: {type: postgres, url: %q, layout: watermill, topic: orders, consumer_group: billing, metadata: {group: customer}, %s poll: {max: 50ms}}}
destinations: {here: {type: publisher, topic: t}}
routes: {all: {from: app, to: here, start: %s}}
`, url, keys, start))
	must(t, err)
	return cfg
}

// counts takes what has arrived so far.
func (a arrivals) counts(into map[string]int) map[string]int {
	for {
		select {
		case id := <-a:
			into[id]++
		default:
			return into
		}
	}
}

// TestG1_FromWatermillsOffsetsToOurCursor moves a route from watermill-sql's Subscriber to
// Outrider's own reading: under the same name by seek, and as a new route by start. A
// transaction that began before is open throughout.
func TestG1_FromWatermillsOffsetsToOurCursor(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	db, publish := stockTopic(t, url)
	must(t, publish(0, 10).Commit())
	must(t, publish(10, 20).Commit())
	got, seen := make(arrivals, 1000), map[string]int{}
	relayed(t, url, "client: watermill,", "beginning", got, func() bool {
		var acked int // its transaction may end after the last message has arrived
		must(t, db.QueryRowContext(t.Context(), `SELECT coalesce(max(offset_acked), 0) FROM watermill_offsets_orders WHERE consumer_group = 'billing'`).Scan(&acked))
		return len(got.counts(seen)) == 20 && acked == 20
	})
	open := publish(20, 25)
	must(t, publish(25, 40).Commit()) // the stock Subscriber would wait for the open one
	clear(seen)

	cfg := takeoverConfig(t, url, "", "beginning")
	op, err := operate.NewOperator(t.Context(), cfg)
	must(t, err)
	plan, err := op.PlanSeek(t.Context(), "all", operate.Target{Start: adapters.Start{Kind: adapters.StartOffsets}})
	must(t, err)
	must(t, op.Relocate(t.Context(), plan, "test"))
	must(t, op.Close())
	relayed(t, url, "", "beginning", got, func() bool {
		if len(got.counts(seen)) >= 15 && open != nil { // the open transaction stalls nothing
			must(t, open.Commit())
			open = nil
		}
		return len(seen) >= 20
	})
	for i := range 40 {
		if n := seen[strconv.Itoa(i)]; (n > 0) != (i >= 20) || n > 1 {
			t.Errorf("after the move message %d arrived %d times", i, n)
		}
	}

	// Another route begins there by its configuration, without a command. Messages that are written later follow.
	clear(seen)
	must(t, publish(40, 50).Commit())
	relayed(t, url, "", "offsets}, later: {from: app, to: here, start: offsets", got, func() bool {
		total := 0
		for _, n := range got.counts(seen) {
			total += n
		}
		return total >= 20+2*10 // groups do not wait for each other: no single message is the last
	})
	got.counts(seen)
	for i := range 50 {
		want := 0
		switch {
		case i >= 40:
			want = 2 // of both routes
		case i >= 20:
			want = 1
		}
		if n := seen[strconv.Itoa(i)]; n != want {
			t.Errorf("by start: offsets message %d arrived %d times, want %d", i, n, want)
		}
	}
}
