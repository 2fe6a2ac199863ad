package faults_test

import (
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// reworked is a table under load and delivery, with the state beside it, that is rewritten.
type reworked struct {
	*database
	table, key string // the table, and the index that it is clustered by
	config     string
	write      func() (stop func())
	rows       func() []check.Row
	arrived    func() int
	all        func() [][]check.Delivery
	further    []string // statements
}

// rewrites are statements for a table {t} with an index {i}.
var rewrites = []string{
	"VACUUM FULL {t}", "CLUSTER {t} USING {i}", "REINDEX TABLE CONCURRENTLY {t}",
	"ALTER TABLE {t} ADD COLUMN volatile text DEFAULT gen_random_uuid()::text", "ALTER TABLE {t} ADD COLUMN n integer DEFAULT 1", "ALTER TABLE {t} ALTER COLUMN n TYPE bigint",
	"ALTER TABLE {t} DROP COLUMN n, DROP COLUMN volatile", "ALTER TABLE {t} SET UNLOGGED", "ALTER TABLE {t} SET LOGGED",
}

// rewrittenState are the tables whose rows a settle changes.
var rewrittenState = []string{"outrider_cursor", "outrider_settled", "outrider_instance", "outrider_parked"}

// repack stands for a run of pg_repack.
const repack = "pg_repack"

// Tables are reworked while they are written to and delivered from, and so are those of the state store: nothing is lost, repeated or out of order.
func TestG1_G2_TablesAreRewrittenUnderLoad(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *reworked{
		"own": rewrittenOwn, "own, partitions": rewrittenPartitions, "queue": rewrittenQueue, "append-only": rewrittenEvents,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rewriteUnderLoad(t, open(t))
		})
	}
}

func rewriteUnderLoad(t *testing.T, w *reworked) {
	t.Helper()
	program := testenv.PgRepack(t)
	w.exec("CREATE EXTENSION pg_repack")
	stop := w.write()
	until(t, "there are rows", func() bool { return len(w.rows()) >= 150 })
	first := len(w.rows())
	r := start(t, w.config)
	r.until("delivered the first", func() bool { return w.arrived() >= first })
	// A partition is detached once its rows were delivered, those of transactions that are still open as well.
	began := one[time.Time](w.database, "SELECT now()")
	until(t, "older transactions have ended", func() bool {
		return one[int](w.database, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start < '"+began.Format(time.RFC3339Nano)+"'") == 0
	})
	first = len(w.rows())
	r.until("delivered the rows of older transactions", func() bool { return w.arrived() >= first })
	statements := slices.Clone(w.further)
	for _, s := range rewrites {
		if w.key != "" {
			statements = append(statements, strings.NewReplacer("{t}", w.table, "{i}", w.key).Replace(s))
		}
	}
	for _, table := range rewrittenState {
		statements = append(statements, "VACUUM FULL "+table, "REINDEX TABLE CONCURRENTLY "+table, repack+" "+table)
	}
	if w.key != "" {
		statements = append(statements, repack+" "+w.table)
	}
	var recovery stopwatch
	n := 0
	for range rounds(t, testenv.Brief(1, 3), 20) {
		for _, s := range statements {
			before, began := w.arrived(), time.Now()
			if table, is := strings.CutPrefix(s, repack+" "); is {
				w.repack(program, table)
			} else {
				w.exec(s)
			}
			r.until("delivers after "+s, func() bool { return w.arrived() > before })
			recovery.since(began)
			n++
		}
	}
	stop()
	rows := len(w.rows())
	r.until("delivered everything", func() bool { return w.arrived() >= rows })
	r.stop()
	report := check.Compare(w.rows(), w.all()...)
	tell(t, fmt.Sprintf("%d rewrites", n), report, recovery)
	if said := r.output(); strings.Contains(said, "level=ERROR") {
		t.Errorf("the relay complains:\n%s", said)
	}
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("not clean, or something came twice: %v", report)
	}
}

// repack rewrites a table as pg_repack does: beside the writers, with a lock in the end.
func (w *reworked) repack(program, table string) {
	w.t.Helper()
	u, err := url.Parse(w.url)
	must(w.t, err)
	until(w.t, "pg_repack gets the lock of "+table, func() bool { // for which it has timeouts
		out, err := exec.Command(program, "-h", u.Hostname(), "-p", u.Port(), "-U", u.User.Username(), "-d", strings.TrimPrefix(u.Path, "/"), "-t", "public."+table, "-D").CombinedOutput()
		if err != nil && !strings.Contains(string(out), "statement timeout") {
			w.t.Fatalf("pg_repack %s: %v\n%s", table, err, out)
		}
		return err == nil && !strings.Contains(string(out), "WARNING")
	})
}

func rewrittenOwn(t *testing.T) *reworked {
	t.Helper()
	db := newDatabase(t)
	return ownRewritten(db, receive(t, nil), "outrider_outbox_pkey")
}

func ownRewritten(db *database, to *receiver, key string) *reworked {
	return &reworked{
		database: db, table: "outrider_outbox", key: key, rows: db.rows, arrived: to.arrived, all: to.all,
		config: settings{database: db.url, top: quick, destination: toHTTP(to.url()), window: killWindow}.text(),
		write:  func() func() { return write(db.t, db.pool, true).stop },
	}
}

// rewrittenPartitions has an own table with partitions, of which some are detached and attached again.
func rewrittenPartitions(t *testing.T) *reworked {
	t.Helper()
	db := newDatabase(t)
	db.exec("DROP TABLE outrider_outbox")
	_, err := owntable.InitPartitioned(t.Context(), db.pool, "", 100)
	must(t, err)
	w := ownRewritten(db, receive(t, nil), "")
	low := one[string](db, "SELECT min(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'outrider_outbox'::regclass AND pg_get_expr((SELECT relpartbound FROM pg_class WHERE oid = inhrelid), inhrelid) LIKE '%FROM (''0'')%'")
	w.further = []string{
		"ALTER TABLE outrider_outbox DETACH PARTITION " + low, "VACUUM FULL " + low, "ALTER TABLE outrider_outbox ATTACH PARTITION " + low + " FOR VALUES FROM (0) TO (100)",
		"REINDEX TABLE CONCURRENTLY " + low, "CLUSTER " + low + " USING " + low + "_pkey", "VACUUM FULL outrider_outbox", "REINDEX TABLE CONCURRENTLY outrider_outbox",
		"ALTER TABLE outrider_outbox ADD COLUMN volatile text DEFAULT gen_random_uuid()::text", "ALTER TABLE outrider_outbox ALTER COLUMN volatile TYPE varchar(100)",
		"ALTER TABLE outrider_outbox DROP COLUMN volatile", repack + " " + low,
	}
	return w
}

func rewrittenQueue(t *testing.T) *reworked {
	t.Helper()
	c := newCatalyst(t)
	to := newAPI(t, nil)
	return &reworked{
		database: c.database, table: "outbox_events", key: "outbox_events_pkey", rows: c.rows, arrived: to.arrived, all: to.all,
		config: c.config(to.url(), busy), write: func() func() { return c.writeEvery(40 * time.Millisecond) },
	}
}

func rewrittenEvents(t *testing.T) *reworked {
	t.Helper()
	s := newEventStore(t, crabletV1)
	to := receive(t, nil)
	return &reworked{
		database: s.database, table: "events", key: "events_pkey", rows: s.committed, arrived: to.arrived, all: to.all, write: s.write,
		config: fmt.Sprintf(`settle_interval: 20ms
lease: 5s
admin: {listen: off}
sources: {events: {type: postgres, url: %q, layout: crablet, poll: {max: 20ms}}}
destinations: {wallets: {type: http, url: %q, batch: {whole: true}}}
routes: {wallets: {from: events, to: wallets, window: 256, match: {tags: {all: [wallet_id]}}, progress: {topic: wallets, publisher: Http}}}
`, s.url, to.url()),
	}
}
