package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
)

// What one instance may have for each pair of a topic and a publisher, and for all of them.
const (
	crabletPairs      = 500
	crabletBusy       = 20 // pairs with events
	goroutinesPerPair = 4
	goroutinesBeside  = 200
	crabletConns      = 10
)

// pairsConfig is a configuration of so many pairs. Events of a topic have the tag topic=T.
func pairsConfig(database, receiver string, pairs int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `admin: {listen: 127.0.0.1:0}
sources: {events: {type: postgres, url: %q, layout: crablet}}
destinations: {there: {type: http, url: %q, batch: {whole: true}}}
routes:
`, database, receiver)
	for n := range pairs {
		fmt.Fprintf(&b, "  pair-%d: {from: events, to: there, match: {tags: {all: [topic=t%d]}}, progress: {topic: t%d, publisher: Http}}\n", n, n, n)
	}
	return b.String()
}

// timed is an event as it arrives: when it was appended, by the clock of this machine.
type timed struct {
	ID    string `json:"id"`
	Group string `json:"group"`
	At    int64  `json:"at"` // microseconds since 1970
}

// delays are the latencies of events.
type delays struct {
	mu   sync.Mutex
	list []time.Duration
}

// receiveTimed starts a receiver that keeps delays.
func receiveTimed(t *testing.T) (*receiver, *delays) {
	t.Helper()
	d := &delays{}
	return receiveWith(t, func(r *receiver, w http.ResponseWriter, req *http.Request) {
		var batch []timed
		if err := json.NewDecoder(req.Body).Decode(&batch); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		now, taken := time.Now().UnixMicro(), make([]payload, len(batch))
		d.mu.Lock()
		for i, e := range batch {
			taken[i] = payload{ID: e.ID, Group: e.Group}
			d.list = append(d.list, time.Duration(now-e.At)*time.Microsecond)
		}
		d.mu.Unlock()
		r.take(taken)
	}), d
}

// forget deletes all delays.
func (d *delays) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = nil
}

// String is the median and the slow ones.
func (d *delays) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.list) == 0 {
		return "nothing arrived"
	}
	slices.Sort(d.list)
	at := func(share float64) time.Duration {
		return d.list[int(share*float64(len(d.list)-1))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, p99.9 %v, max %v of %d", at(0.5), at(0.99), at(0.999), at(1), len(d.list))
}

// appendTimed appends an event of a topic every interval until n are there.
func (s eventStore) appendTimed(ctx context.Context, topic string, n int, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := s.pool.Exec(ctx, `INSERT INTO events (type, tags, data, transaction_id)
VALUES ('Moved', ARRAY['topic=' || $1::text], json_build_object('id', gen_random_uuid(), 'group', $1::text, 'at', (extract(epoch FROM clock_timestamp()) * 1e6)::bigint), pg_current_xact_id())`, topic); err != nil {
			return err
		}
	}
	return nil
}

// processor is the processor time of the process.
func (r *relay) processor() time.Duration {
	r.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
	must(r.t, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	must(r.t, err)
	system, err := strconv.Atoi(fields[12])
	must(r.t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// gauge is the value of a metric without labels.
func (r *relay) gauge(name string) int {
	r.t.Helper()
	text, err := getAs(r.t, r.admin()+"/metrics", "")
	must(r.t, err)
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		r.t.Fatalf("no %s in /metrics", name)
	}
	value, err := strconv.ParseFloat(found[1], 64)
	must(r.t, err)
	return int(value)
}

// relayConns counts the relay's connections to its database.
const relayConns = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'outrider%'`

// 500 pairs on one instance need four goroutines each, ten connections in all and no more memory than other routes, idle as well as with events
// of twenty of them.
func TestG7_G9_CrabletPairsOnOneInstance(t *testing.T) {
	t.Parallel()
	linuxOnly(t)
	s := newEventStore(t, crabletV1)
	to, delay := receiveTimed(t)
	program(t) // built before
	began := time.Now()
	config := pairsConfig(s.url, to.url(), crabletPairs)
	r := start(t, config)
	r.says("acquired all lanes")
	ready := time.Since(began)
	r.until("has a row for each pair", func() bool { return one[int](s.database, `SELECT count(*) FROM outbox_topic_progress`) == crabletPairs })

	pause(t.Context(), time.Duration(size(t, 1, 10))*time.Second)
	used, began := r.processor(), time.Now()
	pause(t.Context(), time.Duration(size(t, 2, 60))*time.Second)
	idle := float64(r.processor()-used) / float64(time.Since(began)) * 100
	idleMiB := r.gauge("process_resident_memory_bytes") >> 20
	r.bounded(s)

	each := size(t, 200, 6000)
	failed := make(chan error, crabletBusy)
	for n := range crabletBusy {
		go func() { failed <- s.appendTimed(t.Context(), fmt.Sprint("t", n), each, 10*time.Millisecond) }()
	}
	r.until("delivers", func() bool { return to.arrived() >= crabletBusy*each/2 })
	delay.forget() // the first ones waited for a poll after a calm
	used, began = r.processor(), time.Now()
	for range crabletBusy {
		must(t, <-failed)
	}
	r.until("delivered everything", func() bool { return to.arrived() >= crabletBusy*each })
	busy := float64(r.processor()-used) / float64(time.Since(began)) * 100
	r.bounded(s)
	last := one[int64](s.database, `SELECT max(position) FROM events`)
	r.until("has last_position of each pair at the end", func() bool {
		return one[bool](s.database, `SELECT bool_and(last_position = $1) FROM outbox_topic_progress`, last)
	})
	t.Logf("%d pairs on one instance: all taken %v after the start; idle %.1f%% of a processor and %d MiB; %d of them with 100 events/s each: %v, %.0f%% of a processor, at most %d MiB",
		crabletPairs, ready.Round(10*time.Millisecond), idle, idleMiB, crabletBusy, delay, busy, r.peakMiB())
	r.stop()
	began = time.Now()
	r = start(t, config)
	r.says("acquired all lanes")
	t.Logf("all taken again %v after a restart", time.Since(began).Round(10*time.Millisecond))
	r.stop()
	if got := len(to.all()[0]); got != crabletBusy*each {
		t.Errorf("%d deliveries, want %d", got, crabletBusy*each)
	}
}

// bounded checks what does not depend on how busy the machine is.
func (r *relay) bounded(s eventStore) {
	r.t.Helper()
	goroutines, conns, peak := r.gauge("go_goroutines"), one[int](s.database, relayConns), r.peakMiB()
	if most := crabletPairs*goroutinesPerPair + goroutinesBeside; goroutines > most || conns > crabletConns || peak > memoryBound {
		r.t.Errorf("%d goroutines, %d connections and %d MiB resident, want at most %d, %d and %d", goroutines, conns, peak, most, crabletConns, memoryBound)
	}
}

// Routes at the same position share a read of the source, and lanes are taken in one round trip: a start needs a few
// statements for each pair, not for each of its cursors.
func TestG9_StartOfManyCrabletPairs(t *testing.T) {
	t.Parallel()
	const pairs, perPair = 100, 10
	s := newEventStore(t, crabletV1)
	p, through := countStatements(t, s.url)
	to := receive(t, nil)
	config := pairsConfig(through, to.url(), pairs)
	r := start(t, config)
	r.says("acquired all lanes")
	must(t, s.appendTimed(t.Context(), "t1", 1, time.Millisecond))
	r.until("delivers", func() bool { return to.arrived() == 1 })
	r.stop()
	before := p.count()
	r = start(t, config)
	r.says("acquired all lanes")
	if got := p.count() - before; got > pairs*perPair {
		t.Errorf("%d statements for a start with %d pairs, want at most %d for each", got, pairs, perPair)
	}
	r.stop()
}

// A backlog comes in batches, all of it once and in global order.
func TestG1_G2_CrabletBacklogInGlobalOrder(t *testing.T) {
	t.Parallel()
	s := newEventStore(t, crabletV1)
	n := size(t, testenv.Brief(8_000, 20_000), 500_000)
	s.exec(`INSERT INTO events (type, tags, data, transaction_id)
SELECT 'Moved', ARRAY['topic=t0', 'wallet_id=' || i % 100], json_build_object('id', i::text, 'group', ''), pg_current_xact_id() FROM generate_series(1, $1::int) i ORDER BY i`, n)
	s.exec("ANALYZE events")
	to := receive(t, nil)
	program(t)
	began := time.Now()
	r := start(t, pairsConfig(s.url, to.url(), 1))
	r.until("delivered everything", func() bool { return to.arrived() >= n })
	took := time.Since(began)
	r.stop()
	got := to.all()[0]
	if len(got) != n {
		t.Fatalf("%d deliveries, want %d", len(got), n)
	}
	for i, d := range got {
		if d.ID != strconv.Itoa(i+1) {
			t.Fatalf("delivery %d is of event %s, want global order", i+1, d.ID)
		}
	}
	t.Logf("%d events of a pair, in batches and in global order: %.0f events/s with the start of the relay", n, float64(n)/took.Seconds())
}
