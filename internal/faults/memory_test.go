package faults_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

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
	const messages, bytes = 600, 1<<20 - 200
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
	const messages = 500_000
	brokers := testenv.Kafka(t)
	topic := newTopic(t, brokers)
	db := newDatabase(t)
	db.fill(batch{n: messages, groups: 1000, bytes: 100})
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	must(t, err)
	defer client.Close()
	arrived := func() (total int64) {
		ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
		must(t, err)
		ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
		return total
	}
	r := start(t, settings{database: db.url, destination: toKafka(brokers, topic)}.text())
	r.until("delivered everything", func() bool { return arrived() >= messages })
	peak := r.peakMiB()
	r.stop()
	t.Logf("backlog of %d messages: at most %d MiB resident, %d bound; duplicates %d",
		messages, peak, memoryBound, arrived()-messages)
	if peak > memoryBound || arrived() != messages {
		t.Errorf("%d MiB resident and %d deliveries, want at most %d and exactly %d", peak, arrived(), memoryBound, messages)
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
