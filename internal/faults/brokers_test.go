package faults_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// broker is a message broker of one test, which it may kill.
type broker struct {
	server interface {
		Kill()
		Start() // again, with what it had stored
	}
	network *testenv.Proxy // between the relays and the server
	section string         // of the configuration: the destination
	source  string         // of the configuration: what reads it
	content destination

	// progress counts what has arrived, with duplicates, where reading beside kills would change the order. nil: content does.
	progress func() int
}

// arrived counts what has arrived while the broker is killed.
func (b broker) arrived() int {
	if b.progress != nil {
		return b.progress()
	}
	return b.content.arrived()
}

// brokers start a server of each kind, with what a destination delivers to.
var brokers = map[string]func(t *testing.T) broker{"nats": natsBroker, "amqp": amqpBroker, "redis": redisBroker}

// Relays and the broker are killed in turn while eight writers commit, some of them late: what the broker holds at the end is all
// that was committed, in order for each group, and what was repeated fits into the windows.
func TestG1_G2_G3_BrokersAreKilledUnderLoad(t *testing.T) {
	for kind, begin := range brokers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testenv.Postgres(t) // skips without a server
			b := begin(t)
			f := newFleet(t, longLease, b.section)
			for range 3 {
				f.join()
			}
			w := write(t, f.pool, false)
			relays, servers := 0, 0
			for round := range rounds(t, testenv.Brief(2, 6), 50) {
				before := b.arrived()
				f.members[0].until("delivers under load", func() bool { return b.arrived() > before+50 })
				if round%2 == 0 {
					b.server.Kill()
					pause(t.Context(), rand.N(300*time.Millisecond))
					b.server.Start()
					servers++
					continue
				}
				r := f.any()
				f.remove(r)
				r.kill()
				relays++
				f.spread()
				f.join()
			}
			report := f.end(w, b.content)
			t.Logf("%s: %d kills of one of 3 relays, %d of the broker: %v", kind, relays, servers, report)
			// A relay that is killed repeats what it had in flight; so do all of them after the broker was killed.
			if bound := (relays + 3*servers) * killWindow * lanes; !report.Clean() || report.Duplicates > bound {
				t.Errorf("not clean, or more than %d duplicates: %v", bound, report)
			}
		})
	}
}

// A destination changes its broker by SIGHUP under load, from each kind to the next: together they hold all that was committed, and
// each group is in order across them.
func TestG1_G2_SwapBrokersUnderLoad(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	kafka := testenv.Kafka(t)
	topic, http := newTopic(t, kafka), receive(t, nil)
	route := []broker{{section: toKafka(kafka, topic), content: consume(t, kafka, topic)}}
	for _, kind := range []string{"nats", "amqp", "redis"} {
		route = append(route, brokers[kind](t))
	}
	route = append(route, broker{section: toHTTP(http.url()), content: http})

	db := newDatabase(t)
	config := func(i int) string {
		// A busy machine is no outage: what times out may come twice.
		section := strings.ReplaceAll(route[i].section, "timeout: 2s", "timeout: 1m")
		return settings{database: db.url, top: quick, destination: section, window: killWindow}.text()
	}
	w := write(t, db.pool, false)
	r := start(t, config(0))
	for i, b := range route {
		if i > 0 {
			r.configure(config(i))
			r.hangUp(`SIGHUP: reloaded`, i)
		}
		r.until("delivers to "+b.section, func() bool { return b.content.arrived() > 100 })
	}
	w.stop()
	rows := db.rows()
	r.until("delivered everything", func() bool {
		n := 0
		for _, b := range route {
			n += b.content.arrived()
		}
		return n >= len(rows)
	})
	r.stop()
	var all []check.Delivery // one broker's after the other's
	var parts []int
	for _, b := range route {
		part := slices.Concat(b.content.all()...)
		parts = append(parts, len(part))
		all = append(all, part...)
	}
	report := check.Compare(db.rows(), all)
	t.Logf("%d brokers, which hold %v: %v", len(route), parts, report)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want nothing lost, repeated or out of order: %v", report)
	}
}

// A broker that hangs in the middle, and one that answers slowly, lose nothing.
func TestG1_G2_BrokersHang(t *testing.T) {
	for kind, begin := range brokers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testenv.Postgres(t) // skips without a server
			b := begin(t)
			db := newDatabase(t)
			w := write(t, db.pool, false)
			config := settings{database: db.url, top: quick, destination: b.section, window: killWindow}.text()
			r := start(t, config)
			for range rounds(t, 2, 10) {
				before := b.content.arrived()
				r.until("delivers", func() bool { return b.content.arrived() > before+50 })
				release := b.network.Hang()
				pause(t.Context(), 3*time.Second) // longer than the destination's timeout
				release()
			}
			w.stop()
			r.stop()
			if report := finish(t, db, config, b.content); !report.Clean() {
				t.Errorf("not clean: %v", report)
			} else {
				t.Log(kind, report)
			}
		})
	}
}
