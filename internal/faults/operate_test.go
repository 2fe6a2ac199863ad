package faults_test

import (
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// outrider calls the program with the relay's configuration and returns what it
// printed.
func (r *relay) outrider(args ...string) string {
	r.t.Helper()
	out, err := exec.Command(program(r.t), append(args, "-c", r.config)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("outrider %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// pausing pauses and resumes a route of a running relay again and again, while
// it is under load. While the route is paused nothing may arrive.
func pausing(t *testing.T, times int, to destination, described string) {
	t.Helper()
	db := newDatabase(t)
	config := settings{database: db.url, top: quick, destination: described, window: killWindow}.text()
	w := write(t, db.pool, false)
	a, b := start(t, config), start(t, config)
	for range times {
		want := to.arrived() + 1 + rand.IntN(200)
		a.until("delivered more", func() bool { return to.arrived() >= want })
		if said := a.outrider("pause", "orders0", "--reason", "a test"); !strings.Contains(said, "nothing in flight") {
			t.Errorf("pause says %q", said)
		}
		rests := deliveries(to) // of a topic, all that is in it by now
		if said := a.outrider("status"); !strings.Contains(said, "route orders0 has been paused") || !strings.Contains(said, "a test") {
			t.Errorf("status of a paused route:\n%s", said)
		}
		if n := deliveries(to); n != rests {
			t.Errorf("%d messages arrived while the route was paused", n-rests)
		}
		a.outrider("resume", "orders0")
	}
	w.stop()
	rows := db.rows()
	defer func() {
		if t.Failed() {
			t.Logf("of %d rows %d have arrived\n%s", len(rows), to.arrived(), a.outrider("status", "--lanes"))
		}
	}()
	a.until("delivered everything", func() bool { return to.arrived() >= len(rows) })
	a.stop()
	b.stop()
	report := check.Compare(rows, to.all()...)
	t.Logf("%d pauses with two instances: %v", times, report)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want nothing lost, repeated or out of order: %v", report)
	}
}

// deliveries counts what has arrived, duplicates included.
func deliveries(to destination) int {
	n := 0
	for _, stream := range to.all() {
		n += len(stream)
	}
	return n
}

func TestG3_PauseAndResumeUnderLoadKafka(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	topic := newTopic(t, brokers)
	pausing(t, 6, consume(t, brokers, topic), toKafka(brokers, topic))
}

func TestG3_PauseAndResumeUnderLoadHTTP(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	r := receive(t, slowly(3*time.Millisecond))
	pausing(t, 6, r, toHTTP(r.url()))
}

// moved is the JSON output of seek and rebase.
type moved struct {
	Again   int  `json:"again"`
	Skipped int  `json:"skipped"`
	Applied bool `json:"applied"`
}

func (r *relay) move(args ...string) (m moved) {
	r.t.Helper()
	out := r.outrider(append(args, "--yes", "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &m); err != nil || !m.Applied {
		r.t.Fatalf("outrider %v: %v\n%s", args, err, out)
	}
	return m
}

// What a seek says comes again does come again, all of it and in order, and a
// seek to the end skips what it says; the relay is not stopped for either.
func TestG1_SeekWhileTheRelayRuns(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	to := receive(t, nil)
	const n = 3000
	db.fill(batch{n: n, groups: 40})
	r := start(t, settings{database: db.url, top: quick, destination: toHTTP(to.url())}.text())
	settled := func() bool { return to.arrived() >= n && one[bool](db, settledEverything, lanes) }
	r.until("delivered and settled everything", settled)
	if m := r.move("seek", "orders0", "--to", "beginning"); m.Again != n || m.Skipped != 0 {
		t.Errorf("a seek to the beginning says %+v, want %d again", m, n)
	}
	r.until("delivered everything again", func() bool { return deliveries(to) >= 2*n })
	r.until("settled it", settled)
	if m := r.move("seek", "orders0", "--to", strconv.Itoa(n-99)); m.Again != 100 {
		t.Errorf("a seek to position %d says %+v, want 100 again", n-99, m)
	}
	r.until("delivered the last 100 again", func() bool { return deliveries(to) >= 2*n+100 })
	r.until("settled it", settled)

	r.outrider("pause", "orders0")
	db.fill(batch{n: 500, groups: 40, prefix: "skipped"})
	if m := r.move("seek", "orders0", "--to", "end"); m.Skipped != 500 || m.Again != 0 {
		t.Errorf("a seek to the end says %+v, want 500 skipped", m)
	}
	r.outrider("resume", "orders0")
	db.fill(batch{n: 50, groups: 5, prefix: "after"})
	r.until("delivered what came after", func() bool { return deliveries(to) >= 2*n+150 })
	r.stop()
	got := deliveries(to)
	if got != 2*n+150 {
		t.Errorf("%d arrived, want %d", got, 2*n+150)
	}
	deliveries := to.all()
	report := check.Compare(db.rows(), deliveries...)
	if report.OutOfOrder > 0 || report.Lost != 500 {
		t.Errorf("want the 500 that were skipped and no others to be missing: %v", report)
	}
	if audit := one[int](db, "SELECT count(*) FROM outrider_audit WHERE action = 'seek'"); audit != 3 {
		t.Errorf("%d audit records of three seeks", audit)
	}
}

// A table whose rows carry the transaction ids of another cluster, and a cursor
// from there: the route stops, other routes continue, a rebase mends it while the
// relay runs. Nothing is lost; what the old cursor covered does not come again,
// not even when this cluster comes to the transaction ids of the old one.
func TestG1_RebaseAfterARestore(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	to := receive(t, nil)
	const n = 1000
	db.fill(batch{n: n, groups: 40})
	config := settings{database: db.url, top: quick, destination: toHTTP(to.url()), routes: 1}.text()
	r := start(t, config)
	settled := func() bool { return one[bool](db, settledEverything, lanes) }
	r.until("delivered and settled everything", func() bool { return to.arrived() >= n && settled() })
	r.stop()
	// What a dump that is restored elsewhere leaves: foreign transaction ids in
	// rows and cursors, just ahead of this cluster's own.
	db.exec(`UPDATE outrider_outbox SET xid = (xid::text::bigint + 2000)::text::xid8`)
	db.exec(`UPDATE outrider_cursor SET cluster = 'postgresql/1', updated_at = updated_at + interval '1 minute',
		snapshot = (SELECT (max(xid::text::bigint) + 1)::text || ':' || (max(xid::text::bigint) + 1)::text || ':' FROM outrider_outbox)`)
	db.fill(batch{n: 300, groups: 40, prefix: "restored"})

	r = start(t, config)
	var said string
	until(t, "the route is stopped", func() bool { said = r.output(); return strings.Contains(said, "outrider rebase orders0") })
	_ = r.wait() // no route can run: the process ends, saying why
	m := r.move("rebase", "orders0")
	if m.Skipped != 0 || m.Again > n {
		t.Errorf("rebase says %+v", m)
	}
	r = start(t, config)
	r.until("delivered what was new", func() bool { return to.arrived() >= n+300 })
	// This cluster comes to the old one's transaction ids.
	for range 30 {
		db.exec(`DO $$ BEGIN FOR i IN 1..100 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$`)
	}
	db.fill(batch{n: 100, groups: 10, prefix: "later"})
	r.until("delivered what came later", func() bool { return to.arrived() >= n+400 })
	r.until("settled it", settled)
	r.stop()
	report := check.Compare(db.rows(), to.all()...)
	t.Logf("rebase: %d were announced to come again; %v", m.Again, report)
	if !report.Clean() || report.Duplicates > m.Again {
		t.Errorf("want nothing lost or out of order, and at most %d repeated: %v", m.Again, report)
	}
}
