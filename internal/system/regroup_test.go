package system_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// choking is a bus that accepts a limited number of messages.
type choking struct {
	*collector
	room atomic.Int64
}

func (c *choking) Publish(topic string, msgs ...*message.Message) error {
	if c.room.Add(-int64(len(msgs))) < 0 {
		return outbox.Unavailable(errors.New("it is full"), 0)
	}
	return c.collector.Publish(topic, msgs...)
}

// regrouped is a route whose lanes are computed from something else after a change of its configuration.
type regrouped struct {
	name       string
	url, table string // of the outbox
	driver     string
	before     string // sources and state
	after      string
}

func regroupedRoutes(t *testing.T) []regrouped {
	t.Helper()
	var all []regrouped
	custom := func(url, group string) string {
		return fmt.Sprintf("sources: {app: {type: postgres, url: %q, layout: custom, table: outrider_outbox, "+
			"columns: {position: position, xid: xid, id: id, payload: payload, type: type, group: %s, created_at: created_at}}}", url, group)
	}
	own := func(url string) string { return fmt.Sprintf("sources: {app: {type: postgres, url: %q}}", url) }
	add := func(name, state string, sources func(url string) (before, after string)) {
		url := testenv.Postgres(t)
		configured(t, own(url)+allRoutes)
		_, err := openPostgres(t, url).ExecContext(t.Context(), "ALTER TABLE outrider_outbox ADD customer text GENERATED ALWAYS AS (right(payload::text, 3)) STORED;"+
			"CREATE UNIQUE INDEX ON outrider_outbox (position); CREATE INDEX ON outrider_outbox (xid, position)")
		must(t, err)
		before, after := sources(url)
		all = append(all, regrouped{name, url, "outrider_outbox", "pgx", state + before, state + after})
	}
	another := func(url string) (before, after string) { return custom(url, "message_group"), custom(url, "customer") }
	add("another column", "", another)
	add("another column, state in MySQL", fmt.Sprintf("state: {url: %q}\n", testenv.MySQL(t)), another)
	add("another column, state in SQLite", fmt.Sprintf("state: {url: %q}\n", "sqlite:"+filepath.Join(t.TempDir(), "state.db")), another)
	add("no group any more", "", func(url string) (before, after string) {
		return custom(url, "message_group"), strings.Replace(custom(url, "none"), ", group: none", "", 1)
	})
	add("the own layout becomes custom", "", func(url string) (before, after string) { return own(url), custom(url, "message_group") })
	add("custom becomes the own layout", "", func(url string) (before, after string) { return custom(url, "message_group"), own(url) })

	path := filepath.Join(t.TempDir(), "app.db")
	configured(t, fmt.Sprintf("sources: {app: {type: sqlite, path: %q}}", path)+allRoutes)
	lite := func(group string) string {
		return fmt.Sprintf("sources: {app: {type: sqlite, path: %q, layout: custom, table: outrider_outbox, "+
			"columns: {position: position, id: id, payload: payload, type: type, group: %s}}}", path, group)
	}
	return append(all, regrouped{"SQLite", path, "outrider_outbox", "sqlite", lite("message_group"), lite("type")})
}

// A route whose lanes lag, and are computed from something else after a restart, does not read with cursors that
// cover other rows: it stops, doctor says so, and after the command that both name everything arrives.
func TestG1_LanesThatAreComputedFromSomethingElse(t *testing.T) {
	t.Parallel()
	for _, tt := range regroupedRoutes(t) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const routes = "\ndrain_timeout: 1s\nroutes: {orders: {from: app, to: bus, middleware: [], window: 8}}\n"
			db := openPostgres(t, tt.url)
			if tt.driver == "sqlite" {
				db = openSQLite(t, tt.url)
			}
			before, after := configured(t, tt.before+routes), configured(t, tt.after+routes)
			all := write(t, db, tt.table, "one", 300)
			bus := &choking{collector: newCollector()}
			bus.room.Store(100)
			r := begin(t, before, bus)
			eventually(t, "it is full", func() bool { return bus.room.Load() < 0 })
			r.stop(t)

			bus.room.Store(1000)
			begin(t, after, bus).refuses(t, "lanes were computed from", "outrider rebase orders --adopt")
			if text := diagnosis(t, after); !strings.Contains(text, "outrider rebase orders --adopt") {
				t.Errorf("doctor says:\n%s", text)
			}
			r = begin(t, before, bus) // the former configuration still continues
			eventually(t, "more has arrived", func() bool { return bus.room.Load() < 950 })
			r.stop(t)
			relocate(t, after, adopt)
			r = begin(t, after, bus)
			bus.awaits(t, all)
			r.stop(t)

			// The state now records from which column the lanes are computed.
			all = append(all, write(t, db, tt.table, "two", 50)...)
			r = begin(t, after, bus)
			bus.awaits(t, all)
			r.stop(t)
		})
	}
}

// Lanes that are all at one place, as those of a route of a table without slots that has delivered everything, can be computed from
// something else: nothing is lost or delivered twice. So can those of a state that an earlier version left.
func TestG1_G3_LanesAtOnePlaceAreComputedAnew(t *testing.T) {
	t.Parallel()
	for _, former := range []bool{false, true} {
		t.Run(fmt.Sprint("earlier version ", former), func(t *testing.T) {
			t.Parallel()
			tt := regroupedRoutes(t)[0]
			before, after := configured(t, tt.before+allRoutes), configured(t, tt.after+allRoutes)
			db, bus := openPostgres(t, tt.url), newCollector()
			all := write(t, db, tt.table, "one", 100)
			r := begin(t, before, bus)
			bus.awaits(t, all)
			eventually(t, "all lanes are at one place", func() bool { return places(t, db) == 1 })
			r.stop(t)
			if former {
				_, err := db.ExecContext(t.Context(), "UPDATE outrider_cursor SET anchor = substring(anchor FROM '^[^:]*:[^:]*:[^:]*')")
				must(t, err)
			}
			all = append(all, write(t, db, tt.table, "two", 100)...)
			r = begin(t, after, bus)
			bus.awaits(t, all)
			r.stop(t)
			if n := bus.twice(); n > 0 {
				t.Errorf("%d messages came twice", n)
			}
			var recorded int
			must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM outrider_cursor WHERE anchor LIKE '%customer%'").Scan(&recorded))
			if recorded != 16 {
				t.Errorf("%d of 16 lanes say what they are computed from", recorded)
			}
		})
	}
}

// places returns the number of different positions of the lanes of the route orders.
func places(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	must(t, db.QueryRowContext(t.Context(), "SELECT count(DISTINCT position) FROM outrider_cursor").Scan(&n))
	return n
}
