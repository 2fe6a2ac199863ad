package faults_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// watched is a run of two relays that read a log table and FlowCatalyst's queue, with the waiting times of rows as seen from outside.
type watched struct {
	*catalyst
	limit  time.Duration // of the watchdog
	relays [2]*relay
	logs   []string // paths of the output of all relays so far

	log, queue  *receiver
	failing     atomic.Bool // both receivers answer 503
	toLog, toDB *network

	mu     sync.Mutex
	came   map[string][]time.Time // arrivals by event id, or ref of an item
	excuse []time.Time            // when rows became due again: a seek, the end of a pause
}

// arrive notes when messages came.
func (w *watched) arrive(ids ...string) int {
	if w.failing.Load() {
		return http.StatusServiceUnavailable
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.came[id] = append(w.came[id], time.Now())
	}
	return http.StatusOK
}

// due notes that rows which were settled have to be settled from now on.
func (w *watched) due() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.excuse = append(w.excuse, time.Now())
}

func newWatched(t *testing.T, limit time.Duration) *watched {
	t.Helper()
	w := &watched{catalyst: newCatalyst(t), limit: limit, came: map[string][]time.Time{}}
	_, err := owntable.Init(t.Context(), w.pool, "")
	must(t, err)
	w.exec(`CREATE INDEX ON outbox_events (created_at, id) WHERE status IN ('PENDING', 'PROCESSING')`)
	w.exec(`CREATE INDEX ON outbox_dispatch_jobs (created_at, id) WHERE status IN ('PENDING', 'PROCESSING')`)
	w.log = receive(t, func(_ *http.Request, batch []payload) int {
		ids := make([]string, len(batch))
		for i, p := range batch {
			ids[i] = p.ID
		}
		return w.arrive(ids...)
	})
	queue := newAPI(t, func(items []item) int {
		ids := make([]string, len(items))
		for i, it := range items {
			ids[i] = it.Ref
		}
		return w.arrive(ids...)
	})
	queue.killed = true
	w.queue = queue.receiver
	u, err := url.Parse(w.url)
	must(t, err)
	w.toDB, w.toLog = connectVia(t, u.Host), connectVia(t, w.log.address)
	return w
}

// config is that of both relays. They reach the database and one of the receivers by networks that can be disturbed.
func (w *watched) config() string {
	u, err := url.Parse(w.url)
	must(w.t, err)
	u.Host = w.toDB.Listen
	const tireless = "middleware: [poison, {retry: {attempts: 1000, base: 50ms, max: 800ms}}, timeout: 2s]"
	return fmt.Sprintf(`admin: {listen: "127.0.0.1:0"}
lease: 5s
settle_interval: 20ms
watchdog: %v
sources:
  app: {type: postgres, url: %[2]q, poll: {max: 50ms}}
  queue: {type: postgres, layout: flowcatalyst, url: %[2]q, %s}
destinations:
  there: {type: http, url: "http://%s"}
  platform: {type: http, preset: flowcatalyst, url: %q, token: secret-token}
routes:
  orders: {from: app, to: there, window: 64, %s}
  outbox: {from: queue, to: platform, %[6]s}
`, w.limit, u.String(), stuckSoon, w.toLog.Listen, w.queue.url(), tireless)
}

func (w *watched) start(i int) {
	w.relays[i] = start(w.t, w.config())
	w.logs = append(w.logs, w.relays[i].log)
	w.relays[i].admin() // ready: one that starts while its database is in trouble ends
}

// troubles are the faults of the soak; each begins and ends.
func (w *watched) troubles() []trouble {
	out := []trouble{
		{"a relay killed", func() func() {
			i := rand.IntN(2)
			w.relays[i].kill()
			return func() { w.start(i) }
		}},
		{"a relay restarted", func() func() {
			i := rand.IntN(2)
			w.relays[i].stop()
			return func() { w.start(i) }
		}},
		{"connections terminated", func() func() {
			w.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'outrider%'`)
			return func() {}
		}},
		{"receivers answer 503", func() func() {
			w.failing.Store(true)
			return func() { w.failing.Store(false) }
		}},
		{"a route paused for longer than the limit", func() func() {
			command(w.t, "pause", "orders", "--wait", "0", "-c", w.relays[0].config)
			pause(w.t.Context(), w.limit+time.Second)
			return func() { command(w.t, "resume", "orders", "-c", w.relays[0].config); w.due() }
		}},
		{"a seek back", func() func() {
			command(w.t, "seek", "orders", "--to", "10s", "--yes", "-c", w.relays[0].config)
			return w.due
		}},
		{"a transaction open for longer than the limit", func() func() {
			tx, err := w.pool.Begin(w.t.Context())
			must(w.t, err)
			must(w.t, insert(w.t.Context(), tx, "late", 2))
			pause(w.t.Context(), w.limit+time.Second)
			return func() { must(w.t, tx.Commit(w.t.Context())); w.due() }
		}},
		{"a configuration reloaded", func() func() {
			_ = w.relays[rand.IntN(2)].cmd.Process.Signal(syscall.SIGHUP)
			return func() {}
		}},
	}
	for at, net := range map[string]*network{"the database": w.toDB, "a receiver": w.toLog} {
		for _, d := range net.disturbances() {
			out = append(out, trouble{d.name + " of " + at, d.begin})
		}
	}
	return out
}

// alarm is a line of the watchdog.
type alarm struct {
	at, since         time.Time
	route, row, cause string
}

var alarmLine = regexp.MustCompile(`time=(\S+) .*msg="watchdog: rows are not settled.* route=(\S+) .* first=(\S+) at=.* since=(\S+) cause=(\S+) `)

// alarms are those of all relays so far.
func (w *watched) alarms() (out []alarm) {
	w.t.Helper()
	for _, path := range w.logs {
		r := relay{t: w.t, log: path}
		for _, found := range alarmLine.FindAllStringSubmatch(r.output(), -1) {
			at, err := time.Parse(time.RFC3339Nano, found[1])
			must(w.t, err)
			since, err := time.Parse(time.RFC3339Nano, found[4])
			must(w.t, err)
			out = append(out, alarm{at, since, found[2], found[3], found[5]})
		}
	}
	return out
}

// passes makes the database record when cursors move: rows below them are settled.
const passes = `
CREATE TABLE passed (at timestamptz, slot smallint, position bigint);
CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.passed VALUES (clock_timestamp(), NEW.slot, NEW.position); RETURN NULL; END $$;
CREATE TRIGGER pass AFTER UPDATE OF position ON outrider_cursor FOR EACH ROW WHEN (NEW.route = 'orders' AND NEW.position <> OLD.position) EXECUTE FUNCTION pass()`

// real reports whether the row of an alarm had to wait for as long as the limit, and was not settled when the limit was over: on a busy
// machine the line is written a moment after the watchdog has looked.
func (w *watched) real(a alarm) bool {
	w.t.Helper()
	over := a.since.Add(w.limit)
	if a.at.Sub(over) > 2*w.limit {
		over = a.at
	}
	if a.route == "outbox" { // the row says when it was settled
		return one[bool](w.database, `SELECT created_at < $2::timestamptz AT TIME ZONE 'UTC' - make_interval(secs => $4) AND processed_at >= $3::timestamptz AT TIME ZONE 'UTC'
			FROM `+both+` WHERE id = $1`, a.row, a.at, over, w.limit.Seconds())
	}
	begin := one[time.Time](w.database, `SELECT created_at FROM outrider_outbox WHERE id = $1`, a.row)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.excuse {
		if at.Before(a.at) && at.After(begin) {
			begin = at
		}
	}
	arrived := slices.ContainsFunc(w.came[a.row], func(at time.Time) bool { return at.After(begin) && at.Before(over) })
	passed := one[bool](w.database, `SELECT EXISTS (SELECT FROM passed p JOIN outrider_outbox o ON o.slot = p.slot AND o.position <= p.position
		WHERE o.id = $1 AND p.at > $2 AND p.at < $3)`, a.row, begin, over)
	return a.at.Sub(begin) >= w.limit && (!arrived || !passed) // another row may have passed one that was committed late
}

// longest is how long a row of the log table waited between its commit, or the beginning of its transaction, and its first arrival.
func (w *watched) longest() (worst time.Duration) {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), `SELECT id, created_at FROM outrider_outbox WHERE message_group <> 'late'`)
	must(w.t, err)
	defer rows.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for rows.Next() {
		var id string
		var at time.Time
		must(w.t, rows.Scan(&id, &at))
		if came := w.came[id]; len(came) > 0 {
			worst = max(worst, came[0].Sub(at))
		}
	}
	must(w.t, rows.Err())
	return worst
}

// Through kills, restarts, broken networks, failing receivers, pauses, seeks, reloads and long transactions the watchdog of two relays
// raises no alarm of a row that did not wait: each alarm is held against the receivers. In the end a row is made to look as if it had not
// been settled, so that it is known that the watchdog looked.
func TestG13_TheWatchdogRaisesNoFalseAlarm(t *testing.T) {
	t.Parallel()
	limit := 3 * time.Second
	if soak(t) > 0 {
		limit = 10 * time.Second
	}
	w := newWatched(t, limit)
	w.migrate()
	w.exec(passes)
	w.start(0)
	w.start(1)
	writers, stop := write(t, w.pool, true), w.writeEvery(50*time.Millisecond)
	more := func(what string) {
		t.Helper()
		log, queue := w.log.arrived(), w.queue.arrived()
		until(t, what+" is over and messages come", func() bool { return w.log.arrived() > log+20 && w.queue.arrived() > queue+20 })
	}
	more("the start")
	faults, begun := 0, time.Now()
	for range rounds(t, 1, 1) {
		troubles := w.troubles()
		rand.Shuffle(len(troubles), func(i, j int) { troubles[i], troubles[j] = troubles[j], troubles[i] })
		for _, trouble := range troubles[:size(t, 5, len(troubles))] {
			end := trouble.begin()
			pause(t.Context(), troubleTime)
			end()
			more(trouble.name)
			faults++
		}
	}
	lasted := time.Since(begun)
	writers.stop()
	stop()
	rows, items := w.database.rows(), w.count("true")
	until(t, "everything arrived", func() bool { return w.log.arrived() >= len(rows) && w.queue.arrived() >= items })
	if report := check.Compare(rows, w.log.all()...); !report.Clean() {
		t.Errorf("the log table: %v", report)
	}
	w.compare(&api{receiver: w.queue})

	alarms, wrong := w.alarms(), 0
	for _, a := range alarms {
		if !w.real(a) {
			wrong++
			t.Errorf("a false alarm: %+v", a)
		}
	}
	t.Logf("%d faults in %v, %d rows and %d items, the longest of the rows waited %v with a limit of %v: %d alarms, %d of them false",
		faults, lasted.Round(time.Second), len(rows), items, w.longest().Round(time.Millisecond), limit, len(alarms), wrong)

	until(t, "all is settled", func() bool {
		return one[bool](w.database, strings.Replace(settledEverything, "FROM outrider_cursor c", "FROM (SELECT * FROM outrider_cursor WHERE route = 'orders') c", 1), lanes)
	})
	// A lane that changes hands meanwhile is delivered again from there, and settled: then it is put back once more.
	before := len(w.alarms())
	until(t, "the watchdog looked", func() bool {
		w.exec(`UPDATE outrider_cursor SET position = 0 WHERE route = 'orders' AND position > 0`)
		return len(w.alarms()) > before
	})
	for _, r := range w.relays {
		r.kill()
	}
}

// Each cause has its alarm, which ends with the cause.
func TestG13_TheWatchdogNamesEachCause(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	db := newDatabase(t)
	db.migrate()
	var slow atomic.Bool
	to := receive(t, func(r *http.Request, _ []payload) int {
		if slow.Load() {
			pause(r.Context(), 100*time.Millisecond)
		}
		return http.StatusOK
	})
	r := start(t, settings{database: db.url, top: []string{`admin: {listen: "127.0.0.1:0"}`, "lease: 1m", "settle_interval: 20ms", "watchdog: 1s"}, window: 4,
		destination: toHTTP(to.url())}.text())
	base := r.admin()
	overdue := func() (causes []string) { // those that have rows
		text, err := getAs(t, base+"/metrics", "")
		must(t, err)
		for _, m := range regexp.MustCompile(`outrider_overdue_rows{cause="(\w+)".*} [1-9]`).FindAllStringSubmatch(text, -1) {
			causes = append(causes, m[1])
		}
		return causes
	}
	alarm := func(cause string) {
		t.Helper()
		r.until("the alarm "+cause, func() bool { return slices.Equal(overdue(), []string{cause}) })
	}
	calm := func() {
		t.Helper()
		r.until("nothing is overdue", func() bool { return len(overdue()) == 0 })
	}
	db.fill(batch{n: 100, groups: 40})
	calm()

	to.down()
	db.fill(batch{n: 100, groups: 40})
	alarm("address_unavailable")
	to.up()
	calm()

	slow.Store(true)
	db.fill(batch{n: 8000, groups: 40})
	alarm("behind")
	slow.Store(false)
	calm()

	// An instance that lives and takes nothing leaves lanes without an owner.
	ghost, err := pgxpool.New(t.Context(), db.url)
	must(t, err)
	defer ghost.Close()
	conn, err := ghost.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), `SELECT pg_advisory_lock(hashtextextended('outrider instance ' || 'public' || ' ' || 'ghost', 7710263))`)
	must(t, err)
	db.exec(`INSERT INTO outrider_instance (id, lease_until, routes) SELECT 'ghost', now() + interval '1 hour', routes FROM outrider_instance LIMIT 1`)
	r.until("lanes have no owner", func() bool { return one[bool](db, `SELECT count(owner) < $1 FROM outrider_cursor`, lanes) })
	db.fill(batch{n: 100, groups: 40})
	alarm("no_owner")
	db.exec(`DELETE FROM outrider_instance WHERE id = 'ghost'`)
	_, err = conn.Exec(t.Context(), `SELECT pg_advisory_unlock_all()`)
	must(t, err)
	calm()

	db.exec(`UPDATE outrider_cursor SET position = 0`)
	alarm("stuck")
	db.fill(batch{n: 100, groups: 40}) // each lane settles again
	calm()
	r.stop()
}
