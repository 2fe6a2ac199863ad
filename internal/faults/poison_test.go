package faults_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// doomed reports whether the main receiver refuses a message: about one in sixteen.
func doomed(id string) bool { return strings.HasPrefix(id, "0") }

// poisoned runs the relay while its poison destination is away, kills it in the
// middle, and calls end, after which the poison destination works. Dead must
// return the ids that it has got.
func poisoned(t *testing.T, to string, end func(), dead func() []string) {
	t.Helper()
	db := newDatabase(t)
	var mu sync.Mutex
	refusals := map[string]int{}
	main := receive(t, func(_ *http.Request, batch []payload) int {
		if doomed(batch[0].ID) {
			mu.Lock()
			defer mu.Unlock()
			refusals[batch[0].ID]++
			return http.StatusUnprocessableEntity
		}
		return http.StatusOK
	})
	s := settings{database: db.url, window: killWindow, destination: toHTTP(main.url()) + ", batch: {max_messages: 1}",
		others: []string{"dead: {" + to + "}"}, middleware: "[{poison: {to: dead}}, retry, timeout]", top: []string{"lease: 2s"}}
	const n, groups = 1000, 100
	db.fill(batch{n: n, groups: groups})
	var living []check.Row
	var want []string
	for _, row := range db.rows() {
		if doomed(row.ID) {
			want = append(want, row.ID)
		} else {
			living = append(living, row)
		}
	}
	slices.Sort(want)

	r := start(t, s.text())
	r.says("poison destination fails")
	watch := func() {
		if n := db.parked("status IN ('dead', 'held')"); n > 0 {
			t.Fatalf("%d messages are dead, and the poison destination has got none", n)
		}
	}
	outlast(t, watch)
	r.kill()
	r = start(t, s.text())
	r.says("poison destination fails")
	outlast(t, watch)
	// Each dying message has its group wait: about as many as there are groups.
	mu.Lock()
	most := 0
	for _, n := range refusals {
		most = max(most, n)
	}
	mu.Unlock()
	if most > 2 { // the kill may cost one more
		t.Errorf("a message was attempted %d times at the main address while its poison destination was away", most)
	}
	end()
	r.until("everything has ended", func() bool {
		return main.arrived() >= len(living) && db.parked("status = 'dead'") >= len(want)
	})
	r.stop()
	if n := db.parked("status <> 'dead'"); n > 0 {
		t.Errorf("%d messages are still parked and not dead", n)
	}
	got := dead()
	unique := slices.Compact(slices.Sorted(slices.Values(got)))
	if !slices.Equal(unique, want) {
		t.Errorf("the poison destination got %d different messages, dead are %d", len(unique), len(want))
	}
	report := check.Compare(living, main.all()...)
	t.Logf("%d dead, at the poison destination %d times; the others: %v", len(want), len(got), report)
	if !report.Clean() {
		t.Errorf("not clean: %v", report)
	}
}

// A Kafka topic that is created while messages wait to be written to it.
func TestG1_PoisonToKafka(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	topic := topicName()
	poisoned(t, toKafka(brokers, topic), func() { createTopic(t, brokers, topic) }, func() []string {
		var ids []string
		for _, stream := range consume(t, brokers, topic).all() {
			for _, d := range stream {
				ids = append(ids, d.ID)
			}
		}
		checkMarks(t, brokers, topic)
		return ids
	})
}

// checkMarks reads a record and checks its headers about the failure.
func checkMarks(t *testing.T, brokers []string, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	defer client.Close()
	record := client.PollRecords(t.Context(), 1).Records()[0]
	meta := map[string]string{}
	for _, h := range record.Headers {
		meta[h.Key] = string(h.Value)
	}
	d, ok := outbox.DeathOf(meta)
	if !ok || d.Reason != outbox.DeathPermanent || d.Attempts != 1 || d.Route != "orders0" || d.At.IsZero() ||
		!strings.Contains(d.Error, "422") {
		t.Errorf("the record says %+v of its death", d)
	}
	if meta[outbox.MetaGroup] != string(record.Key) || meta[outbox.MetaPosition] == "" || meta[outbox.MetaLane] == "" {
		t.Errorf("the record says %v", meta)
	}
}

// An HTTP endpoint that refuses connections, and then answers 503 for a while.
func TestG1_PoisonToHTTP(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ids []string
	ill := 2
	grave := receiveWith(t, func(_ *receiver, w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var batch []payload
		if err := json.NewDecoder(req.Body).Decode(&batch); err != nil || len(batch) != 1 {
			t.Errorf("%d messages in a request to the poison destination, %v", len(batch), err)
			return
		}
		if ill--; ill >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		h := req.Header
		if h.Get("Outrider-Poison-Reason") != outbox.DeathPermanent || h.Get("Outrider-Poison-Attempts") != "1" ||
			h.Get("Outrider-Poison-Route") != "orders0" || !strings.Contains(h.Get("Outrider-Poison-Error"), "422") ||
			h.Get("Outrider-Poison-At") == "" || h.Get("Idempotency-Key") != batch[0].ID ||
			h.Get("Outrider-Group") != batch[0].Group || h.Get("Outrider-Position") == "" {
			t.Errorf("the request says %v of %v", h, batch[0])
		}
		ids = append(ids, batch[0].ID)
	})
	grave.down()
	poisoned(t, toHTTP(grave.url()), grave.up, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(ids)
	})
}
