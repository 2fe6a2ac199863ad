package faults_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// An outage scenario has more messages than the lanes have room for, so that it
// tests a backlog, too.
const (
	outageMessages = 6000
	outageGroups   = 120
)

// strict leaves no attempt to burn: one that is charged shows as a dead message.
const strict = "[poison, {retry: {attempts: 2, base: 50ms, max: 1s}}, timeout]"

// outage runs the relay through an outage of its only address: end is called
// when the outage has lasted for several probes, and returns what everything
// arrives at then.
func outage(t *testing.T, name string, s settings, end func() destination) {
	t.Helper()
	db := newDatabase(t)
	s.database, s.window = db.url, killWindow
	s.top = append(s.top, "log: {level: debug}")
	config := s.text()
	r := start(t, config)
	db.fill(batch{n: outageMessages, groups: outageGroups})
	r.says("address is down")
	watch := func(what string) {
		t.Helper()
		if n := db.parked("attempts > 0 OR status IN ('dead', 'held')"); n > 0 {
			t.Fatalf("%s %d messages have been charged or are dead", what, n)
		}
	}
	outlast(t, func() { watch("during the outage") })
	to := end()
	r.until("delivered everything", func() bool {
		watch("after the outage")
		return to.arrived() >= outageMessages
	})
	r.stop()
	watch("in the end")
	if n := db.parked("true"); n > 0 {
		t.Errorf("%d messages are still parked", n)
	}
	report := check.Compare(db.rows(), to.all()...)
	t.Logf("1 outage (%s), 0 attempts charged, 0 dead: %v", name, report)
	if !report.Clean() {
		t.Errorf("not clean: %v", report)
	}
}

func TestG10_MissingKafkaTopic(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	topic := topicName()
	outage(t, "a Kafka topic that is created later", settings{middleware: strict, destination: toKafka(brokers, topic)},
		func() destination {
			createTopic(t, brokers, topic)
			return consume(t, brokers, topic)
		})
}

func TestG10_ReceiverIsDown(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	to := receive(t, nil)
	to.down()
	outage(t, "connections refused", settings{middleware: strict, destination: toHTTP(to.url())},
		func() destination {
			to.up()
			return to
		})
}

// A receiver that fails everything looks like one that fails one message, until
// a second group has failed: the default stack must see the difference.
func TestG10_ReceiverFailsEverything(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"500": 500, "503": 503, "401": 401, "404": 404, "429": 429} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Postgres(t) // skips without a server
			var healthy atomic.Bool
			to := receive(t, func(*http.Request, []payload) int {
				if healthy.Load() {
					return http.StatusOK
				}
				return status
			})
			outage(t, "every answer is "+name, settings{destination: toHTTP(to.url())}, func() destination {
				healthy.Store(true)
				return to
			})
		})
	}
}
