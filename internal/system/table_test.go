package system_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/doctor"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

// collector is a Watermill publisher that counts what arrives, by payload.
type collector struct {
	mu  sync.Mutex
	got map[string]int
}

func newCollector() *collector { return &collector{got: map[string]int{}} }

func (c *collector) Publish(_ string, msgs ...*message.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, msg := range msgs {
		c.got[string(msg.Payload)]++
	}
	return nil
}

func (c *collector) Close() error { return nil }

// has counts how many of the payloads have arrived.
func (c *collector) has(payloads []string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range payloads {
		if c.got[p] > 0 {
			n++
		}
	}
	return n
}

// twice counts payloads that arrived more than once.
func (c *collector) twice() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, times := range c.got {
		if times > 1 {
			n++
		}
	}
	return n
}

// awaits waits until all of the payloads have arrived.
func (c *collector) awaits(t *testing.T, payloads []string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d messages have arrived", len(payloads)), func() bool { return c.has(payloads) == len(payloads) })
}

// running is a running relay.
type running struct {
	cancel context.CancelFunc
	done   chan error
}

// begin runs a configuration whose destination bus is the collector.
func begin(t *testing.T, cfg *outrider.Config, bus message.Publisher) *running {
	t.Helper()
	o, err := outrider.New(cfg, outrider.WithDestination("bus", bus), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- o.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

// stop ends the relay, which has to have run until then.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	must(t, <-r.done)
}

// refuses waits until the relay ends because its routes cannot run.
func (r *running) refuses(t *testing.T, wants ...string) {
	t.Helper()
	var err error
	select {
	case err = <-r.done:
	case <-time.After(time.Minute):
		t.Fatal("the relay has not ended within a minute")
	}
	if err == nil {
		t.Fatal("the relay ended without an error")
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

// configured parses and initialises a configuration.
func configured(t *testing.T, format string, args ...any) *outrider.Config {
	t.Helper()
	cfg, err := outrider.ParseConfig("test.yaml", fmt.Appendf(nil, `
admin: {listen: "off"}
destinations: {bus: {type: publisher, topic: all}}
`+format, args...))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	return cfg
}

// asOperator calls f with an operator.
func asOperator(t *testing.T, cfg *outrider.Config, f func(op *operate.Operator)) {
	t.Helper()
	op, err := operate.NewOperator(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	f(op)
	must(t, op.Close())
}

// relocate plans a move and carries it out.
func relocate(t *testing.T, cfg *outrider.Config, plan func(op *operate.Operator) (*operate.Relocation, error)) {
	t.Helper()
	asOperator(t, cfg, func(op *operate.Operator) {
		r, err := plan(op)
		must(t, err)
		must(t, op.Relocate(t.Context(), r, "test"))
	})
}

func seekTo(kind adapters.StartKind) func(*operate.Operator) (*operate.Relocation, error) {
	return func(op *operate.Operator) (*operate.Relocation, error) {
		return op.PlanSeek(context.Background(), "orders", operate.Target{Start: adapters.Start{Kind: kind}})
	}
}

func adopt(op *operate.Operator) (*operate.Relocation, error) {
	return op.PlanAdopt(context.Background(), "orders")
}

func rebase(op *operate.Operator) (*operate.Relocation, error) {
	return op.PlanRebase(context.Background(), "orders", false)
}

// removed is how many rows retention removes now.
func removed(t *testing.T, cfg *outrider.Config) (n int64) {
	t.Helper()
	asOperator(t, cfg, func(op *operate.Operator) {
		stats, err := op.Retain(t.Context(), false, "test")
		must(t, err)
		for _, s := range stats {
			n += s.Rows
		}
	})
	return n
}

// write inserts rows with their name for a payload, in ten groups and one
// transaction, and returns their payloads.
func write(t *testing.T, db *sql.DB, table, name string, n int) (payloads []string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	for i := range n {
		p := fmt.Sprintf(`"%s %d"`, name, i)
		_, err := tx.ExecContext(t.Context(), "INSERT INTO "+table+" (type, message_group, payload) VALUES ('t', $1, $2)", fmt.Sprint("g", i%10), p)
		must(t, err)
		payloads = append(payloads, p)
	}
	must(t, tx.Commit())
	return payloads
}

func openPostgres(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() }) // the server may be gone
	return db
}

func openSQLite(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sqlite.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// tableOf describes the table of the route orders.
func tableOf(t *testing.T, cfg *outrider.Config) string {
	t.Helper()
	for _, d := range doctor.Doctor(t.Context(), cfg, outrider.WithDestination("bus", newCollector())) {
		if d.Part == "route orders" && d.Subject == "cursor" {
			text := strings.TrimPrefix(d.Text, "belongs to ")
			if _, after, ok := strings.Cut(text, "but it reads "); ok {
				text, _, _ = strings.Cut(after, ";")
			}
			return text
		}
	}
	t.Fatal("doctor does not say which table the route reads")
	return ""
}

// diagnosis returns the result of doctor for the route orders.
func diagnosis(t *testing.T, cfg *outrider.Config) string {
	t.Helper()
	var lines []string
	for _, d := range doctor.Doctor(t.Context(), cfg, outrider.WithDestination("bus", newCollector())) {
		if d.Part == "route orders" {
			lines = append(lines, fmt.Sprintf("%s %s: %s (%s)", d.Level, d.Subject, d.Text, d.Fix))
		}
	}
	return strings.Join(lines, "\n")
}

const allRoutes = "\nroutes: {orders: {from: app, to: bus, middleware: []}}\n"

// A route whose table was changed in the configuration does not apply its cursor to
// the new one: it stops, retention counts it as covering nothing, doctor says so, and
// after a seek everything arrives.
func TestG1_ACursorIsNotAppliedToAnotherTable(t *testing.T) {
	t.Parallel()
	pg, dir := testenv.Postgres(t), t.TempDir()
	db := openPostgres(t, pg)
	table := func(name string) *outrider.Config {
		return configured(t, `sources: {app: {type: postgres, url: %q, table: %s, retention: {keep: 0s}}}`+allRoutes, pg, name)
	}
	file := func(name string) *outrider.Config {
		return configured(t, `state: {url: "sqlite:%s"}
sources: {app: {type: sqlite, path: %q, retention: {keep: 0s}}}`+allRoutes, filepath.Join(dir, "state.db"), filepath.Join(dir, name))
	}
	for _, tt := range []struct {
		name          string
		config        func(string) *outrider.Config
		db            func(string) (*sql.DB, string)
		first, second string
	}{
		{"PostgreSQL", table, func(name string) (*sql.DB, string) { return db, name }, "one", "two"},
		{"SQLite", file, func(name string) (*sql.DB, string) { return openSQLite(t, filepath.Join(dir, name)), "outrider_outbox" }, "one.db", "two.db"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			one, two, bus := tt.config(tt.first), tt.config(tt.second), newCollector()
			db, name := tt.db(tt.first)
			written := write(t, db, name, "one", 200)
			r := begin(t, one, bus)
			bus.awaits(t, written)
			r.stop(t)

			db, name = tt.db(tt.second)
			written = write(t, db, name, "two", 300)
			begin(t, two, bus).refuses(t, "belongs to "+tableOf(t, one), "reads "+tableOf(t, two), "outrider rebase orders --adopt", "outrider seek orders")
			if n := removed(t, two); n != 0 {
				t.Errorf("%d rows were removed that nobody has delivered", n)
			}
			if text := diagnosis(t, two); !strings.Contains(text, "outrider seek orders") {
				t.Errorf("doctor says:\n%s", text)
			}
			relocate(t, two, seekTo(adapters.StartBeginning))
			r = begin(t, two, bus)
			bus.awaits(t, written)
			r.stop(t)
			if n := bus.twice(); n != 0 {
				t.Errorf("%d messages came twice", n)
			}
		})
	}
}

// Of two services with one state store and a route of the same name one delivers all
// of its table, and the other stops; neither loses rows.
func TestG1_TwoServicesWithOneRouteName(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	db := openPostgres(t, pg)
	names := []string{"mine", "theirs"}
	var configs []*outrider.Config
	var written [][]string
	var buses []*collector
	for _, name := range names {
		configs = append(configs, configured(t, `sources: {app: {type: postgres, url: %q, table: %s, retention: {keep: 0s}}}`+allRoutes, pg, name))
		written = append(written, write(t, db, name, name, 300))
		buses = append(buses, newCollector())
	}
	relays := []*running{begin(t, configs[0], buses[0]), begin(t, configs[1], buses[1])}
	var stopped int
	select {
	case err := <-relays[0].done:
		relays[0].done <- err
	case err := <-relays[1].done:
		relays[1].done <- err
		stopped = 1
	}
	goes := 1 - stopped
	relays[stopped].refuses(t, "public.mine", "public.theirs", "another name")
	buses[goes].awaits(t, written[goes])
	if n := buses[stopped].has(written[stopped]); n != 0 {
		t.Errorf("the one that stopped has delivered %d", n)
	}
	removed(t, configs[goes])
	if n := removed(t, configs[stopped]); n != 0 {
		t.Errorf("%d rows were removed that nobody has delivered", n)
	}
	relays[goes].stop(t)
	relocate(t, configs[stopped], seekTo(adapters.StartBeginning)) // the other one stops then
	r := begin(t, configs[stopped], buses[stopped])
	buses[stopped].awaits(t, written[stopped])
	r.stop(t)
}

// A renamed table continues at its position, once an operator has adopted it.
func TestG1_ARenamedTableIsAdopted(t *testing.T) {
	t.Parallel()
	pg, dir := testenv.Postgres(t), t.TempDir()
	db := openPostgres(t, pg)
	table := func(name string) *outrider.Config {
		return configured(t, `sources: {app: {type: postgres, url: %q, table: %s}}`+allRoutes, pg, name)
	}
	bus := newCollector()
	one := table("one")
	written := write(t, db, "one", "before", 100)
	r := begin(t, one, bus)
	bus.awaits(t, written)
	r.stop(t)
	_, err := db.ExecContext(t.Context(), "ALTER TABLE one RENAME TO two")
	must(t, err)
	written = write(t, db, "two", "after", 50)
	two := table("two")
	begin(t, two, bus).refuses(t, "public.one", "public.two")
	asOperator(t, two, func(op *operate.Operator) {
		if _, err := rebase(op); err == nil || !strings.Contains(err.Error(), "--adopt") {
			t.Errorf("a rebase that nobody asked for to adopt: %v", err)
		}
	})
	relocate(t, two, adopt)
	asOperator(t, two, func(op *operate.Operator) {
		if _, err := adopt(op); err == nil {
			t.Error("adopted again")
		}
	})
	r = begin(t, two, bus)
	bus.awaits(t, written)
	r.stop(t)
	if n := bus.twice(); n != 0 {
		t.Errorf("%d messages came twice", n)
	}
	// A file that was moved is the same without a word.
	file := func(name string) *outrider.Config {
		return configured(t, `state: {url: "sqlite:%s"}
sources: {app: {type: sqlite, path: %q}}`+allRoutes, filepath.Join(dir, "state.db"), filepath.Join(dir, name))
	}
	first := file("first.db")
	lite := openSQLite(t, filepath.Join(dir, "first.db"))
	written = write(t, lite, "outrider_outbox", "lite", 20)
	r = begin(t, first, bus)
	bus.awaits(t, written)
	r.stop(t)
	_, err = lite.ExecContext(t.Context(), "VACUUM INTO '"+filepath.Join(dir, "second.db")+"'")
	must(t, err)
	r = begin(t, file("second.db"), bus)
	written = write(t, openSQLite(t, filepath.Join(dir, "second.db")), "outrider_outbox", "moved", 20)
	bus.awaits(t, written)
	r.stop(t)
	if n := bus.twice(); n != 0 {
		t.Errorf("%d messages came twice", n)
	}
}

// A route of a second source on the same table holds its rows, also before it ran.
func TestG1_TwoSourcesOnOneTableShareARetention(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	lite := filepath.Join(t.TempDir(), "app.db")
	for _, tt := range []struct {
		name, source string
		db           *sql.DB
	}{
		{"PostgreSQL", fmt.Sprintf("type: postgres, url: %q", pg), openPostgres(t, pg)},
		{"SQLite", fmt.Sprintf("type: sqlite, path: %q", lite), openSQLite(t, lite)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sources := fmt.Sprintf("sources: {app: {%s, retention: {keep: 0s}}, again: {%[1]s}}", tt.source)
			one := configured(t, sources+allRoutes)
			both := configured(t, sources+"\nroutes: {orders: {from: app, to: bus}, late: {from: again, to: bus, start: beginning}}\n")
			written := write(t, tt.db, "outrider_outbox", "row", 200)
			bus := newCollector()
			r := begin(t, one, bus)
			bus.awaits(t, written)
			r.stop(t)
			if n := removed(t, both); n != 0 {
				t.Errorf("%d rows were removed that route late has not read", n)
			}
			bus = newCollector()
			r = begin(t, both, bus)
			bus.awaits(t, written)
			r.stop(t)
			if removed(t, both) == 0 {
				t.Error("nothing was removed when both had read it")
			}
		})
	}
}

// Databases of the same name on two clusters, and two files, share a state store
// without holding each other's rows.
func TestG1_TablesOfOneNameHoldNothingOfEachOther(t *testing.T) {
	t.Parallel()
	state, dir := testenv.Postgres(t), t.TempDir()
	type twin struct {
		config *outrider.Config
		db     *sql.DB
		route  string
	}
	twins := map[string][]twin{}
	add := func(kind, location string, db *sql.DB) {
		route := fmt.Sprintf("%s%d", strings.ToLower(kind), len(twins[kind]))
		cfg := configured(t, "state: {url: %q}\nsources: {app: {%s, retention: {keep: 0s}}}\nroutes: {%s: {from: app, to: bus}}", state, location, route)
		twins[kind] = append(twins[kind], twin{cfg, db, route})
	}
	for range 2 {
		url := testenv.StartPostgres(t).URL()
		add("PostgreSQL", fmt.Sprintf("type: postgres, url: %q", url), openPostgres(t, url))
	}
	for _, name := range []string{"one.db", "two.db"} {
		path := filepath.Join(dir, name)
		add("SQLite", fmt.Sprintf("type: sqlite, path: %q", path), openSQLite(t, path))
	}
	for _, kind := range slices.Sorted(maps.Keys(twins)) {
		t.Run(kind, func(t *testing.T) {
			for i, tw := range twins[kind] {
				written, bus := write(t, tw.db, "outrider_outbox", strconv.Itoa(i), 100*(2-i)), newCollector()
				r := begin(t, tw.config, bus)
				bus.awaits(t, written)
				r.stop(t)
			}
			for _, tw := range twins[kind] {
				if removed(t, tw.config) == 0 {
					t.Errorf("nothing of %s was removed", tw.route)
				}
			}
		})
	}
}
