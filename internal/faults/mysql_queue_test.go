package faults_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// mysqlCatalyst is a database of MariaDB with FlowCatalyst's table of events, as its document has it: its times are whole seconds.
type mysqlCatalyst struct {
	*mysqlState
	url    string
	client *outbox.FlowCatalyst
	groups [12]sync.Mutex // of the writers: those of a group take turns

	restarts bool // writers go on after errors: of what they wrote, the table says what was committed
}

func newMySQLCatalyst(t *testing.T) *mysqlCatalyst {
	t.Helper()
	return newMySQLCatalystAt(t, testenv.MySQL(t))
}

func newMySQLCatalystAt(t *testing.T, url string) *mysqlCatalyst {
	t.Helper()
	db, err := mysql.Open(url, mysql.TLS{})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	client, err := outbox.NewFlowCatalyst(outbox.FlowCatalystConfig{Dialect: outbox.MySQL})
	must(t, err)
	c := &mysqlCatalyst{mysqlState: &mysqlState{t: t, db: db}, url: url, client: client}
	for statement := range strings.SplitSeq(strings.ReplaceAll(flowCatalystTables, "processed_at TIMESTAMP,", "processed_at TIMESTAMP NULL,"), ";") {
		if strings.TrimSpace(statement) != "" {
			c.exec(statement)
		}
	}
	c.exec(`CREATE TABLE account (id INT PRIMARY KEY, n INT NOT NULL)`)
	c.exec(`INSERT INTO account VALUES (1, 0), (2, 0), (3, 0)`)
	return c
}

// shared is the configuration of instances that share the tables and keep their state in the same database.
func (c *mysqlCatalyst) shared(to, source string) string {
	return fmt.Sprintf(`admin: {listen: off}
lease: 5m
sources:
  app: {type: mysql, layout: flowcatalyst, url: %q, %s}
destinations:
  platform: {type: http, preset: flowcatalyst, url: %q, token: secret-token}
routes:
  outbox: {from: app, to: platform}
`, c.url, source, to)
}

// write publishes until it is stopped: in transactions that are open for a while, that are rolled back, and that meet in deadlocks.
func (c *mysqlCatalyst) write() (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				err := c.publish(fmt.Sprintf("w%d-%d", w, n), rand.IntN(len(c.groups)), 1+rand.IntN(5), rand.IntN(10) == 0)
				if err != nil && !c.restarts && !errors.Is(err, errUndo) && !strings.Contains(err.Error(), "Deadlock") {
					c.t.Errorf("writer %d: %v", w, err)
					return
				}
				pause(ctx, 20*time.Millisecond)
			}
		})
	}
	return sync.OnceFunc(func() { cancel(); writers.Wait() })
}

// errUndo rolls a transaction back.
var errUndo = errors.New("the application changed its mind")

// publish writes n items of a group in one transaction, which it may roll back.
func (c *mysqlCatalyst) publish(ref string, group, n int, undo bool) error {
	c.groups[group].Lock()
	defer c.groups[group].Unlock()
	return outbox.InTx(context.Background(), c.db, func(ctx context.Context, tx *sql.Tx) error {
		items := make([]outbox.FlowCatalystItem, n)
		for i := range items {
			name := fmt.Sprint("g", group)
			payload, err := json.Marshal(item{string(outbox.FlowCatalystEvent), name, "order.created", fmt.Sprint(ref, "-", i)})
			if err != nil {
				return err
			}
			items[i] = outbox.FlowCatalystItem{Group: name, Payload: payload}
		}
		if _, err := c.client.Publish(ctx, tx, items...); err != nil {
			return err
		}
		for range 2 { // in any order, so that two of them wait for each other
			if _, err := tx.ExecContext(ctx, `UPDATE account SET n = n + 1 WHERE id = ?`, 1+rand.IntN(3)); err != nil {
				return err
			}
			pause(ctx, rand.N(10*time.Millisecond))
		}
		if undo {
			return errUndo
		}
		return nil
	})
}

// rows returns what was committed, in the order that the document defines.
func (c *mysqlCatalyst) rows() (out []check.Row) {
	c.t.Helper()
	found, err := c.db.QueryContext(c.t.Context(), `SELECT json_value(payload, '$.ref'), concat('EVENT:', message_group), row_number() OVER (ORDER BY created_at, id) FROM outbox_events`)
	must(c.t, err)
	defer func() { must(c.t, found.Close()) }()
	for found.Next() {
		var row check.Row
		must(c.t, found.Scan(&row.ID, &row.Group, &row.Position))
		out = append(out, row)
	}
	must(c.t, found.Err())
	return out
}

// One of three instances that share FlowCatalyst's tables in MariaDB is killed again and again, while transactions commit late, roll
// back and meet in deadlocks. What it had claimed is recovered after the timeout and delivered, in order.
func TestG1_G2_InstancesOfAQueueInMySQLAreKilled(t *testing.T) {
	t.Parallel()
	c := newMySQLCatalyst(t)
	to := newAPI(t, nil)
	to.killed = true
	f := &fleet{database: &database{t: t}, mysql: c.mysqlState, config: c.shared(to.url(), stuckSoon+", leader: false")}
	initialise(t, f.config)
	for range 3 {
		f.join()
	}
	stop := c.write()
	defer stop()
	kills := f.replaceUnderLoad(2, 50, to.arrived)
	stop()
	total := c.count(`SELECT count(*) FROM outbox_events`)
	f.members[0].until("settled everything", func() bool { return c.count(`SELECT count(*) FROM outbox_events WHERE status = 'COMPLETED'`) == total })
	for _, r := range f.members {
		r.stop()
	}
	if n := c.count(`SELECT count(*) FROM outbox_events WHERE status <> 'COMPLETED' OR retry_count > 0 OR error_message IS NOT NULL`); n > 0 {
		t.Errorf("%d rows are not as if nothing had been", n)
	}
	report := check.Compare(c.rows(), to.all()...)
	t.Logf("%d kills of one of 3 instances that share a queue in MariaDB, worst even spread %v: %v", kills, f.worst.Round(time.Millisecond), report)
	if !report.Clean() || report.Committed != total {
		t.Errorf("want %d items in order: %v", total, report)
	}
}

// With leader: true one instance reads the source and holds the lock. The other instances wait for the lock, and so does any
// other process that asks for it.
func TestG2_ALeaderInMySQLIsFollowedWhenItIsKilled(t *testing.T) {
	t.Parallel()
	c := newMySQLCatalyst(t)
	to := newAPI(t, nil)
	to.killed = true
	name := c.url[strings.LastIndexByte(c.url, '/')+1:]
	other, err := c.db.Conn(t.Context())
	must(t, err)
	locked := func(query string) (n int) {
		must(t, other.QueryRowContext(t.Context(), query, name).Scan(&n))
		return n
	}
	if locked(`SELECT get_lock(?, 0)`) != 1 {
		t.Fatal("the lock is not free")
	}
	config := c.shared(to.url(), busy+", leader: true, leader_lock: "+name)
	initialise(t, config)
	relays := []*relay{start(t, config), start(t, config)}
	for _, r := range relays {
		r.admit(&fleet{database: &database{t: t}, mysql: c.mysqlState})
	}
	must(t, c.publish("first", 1, 3, false))
	outlast(t, func() {
		if n := to.arrived(); n > 0 {
			t.Fatalf("%d items were delivered beside another leader", n)
		}
	})
	locked(`SELECT release_lock(?)`)
	must(t, other.Close())
	completed := func(n int) func() bool { // also settled: what is not, waits for the end of its claim
		return func() bool { return c.count(`SELECT count(*) FROM outbox_events WHERE status = 'COMPLETED'`) == n }
	}
	relays[0].until("delivered as the leader", completed(3))
	for len(relays) > 0 {
		leader := 0
		for i, r := range relays {
			if c.count(`SELECT count(*) FROM outrider_cursor WHERE owner = ?`, r.instance()) == lanes {
				leader = i
			}
		}
		relays[leader].kill()
		if relays = append(relays[:leader], relays[leader+1:]...); len(relays) > 0 {
			must(t, c.publish("second", 1, 3, false))
			relays[0].until("delivered in its place", completed(6))
		}
	}
}
