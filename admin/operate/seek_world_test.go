package operate_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/outriderhq/outrider"
	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/adapters/sqlite"
	sqlitetable "github.com/outriderhq/outrider/adapters/sqlite/owntable"
	sqlitestate "github.com/outriderhq/outrider/adapters/sqlite/statestore"
	"github.com/outriderhq/outrider/admin/operate"
)

// failer is what a test and a case of a property test have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// world is an outbox table with routes that are delivered by hand, a step at a
// time, from the real source and state store, and moved by the real operator's
// commands. It knows what each route owes.
type world struct {
	t     failer
	ctx   context.Context
	kind  string // of the source: rows, partitions, sqlite
	url   string // or the path
	db    *sql.DB
	src   adapters.OperatorSource
	state adapters.OperatorStore
	op    *operate.Operator

	routes  map[string]*owing // by name: all that hold, or should hold, rows
	present []string          // those that are configured
	open    []*openTx
	last    int // number of the last row
}

// owing is what a route owes and has.
type owing struct {
	owed    map[string]bool // to be delivered
	settled map[string]bool // delivered and settled, or skipped
	arrived []string        // in the order of arrival
	ran     bool            // it has a cursor
}

// openTx is a transaction that has written rows.
type openTx struct {
	tx  *sql.Tx
	ids []string
}

func ok(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// newWorld makes an empty table.
func newWorld(t *testing.T, kind, url string) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), kind: kind, url: url}
	quiet := slog.New(slog.DiscardHandler)
	cfg := w.config("a")
	if kind != "sqlite" { // its table is made for each case
		_, err := operate.Init(t.Context(), cfg, outrider.WithLogger(quiet))
		must(t, err)
	}
	var err error
	if kind == "sqlite" {
		w.db, err = sqlite.Open(url)
		must(t, err)
		_, err = operate.Init(t.Context(), cfg, outrider.WithLogger(quiet))
		must(t, err)
		w.src, err = sqlitetable.New(sqlitetable.Config{Path: url})
		must(t, err)
		w.state, err = sqlitestate.New(t.Context(), sqlitestate.Config{Path: url})
	} else {
		w.db, err = sql.Open("pgx", url)
		must(t, err)
		w.src, err = owntable.New(t.Context(), owntable.Config{URL: url, Logger: quiet})
		must(t, err)
		w.state, err = statestore.New(t.Context(), statestore.Config{URL: url, Logger: quiet})
	}
	must(t, err)
	must(t, w.state.Join(t.Context(), "by-hand", time.Hour))
	t.Cleanup(func() {
		must(t, w.src.Close())
		must(t, w.state.Leave(context.Background(), "by-hand"))
		must(t, w.state.Close())
		must(t, w.db.Close())
	})
	return w
}

// begin empties the table and forgets all routes but one.
func (w *world) begin(t failer) {
	w.t = t
	w.exec("DELETE FROM outrider_cursor")
	w.exec("DELETE FROM outrider_pause")
	switch w.kind {
	case "rows":
		w.exec("TRUNCATE outrider_outbox RESTART IDENTITY")
	case "sqlite":
		w.exec("DELETE FROM outrider_outbox")
		w.exec("DELETE FROM sqlite_sequence WHERE name = 'outrider_outbox'")
	case "partitions":
		w.exec("DROP TABLE outrider_outbox")
		_, err := operate.Init(w.ctx, w.config("a"), outrider.WithLogger(slog.New(slog.DiscardHandler)))
		ok(t, err)
	}
	w.routes, w.present, w.open, w.last = map[string]*owing{}, nil, nil, 0
	w.configure("a")
}

// end gives up what a case leaves open.
func (w *world) end() {
	for _, tx := range w.open {
		ok(w.t, tx.tx.Rollback())
	}
	w.open = nil
	ok(w.t, w.op.Close())
}

func (w *world) exec(query string) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.ctx, query)
	ok(w.t, err)
}

func (w *world) config(routes ...string) *outrider.Config {
	source, retention := fmt.Sprintf("type: postgres, url: %q", w.url), "keep: 0s, batch: 16"
	switch w.kind {
	case "sqlite":
		source = fmt.Sprintf("type: sqlite, path: %q", w.url)
	case "partitions":
		retention = "keep: 0s, mode: partitions, partition_rows: 10000"
	}
	var list []string
	for _, r := range routes {
		from := "app"
		if r == "b" {
			from = "twin" // another source on the same table
		}
		list = append(list, r+": {from: "+from+", to: nowhere}")
	}
	cfg, err := outrider.ParseConfig("test.yaml", fmt.Appendf(nil, `
sources: {app: {%[1]s, retention: {%[2]s}}, twin: {%[1]s, retention: {%[2]s}}}
destinations: {nowhere: {type: discard}}
routes: {%[3]s}
`, source, retention, strings.Join(list, ", ")))
	ok(w.t, err)
	return cfg
}

// configure has these routes, and no others, configured. A new one owes what is in
// the table; one that never ran and is gone owes nothing.
func (w *world) configure(routes ...string) {
	var err error
	if w.op != nil && w.present != nil {
		ok(w.t, w.op.Close())
	}
	w.present = routes
	w.op, err = operate.NewOperator(w.ctx, w.config(routes...), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	ok(w.t, err)
	maps.DeleteFunc(w.routes, func(name string, r *owing) bool { return !r.ran && !slices.Contains(routes, name) })
	for _, r := range routes {
		if w.routes[r] == nil {
			w.routes[r] = &owing{owed: w.visible(), settled: map[string]bool{}}
		}
	}
}

// visible are the rows of the table.
func (w *world) visible() map[string]bool {
	rows, err := w.db.QueryContext(w.ctx, "SELECT id FROM outrider_outbox")
	ok(w.t, err)
	defer func() { _ = rows.Close() }() // Err returns the error
	out := map[string]bool{}
	for rows.Next() {
		var id string
		ok(w.t, rows.Scan(&id))
		out[id] = true
	}
	ok(w.t, rows.Err())
	return out
}

// lastPosition is the last one that was drawn.
func (w *world) lastPosition() (last int64) {
	q := "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('outrider_outbox', 'position')::regclass), 0)"
	if w.kind == "sqlite" {
		q = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'outrider_outbox'"
	}
	ok(w.t, w.db.QueryRowContext(w.ctx, q).Scan(&last))
	return last
}

// write begins a transaction with n rows.
func (w *world) write(n int) *openTx {
	tx, err := w.db.BeginTx(w.ctx, nil)
	ok(w.t, err)
	o := &openTx{tx: tx}
	values := make([]string, n)
	for i := range n {
		w.last++
		id := fmt.Sprintf("m%05d", w.last)
		o.ids = append(o.ids, id)
		values[i] = fmt.Sprintf("('%s', 't', '{}', 'g%d')", id, w.last%37)
	}
	_, err = tx.ExecContext(w.ctx, "INSERT INTO outrider_outbox (id, type, payload, message_group) VALUES "+strings.Join(values, ", "))
	ok(w.t, err)
	return o
}

func (w *world) commit(o *openTx) {
	ok(w.t, o.tx.Commit())
	for _, r := range w.routes {
		for _, id := range o.ids {
			r.owed[id] = true
		}
	}
}

func (w *world) publish(n int) { w.commit(w.write(n)) }

// reading is one slot of a route that is being delivered by hand.
type reading struct {
	adapters.LaneState
	rows []*adapters.Row
	skip map[int64]bool
}

// lanes takes the lanes of a route; none when it is paused.
func (w *world) lanes(route string) []*reading {
	slots := make([]int, adapters.Slots)
	for i := range slots {
		slots[i] = i
	}
	got, err := w.state.Acquire(w.ctx, "by-hand", route, slots, adapters.Slots)
	if errors.Is(err, adapters.ErrPaused) {
		return nil
	}
	ok(w.t, err)
	var lanes []*reading
	for _, l := range got {
		if l.New {
			l.Cursor, err = w.src.Start(w.ctx, adapters.Start{Kind: adapters.StartBeginning})
			ok(w.t, err)
		} else if err := w.src.Validate(w.ctx, l.Cursor); err != nil {
			w.t.Fatalf("route %s, slot %d: the cursor is not good: %v", route, l.Slot, err)
		}
		skip := map[int64]bool{}
		for _, p := range l.Beyond {
			skip[p] = true
		}
		lanes = append(lanes, &reading{LaneState: l, skip: skip})
	}
	return lanes
}

// fetch reads up to a number of rows of each slot and delivers them.
func (w *world) fetch(route string, lanes []*reading, limit int) []adapters.ReadResult {
	reads := make([]adapters.Read, len(lanes))
	for i, l := range lanes {
		reads[i], l.rows = adapters.Read{Slot: l.Slot, From: l.Cursor, Limit: limit}, nil
	}
	results, err := w.src.Fetch(w.ctx, reads, func(i int, row *adapters.Row) bool {
		lanes[i].rows = append(lanes[i].rows, row)
		return true
	})
	ok(w.t, err)
	r := w.routes[route]
	for _, l := range lanes {
		for _, row := range l.rows {
			if !l.skip[row.Position] {
				r.arrived = append(r.arrived, row.ID)
				delete(r.owed, row.ID)
			}
		}
	}
	return results
}

// settle writes a lane down.
func (w *world) settle(route string, l *reading, cursor adapters.Cursor) {
	table, err := w.src.Table(w.ctx)
	ok(w.t, err)
	s := adapters.Settlement{LaneRef: l.LaneRef, Epoch: l.Epoch, Cursor: cursor, NextSeq: l.NextSeq, Table: table,
		Beyond: slices.Sorted(maps.Keys(l.skip))}
	w.routes[route].ran = true
	fenced, err := w.state.Settle(w.ctx, []adapters.Settlement{s})
	ok(w.t, err)
	if len(fenced) > 0 {
		w.t.Fatalf("route %s: lanes %v are fenced", route, fenced)
	}
}

// drain delivers and settles all that there is, unless the route is paused.
func (w *world) drain(route string) {
	lanes := w.lanes(route)
	for len(lanes) > 0 {
		drained := true
		for i, result := range w.fetch(route, lanes, 100) {
			l := lanes[i]
			for _, row := range l.rows {
				delete(l.skip, row.Position)
				w.routes[route].settled[row.ID] = true
			}
			l.Cursor = result.Next
			drained = drained && result.Drained
		}
		if drained {
			break
		}
	}
	for _, l := range lanes {
		w.settle(route, l, l.Cursor)
	}
	w.release(lanes)
}

func (w *world) release(lanes []*reading) {
	var refs []adapters.LaneRef
	for _, l := range lanes {
		refs = append(refs, l.LaneRef)
	}
	ok(w.t, w.state.Release(w.ctx, "by-hand", refs))
}

// crash delivers some rows, settles some of these, also out of turn, and stops.
func (w *world) crash(t *rapid.T, route string) {
	lanes := w.lanes(route)
	if len(lanes) == 0 {
		return
	}
	w.fetch(route, lanes, rapid.IntRange(1, 6).Draw(t, "limit"))
	for _, l := range lanes {
		upto := rapid.IntRange(0, len(l.rows)).Draw(t, "settled")
		cursor := l.Cursor
		for i, row := range l.rows {
			switch {
			case i < upto:
				cursor = row.After()
				delete(l.skip, row.Position)
			case rapid.Bool().Draw(t, "beyond"):
				l.skip[row.Position] = true
			default:
				continue
			}
			w.routes[route].settled[row.ID] = true
		}
		w.settle(route, l, cursor)
	}
	w.release(lanes)
}

// retain makes a pass of retention.
func (w *world) retain() {
	_, err := w.op.Retain(w.ctx, false, "test")
	if err != nil && !strings.Contains(err.Error(), "is in the way") {
		w.t.Fatalf("retention: %v", err)
	}
}

// relocate carries a plan out and checks its numbers against what then happens.
func (w *world) relocate(route string, plan *operate.Relocation, meanwhile func()) {
	r := w.routes[route]
	before, settled, arrived := w.visible(), maps.Clone(r.settled), len(r.arrived)
	ok(w.t, w.op.Relocate(w.ctx, plan, "test"))
	r.ran = true
	meanwhile()
	_, err := w.op.Resume(w.ctx, adapters.Pause{Route: route, By: "test"})
	ok(w.t, err)
	w.drain(route)
	again, came := 0, map[string]bool{}
	for _, id := range r.arrived[arrived:] {
		came[id] = true
		if settled[id] {
			again++
		}
	}
	skipped := 0
	for id := range before {
		if !settled[id] && !came[id] {
			skipped++
			delete(r.owed, id)
		}
		r.settled[id] = true
	}
	if plan.Again.Rows != again || plan.Skipped.Rows != skipped || !plan.Counted {
		w.t.Fatalf("route %s: %s to %s said %d again and %d skipped (%d late), it was %d and %d",
			route, plan.Action, plan.To, plan.Again.Rows, plan.Skipped.Rows, plan.Late.Rows, again, skipped)
	}
}

// nothingIsOwed drains all routes and looks at what they owe.
func (w *world) nothingIsOwed() {
	w.configure(slices.Sorted(maps.Keys(w.routes))...)
	for name, r := range w.routes {
		_, err := w.op.Resume(w.ctx, adapters.Pause{Route: name, By: "test"})
		ok(w.t, err)
		w.drain(name)
		if len(r.owed) > 0 {
			w.t.Fatalf("route %s never got %v", name, slices.Sorted(maps.Keys(r.owed)))
		}
	}
}
