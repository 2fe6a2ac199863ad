package system_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// expected is a row that the neighbour knows of.
type expected struct {
	id, group string
	must      bool // it was committed, and stayed: it has to arrive
	never     bool // it was never committed
	unordered bool // it was dead for a while, and others have passed
}

// neighbour is a session on the table of a relay, which locks, prepares, rolls back, changes, deletes, alters, truncates and renames, while
// operators give commands and reload. It records what it committed: exactly that must arrive.
type neighbour struct {
	neighbourTable
	*testing.T
	db     *sql.DB
	pool   *pgxpool.Pool // of hot paths; nil: the table has none
	client *outbox.Client
	relay  *outrider.Outrider
	op     *operate.Operator
	random *rand.Rand
	stop   func()
	config func() *outrider.Config
	log    logged

	rows     []expected // by the order of their commits in each group
	repeated bool       // rows may arrive twice: a seek, or the table could not be settled

	mu     sync.Mutex
	got    []string                 // ids, as they were taken
	tried  map[string]int           // deliveries that were begun
	named  map[string]string        // the ids that Outrider gives the rows
	refuse map[string]error         // by id
	gates  map[string]chan struct{} // deliveries that wait
}

const (
	// neighbourPatience limits the wait for expected messages.
	neighbourPatience = 45 * time.Second

	// noticed is longer than relays need to notice a pause: a quarter of the lease.
	noticed = 600 * time.Millisecond
)

func newNeighbour(t *testing.T, nt neighbourTable, seed uint64, postgres func(*testing.T) string) *neighbour {
	t.Helper()
	source, url, db := nt.open(t, postgres)
	n := &neighbour{neighbourTable: nt, T: t, db: db, random: rand.New(rand.NewPCG(seed, 0)), tried: map[string]int{}, named: map[string]string{}, refuse: map[string]error{}, gates: map[string]chan struct{}{}}
	reloads := 0
	n.config = func() *outrider.Config {
		reloads++
		cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
lease: 2s
sources: {app: {%s, poll: {min: 5ms, max: %dms}}}
destinations: {here: {type: listeners}}
routes: {all: {from: app, to: here, middleware: [{poison: {}}, {retry: {attempts: 9, base: 1h, max: 1h, jitter: 0}}]}}
`, source, 50+reloads%20))
		must(t, err)
		return cfg
	}
	cfg := n.config()
	_, err := operate.Init(t.Context(), cfg)
	must(t, err)
	n.op, err = operate.NewOperator(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	t.Cleanup(func() { must(t, n.op.Close()) })
	if nt.hot() {
		n.pool, err = pgxpool.New(t.Context(), url)
		must(t, err)
		t.Cleanup(n.pool.Close)
	}
	n.start()
	return n
}

// hot reports whether the table has a hot path.
func (nt neighbourTable) hot() bool {
	return nt.database == "postgres" && (nt.layout == "outrider" || nt.layout == "outbox-framework")
}

func (n *neighbour) start() {
	n.Helper()
	registry := listeners.New()
	listeners.Listen(registry, listeners.Any, func(ctx context.Context, content struct{ ID string }) error {
		e, _ := listeners.EnvelopeOf(ctx)
		return n.take(ctx, content.ID, e.ID())
	})
	var err error
	n.relay, err = outrider.New(n.config(), outrider.WithListeners("here", registry), outrider.WithLogger(slog.New(slog.NewTextHandler(&n.log, nil))))
	must(n.T, err)
	if n.hot() {
		hot, err := n.relay.HotPath("app")
		must(n.T, err)
		layout := ""
		if n.layout != "outrider" {
			layout = n.layout
		}
		n.client, err = outbox.NewClient(outbox.ClientConfig{Hot: hot, Layout: layout})
		must(n.T, err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(n.Context()))
	ended, relay := make(chan error, 1), n.relay
	go func() { ended <- relay.Run(ctx) }()
	<-relay.Ready()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			n.Errorf("the relay ended: %v", err)
		}
	})
	n.Cleanup(n.stop)
}

// take is the receiver.
func (n *neighbour) take(ctx context.Context, id, named string) error {
	n.mu.Lock()
	n.tried[id]++
	n.named[id] = named
	gate, err := n.gates[id], n.refuse[id]
	n.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		n.got = append(n.got, id)
	}
	return err
}

// with changes what the receiver does.
func (n *neighbour) with(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// arrived reports whether all of ids were taken.
func (n *neighbour) arrived(ids []string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(n.got, id) })
}

// await reports missing messages and continues: other steps may show more.
func (n *neighbour) await(what string, is func() bool) {
	n.Helper()
	for end := time.Now().Add(neighbourPatience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			n.Errorf("%s: not within %v", what, neighbourPatience)
			return
		}
	}
}

func (n *neighbour) exec(db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, text string) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), neighbourPatience)
	defer cancel()
	if _, err := db.ExecContext(ctx, text); err != nil {
		n.Fatalf("%s: %v", text, err)
	}
}

// begin opens a session, which ends with the test at the latest.
func (n *neighbour) session() *sql.Conn {
	n.Helper()
	conn, err := n.db.Conn(n.Context())
	must(n.T, err)
	n.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ids returns new ids.
func (n *neighbour) ids(count int) (ids []string) {
	for range count {
		id := fmt.Sprintf("%08x-0000-4000-8000-%012d", n.random.Uint32(), len(n.rows)+n.random.IntN(1e9))
		if n.short {
			id = fmt.Sprintf("%013d", n.random.Int64N(1e13))
		}
		ids = append(ids, id)
	}
	return ids
}

// write inserts rows of a group, each by a statement. They are expected once commits is called.
func (n *neighbour) write(db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, group string, count int) (ids []string) {
	n.Helper()
	ids = n.ids(count)
	for _, id := range ids {
		n.exec(db, fmt.Sprintf(n.insert, id, group))
	}
	return ids
}

// commits writes down what was committed, or with never what was not.
func (n *neighbour) commits(group string, ids []string, never bool) []string {
	for _, id := range ids {
		n.rows = append(n.rows, expected{id: id, group: group, must: !never, never: never})
	}
	return ids
}

// publish inserts rows of a group that are committed at once.
func (n *neighbour) publish(group string, count int) []string {
	n.Helper()
	return n.commits(group, n.write(n.db, group, count), false)
}

// other is one of the groups that nothing holds.
func (n *neighbour) other() string { return fmt.Sprint("g", n.random.IntN(6)) }

// where is the condition that rows have an id.
func (n *neighbour) where(ids ...string) string {
	return " WHERE " + n.key + " IN ('" + strings.Join(ids, "', '") + "')"
}

// count counts rows.
func (n *neighbour) count(and string, ids ...string) (rows int) {
	n.Helper()
	must(n.T, n.db.QueryRowContext(n.Context(), "SELECT count(*) FROM "+n.table+n.where(ids...)+" AND "+and).Scan(&rows))
	return rows
}

// withdraw says that rows need not arrive.
func (n *neighbour) withdraw(is func(*expected) bool) {
	for i := range n.rows {
		if is(&n.rows[i]) {
			n.rows[i].must = false
		}
	}
}

// judge compares the arrived messages with the committed ones.
func (n *neighbour) judge() {
	n.Helper()
	for _, r := range n.rows {
		if r.must && !n.arrived([]string{r.id}) {
			n.Errorf("lost: %s of group %s", r.id, r.group)
		}
	}
	byID := map[string]*expected{}
	last, place := map[string]int{}, map[string]int{}
	for i := range n.rows {
		byID[n.rows[i].id], place[n.rows[i].id] = &n.rows[i], i
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := map[string]bool{}
	for _, id := range n.got {
		r := byID[id]
		switch {
		case r == nil || r.never:
			n.Errorf("%s was delivered, which was never committed", id)
		case seen[id] && !n.repeated:
			n.Errorf("%s of group %s was delivered twice", id, r.group)
		case !seen[id] && !r.unordered && place[id] < last[r.group]:
			n.Errorf("order: %s of group %s was delivered behind a later row", id, r.group)
		case !seen[id] && !r.unordered:
			last[r.group] = place[id]
		}
		seen[id] = true
	}
}

// play takes each step of the table's once, in an order by chance, and judges.
func (n *neighbour) play(seed uint64) {
	n.Helper()
	var taken []string
	defer func() {
		if n.Failed() {
			n.Logf("seed %d, steps %v\n%s", seed, taken, n.log.all())
		}
	}()
	steps := n.applicable()
	names := slices.Sorted(maps.Keys(steps))
	n.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		n.publish(n.other(), 1+n.random.IntN(3))
		taken = append(taken, name)
		steps[name]()
	}
	n.await("everything arrives", func() bool {
		return !slices.ContainsFunc(n.rows, func(r expected) bool { return r.must && !n.arrived([]string{r.id}) })
	})
	n.stop()
	n.judge()
}

// TestG1_G2_AHostileNeighbour has a session disturb the table of a relay. Seeds are fixed; a soak has more, random ones.
func TestG1_G2_AHostileNeighbour(t *testing.T) {
	t.Parallel()
	postgres := preparing(t)
	seeds := []uint64{1}
	for range testenv.Size(0, 9) {
		seeds = append(seeds, rand.Uint64())
	}
	for _, seed := range seeds {
		var tables sync.WaitGroup
		for _, nt := range neighbourTables { // they wait most of the time, so all run at once
			tables.Go(func() {
				t.Run(fmt.Sprint(nt.database, " ", nt.layout, " ", seed), func(t *testing.T) {
					newNeighbour(t, nt, seed, postgres).play(seed)
				})
			})
		}
		tables.Wait()
	}
}

var errNeighbour = errors.New("the receiver refuses it")

// refused are dead or in backoff, as the error says.
func (n *neighbour) refusing(id string, err error) { n.with(func() { n.refuse[id] = err }) }
