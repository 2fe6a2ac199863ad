package faults_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// The lease of killed instances: the scenario does not wait until it expires.
const longLease = 5 * time.Minute

// shortLease is that of instances which are frozen: it has to run out.
const shortLease = 2 * time.Second

// fleet is several instances with one state store. It observes from outside which
// instance owns a lane, and whether a cursor ever moved back.
type fleet struct {
	*database
	config  string
	members []*relay
	worst   time.Duration // until the lanes were spread evenly again
	mysql   *mysqlState   // where the state is; nil: in the database
}

// newFleet watches the cursors: a stale owner that settled something would move
// one back, sooner or later. (A row is made with position 0, and the beginning of a topic is -1.)
func newFleet(t *testing.T, lease time.Duration, destination string) *fleet {
	t.Helper()
	db := newDatabase(t)
	db.migrate()
	db.exec(`CREATE TABLE moved_back AS SELECT now() AS at, c.* FROM outrider_cursor c`)
	db.exec(`CREATE FUNCTION move() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.moved_back SELECT now(), (OLD).*; RETURN NULL; END$$`)
	db.exec(`CREATE TRIGGER moved AFTER UPDATE OF position ON outrider_cursor FOR EACH ROW
		WHEN (NEW.position < OLD.position AND OLD.position > 0 AND NEW.window_snapshot = '' OR NEW.epoch < OLD.epoch) EXECUTE FUNCTION move()`)
	return &fleet{database: db, config: settings{
		database: db.url, top: []string{"settle_interval: 20ms", "lease: " + lease.String()},
		destination: destination, window: killWindow,
	}.text()}
}

// migrate makes the state tables, before there is an instance.
func (d *database) migrate() {
	d.t.Helper()
	state, err := statestore.New(d.t.Context(), statestore.Config{URL: d.url})
	must(d.t, err)
	must(d.t, state.Migrate(d.t.Context()))
	must(d.t, state.Close())
}

// replaceUnderLoad kills one instance after the other, each when so many more messages have arrived, and has another one join; every fifth is
// stopped instead. That happens n times, and in a soak until 51 were killed. It returns how many were.
func (f *fleet) replaceUnderLoad(n, more int, arrived func() int) (kills int) {
	f.t.Helper()
	for round := range rounds(f.t, n, 63) {
		before := arrived()
		f.members[0].until("delivers under load", func() bool { return arrived() > before+more })
		r := f.any()
		f.remove(r)
		if round%5 == 4 {
			r.stop()
		} else {
			r.kill()
			kills++
		}
		f.spread()
		f.join()
	}
	return kills
}

// join starts another instance and waits until it has its share.
func (f *fleet) join() {
	f.t.Helper()
	r := start(f.t, f.config)
	f.members = append(f.members, r)
	r.admit(f)
	f.spread()
}

// admit waits until the instance has announced itself.
func (r *relay) admit(f *fleet) {
	r.t.Helper()
	name := r.instance()
	r.until("has joined", func() bool {
		if f.mysql != nil {
			return f.mysql.joined(name)
		}
		return one[int](f.database, "SELECT count(*) FROM outrider_instance WHERE id = $1 AND routes <> '[]'", name) == 1
	})
}

var instanceName = regexp.MustCompile(`instance=(\S+)`)

// instance is the name of the process among the instances.
func (r *relay) instance() (name string) {
	r.t.Helper()
	r.until("says its name", func() bool {
		if found := instanceName.FindStringSubmatch(r.output()); found != nil {
			name = found[1]
		}
		return name != ""
	})
	return name
}

// remove takes an instance out of the fleet, without doing anything to it.
func (f *fleet) remove(r *relay) {
	f.members = slices.DeleteFunc(f.members, func(x *relay) bool { return x == r })
}

// spread waits until the members own all lanes, evenly to within one.
func (f *fleet) spread() {
	f.t.Helper()
	began := time.Now()
	names := make([]string, len(f.members))
	for i, r := range f.members {
		names[i] = r.instance()
	}
	until(f.t, fmt.Sprintf("the lanes are spread evenly over %d instances", len(names)), func() bool {
		if f.mysql != nil {
			return f.mysql.even(names)
		}
		return one[bool](f.database, `SELECT coalesce(sum(n), 0) = $2 AND max(n) - min(n) <= 1 FROM (
			SELECT count(c.slot) AS n FROM unnest($1::text[]) AS m(id) LEFT JOIN outrider_cursor c ON c.owner = m.id GROUP BY m.id) s`,
			names, lanes)
	})
	f.worst = max(f.worst, time.Since(began))
}

// joinAndLeave has two instances join, and two of all leave under load, one by one.
func (f *fleet) joinAndLeave(to destination) {
	f.t.Helper()
	f.join()
	f.join()
	for range 2 {
		before := to.arrived()
		f.members[0].until("delivers under load", func() bool { return to.arrived() > before+100 })
		r := f.any()
		f.remove(r)
		r.stop()
		f.spread()
	}
}

// any is some member.
func (f *fleet) any() *relay { return f.members[rand.IntN(len(f.members))] }

// end lets the fleet deliver everything, stops it and compares.
func (f *fleet) end(w *writers, to destination) check.Report {
	f.t.Helper()
	w.stop()
	rows := len(f.rows())
	f.members[0].until("delivered everything", func() bool { return to.arrived() >= rows })
	for _, r := range f.members {
		r.stop()
	}
	var n int
	if f.mysql != nil {
		n = f.mysql.movedBack()
	} else {
		n = one[int](f.database, "SELECT count(*) FROM moved_back")
	}
	if n > 0 {
		f.t.Errorf("cursors moved back %d times: somebody settled who was no owner", n)
	}
	return check.Compare(f.rows(), to.all()...)
}

// Instances join and leave under load: each time the lanes are spread evenly
// again, and nothing is delivered twice.
func TestG1_G2_G3_InstancesJoinAndLeave(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	to := receive(t, slowly(5*time.Millisecond))
	f := newFleet(t, longLease, toHTTP(to.url()))
	f.join()
	w := write(t, f.pool, false)
	faults := 0
	for range rounds(t, 2, 100) {
		f.joinAndLeave(to)
		faults += 4
	}
	report := f.end(w, to)
	t.Logf("%d instances joined or left: %v, worst time to an even spread %v", faults, report, f.worst.Round(time.Millisecond))
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want nothing lost, repeated or out of order: %v", report)
	}
}

// One of three instances is killed again and again. Its lanes move long before
// its lease is over, because its connection drops.
func TestG1_G2_G3_TakeoverWithoutWaitingForTheLease(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	topic := newTopic(t, brokers)
	to := consume(t, brokers, topic)
	f := newFleet(t, longLease, toKafka(brokers, topic))
	for range 3 {
		f.join()
	}
	w := write(t, f.pool, false)
	kills := 0
	f.worst = 0
	for range rounds(t, testenv.Brief(2, 4), 200) {
		before := to.arrived()
		f.members[0].until("delivers under load", func() bool { return to.arrived() > before+200 })
		r := f.any()
		f.remove(r)
		r.kill()
		f.spread()
		kills++
		worst := f.worst
		f.join()
		f.worst = worst // of takeovers alone
	}
	report := f.end(w, to)
	t.Logf("%d kills of one of 3 instances, lease %v: %v, worst takeover %v", kills, longLease, report, f.worst.Round(time.Millisecond))
	if !report.Clean() || report.Duplicates > kills*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
	if f.worst > longLease/2 {
		t.Errorf("a takeover took %v: somebody waited for the lease", f.worst)
	}
}

// One of three instances is frozen for longer than its lease, and then continues.
// What it was sending may arrive once more; it settles nothing of lanes that
// others have, and gets its share again.
func TestG1_G2_G3_AFrozenInstanceWakesUp(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	to := receive(t, slowly(5*time.Millisecond))
	f := newFleet(t, shortLease, toHTTP(to.url()))
	for range 3 {
		f.join()
	}
	w := write(t, f.pool, false)
	freezes, repeated := 0, 0
	f.worst = 0
	for range rounds(t, 3, 200) {
		before := to.arrived()
		f.members[0].until("delivers under load", func() bool { return to.arrived() > before+100 })
		r := f.any()
		f.remove(r)
		must(t, r.cmd.Process.Signal(syscall.SIGSTOP))
		f.spread() // over the two that are awake
		before = to.arrived()
		f.members[0].until("delivers in its place", func() bool { return to.arrived() > before+100 })
		twice := to.repeated()
		must(t, r.cmd.Process.Signal(syscall.SIGCONT))
		worst := f.worst
		f.members = append(f.members, r)
		f.spread()
		f.worst = worst
		freezes++
		repeated += to.repeated() - twice
	}
	report := f.end(w, to)
	t.Logf("%d instances frozen for longer than their lease of %v: %v, %d of the duplicates after they woke up, worst takeover %v",
		freezes, shortLease, report, repeated, f.worst.Round(time.Millisecond))
	if !report.Clean() || report.Duplicates > freezes*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
}

// One of three instances is removed while it delivers, again and again. Others take its lanes, it joins again and gets its
// share; what it had in flight may arrive once more.
func TestG1_G2_G3_AnInstanceIsRemovedWhileItDelivers(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	to := receive(t, slowly(5*time.Millisecond))
	f := newFleet(t, longLease, toHTTP(to.url()))
	for range 3 {
		f.join()
	}
	w := write(t, f.pool, false)
	removals := 0
	for range rounds(t, testenv.Brief(3, 10), 200) {
		before := to.arrived()
		f.members[0].until("delivers under load", func() bool { return to.arrived() > before+100 })
		r := f.any()
		epochs := one[int64](f.database, "SELECT sum(epoch) FROM outrider_cursor")
		if said := command(t, "instance", "remove", r.instance(), "--yes", "-c", r.config); !strings.Contains(said, "removed") {
			t.Fatal(said)
		}
		f.members[0].until("has lanes again, or others have", func() bool { return one[int64](f.database, "SELECT sum(epoch) FROM outrider_cursor") > epochs })
		r.admit(f)
		f.spread()
		removals++
	}
	report := f.end(w, to)
	t.Logf("%d removals of one of 3 instances: %v, worst time to an even spread %v", removals, report, f.worst.Round(time.Millisecond))
	if !report.Clean() || report.Duplicates > removals*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
}

// repeated is how many arrivals were not the first of their message.
func (r *receiver) repeated() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.taken) - len(r.distinct)
}

// Three instances share one hot route with a receiver that takes its time: each
// of them has work.
func TestThreeInstancesShareAHotRoute(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	f := newFleet(t, longLease, "type: discard")
	var receivers []*receiver
	for range 3 {
		to := receive(t, slowly(5*time.Millisecond))
		receivers = append(receivers, to)
		f.config = settings{database: f.url, top: []string{"lease: " + longLease.String()}, destination: toHTTP(to.url())}.text()
		f.join()
	}
	shown := command(t, "status", "-c", f.members[0].config)
	for _, r := range f.members {
		if n := strings.Count(shown, r.instance()); n != 2 { // with its lanes, and with its heartbeat
			t.Errorf("status shows instance %s %d times:\n%s", r.instance(), n, shown)
		}
	}
	const backlog = 6000
	f.fill(batch{n: backlog, groups: 200})
	total := func() (n int) {
		for _, to := range receivers {
			n += to.arrived()
		}
		return n
	}
	f.members[0].until("delivered everything", func() bool { return total() >= backlog })
	for i, to := range receivers {
		if n := to.arrived(); n < backlog/6 {
			t.Errorf("instance %d delivered %d of %d", i, n, backlog)
		}
	}
	if n := total(); n != backlog {
		t.Errorf("%d arrived, want each of %d once", n, backlog)
	}
	for _, r := range f.members {
		r.stop()
	}
}
