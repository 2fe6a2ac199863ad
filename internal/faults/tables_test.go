package faults_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // watermill-sql needs database/sql
	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// stock is the table of a topic that an unchanged watermill-sql Publisher writes.
type stock struct {
	*database
	db *sql.DB
}

// newStock makes the table as watermill-sql does, and the one index that its
// users have to add.
func newStock(t *testing.T) *stock {
	t.Helper()
	d := newDatabase(t)
	db, err := sql.Open("pgx", d.url)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	db.SetMaxOpenConns(writerCount)
	for _, q := range (wmsql.DefaultPostgreSQLSchema{}).SchemaInitializingQueries("orders") {
		d.exec(q.Query)
	}
	d.exec(`CREATE UNIQUE INDEX ON watermill_orders ("offset")`)
	return &stock{d, db}
}

// publish commits messages of a customer in one transaction, which it may hold
// open or roll back. Writers of a customer take turns.
func (s *stock) publish(ctx context.Context, customer string, n int, open time.Duration, undo bool) error {
	// A commit that is not waited for could come after the rows have been compared.
	tx, err := s.db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", customer); err != nil {
		return err
	}
	publisher, err := wmsql.NewPublisher(tx, wmsql.PublisherConfig{SchemaAdapter: wmsql.DefaultPostgreSQLSchema{}}, nil)
	if err != nil {
		return err
	}
	for range n {
		id := ulid.Make().String()
		content, err := json.Marshal(payload{ID: id, Group: customer})
		if err != nil {
			return err
		}
		msg := message.NewMessage(id, content)
		msg.Metadata.Set("customer", customer)
		if err := publisher.Publish("orders", msg); err != nil {
			return err
		}
	}
	if open > 0 {
		pause(ctx, open)
	}
	if undo {
		return nil
	}
	return tx.Commit()
}

// write publishes from several transactions at a time until stop is called.
func (s *stock) write() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	for i := range writerCount {
		wg.Go(func() {
			tick := time.NewTicker(writerPause)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				var open time.Duration
				if n%20 == i {
					open = time.Second
				}
				customer := fmt.Sprint("c", rand.IntN(writerGroups))
				err := s.publish(ctx, customer, 1+rand.IntN(4), open, rand.IntN(10) == 0)
				if err != nil && ctx.Err() == nil {
					s.t.Errorf("writer %d: %v", i, err)
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// rows returns what was committed.
func (s *stock) rows() []check.Row {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT uuid, metadata->>'customer', "offset" FROM watermill_orders`)
	must(s.t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[check.Row])
	must(s.t, err)
	return out
}

// TestG1_G2_G3_StockWatermillTable delivers what a stock Publisher writes in
// transactions, some of them open for long, and is killed on the way.
func TestG1_G2_G3_StockWatermillTable(t *testing.T) {
	t.Parallel()
	many := testenv.Brief(150, 500)
	for name, open := range map[string]func(*testing.T) (destination, string){
		"kafka": func(t *testing.T) (destination, string) {
			brokers := testenv.Kafka(t)
			topic := newTopic(t, brokers)
			return consume(t, brokers, topic), toKafka(brokers, topic)
		},
		"http": func(t *testing.T) (destination, string) {
			testenv.Postgres(t) // skips without a server
			r := receive(t, nil)
			return r, toHTTP(r.url())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to, described := open(t)
			s := newStock(t)
			config := settings{database: s.url, top: quick, destination: described, window: killWindow}.text()
			config = strings.Replace(config, "type: postgres", "type: postgres\n    layout: watermill\n    topic: orders\n    metadata: {group: customer}", 1)
			stop := s.write()
			defer stop()
			r := start(t, config)
			r.until("has delivered many", func() bool { return to.arrived() > many })
			r.kill()
			before := to.arrived()
			r = start(t, config)
			r.until("goes on", func() bool { return to.arrived() > before+many })
			stop()
			must(t, s.publish(t.Context(), "last", 1, 0, false))
			rows := s.rows()
			r.until("delivered everything", func() bool { return to.arrived() >= len(rows) })
			r.stop()
			report := check.Compare(rows, to.all()...)
			t.Logf("one kill: %v", report)
			if !report.Clean() || report.Duplicates > killWindow*lanes {
				t.Errorf("not clean: %v", report)
			}
		})
	}
}
