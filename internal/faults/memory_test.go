package faults_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// The bound of G7: the budget of 64 MiB for messages twice, because a payload
// is held as it was read and as it is sent, and 100 MiB for everything else.
const memoryBound = 2*64 + 100

// peakMiB is the most memory that the process has had resident so far.
func (r *relay) peakMiB() int {
	r.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	must(r.t, err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		r.t.Fatalf("no VmHWM in %s", text)
	}
	kb, err := strconv.Atoi(string(found[1]))
	must(r.t, err)
	return kb >> 10
}

// linuxOnly skips where the kernel does not tell a process's peak.
func linuxOnly(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
}

func TestG7_MemoryWithLargePayloads(t *testing.T) {
	t.Parallel()
	linuxOnly(t)
	const bytes = 1<<20 - 200
	messages := size(t, testenv.Brief(180, 300), 10_000)
	db := newDatabase(t)
	db.fill(batch{n: messages, groups: 300, bytes: bytes})
	// It takes its time, so that the relay holds as much as it may.
	arrived := receiveIDs(t, 20*time.Millisecond)
	r := start(t, settings{database: db.url, top: []string{"memory: 64MiB"}, destination: toHTTP(arrived.url())}.text())
	r.until("delivered everything", func() bool { return arrived.count() >= messages })
	peak := r.peakMiB()
	r.stop()
	t.Logf("%d messages of 1 MiB, memory: 64MiB: at most %d MiB resident, %d bound; duplicates %d",
		messages, peak, memoryBound, arrived.total()-messages)
	if peak > memoryBound || arrived.total() != messages {
		t.Errorf("%d MiB resident and %d deliveries, want at most %d and exactly %d", peak, arrived.total(), memoryBound, messages)
	}
}

func TestG7_MemoryWithADeepBacklog(t *testing.T) {
	t.Parallel()
	linuxOnly(t)
	messages := size(t, 120_000, 10_000_000)
	to := newCounted(t)
	db := newDatabase(t)
	db.fill(batch{n: messages, groups: 1000, bytes: 100})
	r := start(t, settings{database: db.url, destination: to.described}.text())
	to.expect(r, messages)
	bounded(t, r, fmt.Sprintf("backlog of %d messages", messages), to, messages)
}

// A transaction that commits behind everything that was read meanwhile.
func TestG7_MemoryWithALargeLateTransaction(t *testing.T) {
	t.Parallel()
	linuxOnly(t)
	late, others := size(t, 100_000, 1_000_000), 5_000
	to := newCounted(t)
	db := newDatabase(t)
	r := start(t, settings{database: db.url, destination: to.described}.text())
	db.inTx(func(tx pgx.Tx) {
		_, err := tx.Exec(t.Context(), fillSQL, late, 1000, "late", "", 100)
		must(t, err)
		db.fill(batch{n: others, groups: 100, bytes: 100})
		to.expect(r, others)
	})
	to.expect(r, others+late)
	bounded(t, r, fmt.Sprintf("%d rows of a transaction that commits late", late), to, others+late)
}

// bounded stops the relay and checks its memory, and that everything came once.
func bounded(t *testing.T, r *relay, scenario string, to *counted, messages int) {
	t.Helper()
	peak := r.peakMiB()
	r.stop()
	t.Logf("%s: at most %d MiB resident, %d bound; lost %d, duplicates %d", scenario, peak, memoryBound,
		max(messages-to.arrived(), 0), max(to.arrived()-messages, 0))
	if peak > memoryBound || to.arrived() != messages {
		t.Errorf("%d MiB resident and %d deliveries, want at most %d and exactly %d", peak, to.arrived(), memoryBound, messages)
	}
}

// Rows that are larger than the memory, among other rows of their groups: they are dead
// unread, with the reason, and everything else arrives.
func TestG7_ARowThatIsTooLargeIsNeverLoaded(t *testing.T) {
	t.Parallel()
	linuxOnly(t)
	payload, headers, name := size(t, 60_000_000, 400_000_000), size(t, 500_000, 3_500_000), 30_000_000
	db := newDatabase(t)
	to := receive(t, nil)
	db.fill(batch{n: 300, groups: 3})
	const into = `INSERT INTO outrider_outbox (id, type, message_group, payload, headers) VALUES `
	db.exec(into+`('large-payload', 't', 'g0', to_json(repeat('x', $1)), NULL)`, payload)
	db.exec(into+`('large-headers', 't', 'g1', '1',
		(SELECT ('{' || string_agg(format('"k%s": "v"', i), ', ') || '}')::json FROM generate_series(1, $1) AS i))`, headers)
	db.exec(into+`('large-name-' || repeat('x', $1), 't', 'g2', '1', NULL)`, name)
	db.fill(batch{n: 300, groups: 3})
	r := start(t, settings{database: db.url, destination: toHTTP(to.url())}.text())
	r.until("delivered the others", func() bool { return to.arrived() >= 600 })
	r.until("parked what is too large", func() bool { return db.parked("status = 'dead'") == 3 })
	list := r.outrider("parked", "list", "-o", "json")
	peak := r.peakMiB()
	r.stop()
	for _, want := range []string{"large-payload", "large-headers", "large-name-", "max_row"} {
		if !strings.Contains(list, want) {
			t.Errorf("`parked list` does not name %s:\n%s", want, list)
		}
	}
	rows := slices.DeleteFunc(db.rows(), func(r check.Row) bool { return strings.HasPrefix(r.ID, "large-") })
	report := check.Compare(rows, to.all()...)
	t.Logf("rows of %d MB of payload, %d headers and %d MB of id: at most %d MiB resident, %d bound; of the others: %v",
		payload/1_000_000, headers, name/1_000_000, peak, memoryBound, report)
	if peak > memoryBound || !report.Clean() || report.Duplicates > 0 {
		t.Errorf("%d MiB resident, want at most %d; of the others: %v", peak, memoryBound, report)
	}
}

// counted is a topic whose messages are only counted, by its offsets.
type counted struct {
	t         *testing.T
	admin     *kadm.Client
	topic     string
	described string
}

func newCounted(t *testing.T) *counted {
	t.Helper()
	brokers := testenv.Kafka(t)
	topic := newTopic(t, brokers)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	must(t, err)
	t.Cleanup(client.Close)
	return &counted{t, kadm.NewClient(client), topic, toKafka(brokers, topic)}
}

func (c *counted) arrived() (total int) {
	c.t.Helper()
	ends, err := c.admin.ListEndOffsets(c.t.Context(), c.topic)
	must(c.t, err)
	ends.Each(func(o kadm.ListedOffset) { total += int(o.Offset) })
	return total
}

// expect waits until so many have arrived, with patience for each part of them.
func (c *counted) expect(r *relay, messages int) {
	c.t.Helper()
	for n := min(20_000, messages); ; n = min(n+20_000, messages) {
		r.until(fmt.Sprintf("delivered %d messages", n), func() bool { return c.arrived() >= n })
		if n == messages {
			return
		}
	}
}

// ids is a receiver for large messages, one per request: it keeps their ids.
type ids struct{ *receiver }

// receiveIDs starts one that answers after a delay.
func receiveIDs(t *testing.T, delay time.Duration) ids {
	t.Helper()
	return ids{receiveWith(t, func(r *receiver, w http.ResponseWriter, req *http.Request) {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		pause(req.Context(), delay)
		r.take([]payload{{ID: req.Header.Get("Idempotency-Key")}})
	})}
}

func (i ids) count() int { return i.arrived() }

func (i ids) total() int { return len(i.all()[0]) }
