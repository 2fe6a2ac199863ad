package router

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
)

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// count counts the lines that have a text.
func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), text)
}

func (j *journal) all() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// extendedQueue counts the rows that claims have answered, and the extensions that failed.
type extendedQueue struct {
	*queuetable.Queue
	claimed, failed atomic.Int64
}

func (q *extendedQueue) Claim(ctx context.Context, req adapters.ClaimRequest) ([]*adapters.Row, error) {
	rows, err := q.Queue.Claim(ctx, req)
	q.claimed.Add(int64(len(rows)))
	return rows, err
}

func (q *extendedQueue) Extend(ctx context.Context, claims []*adapters.Claim) ([]*adapters.Claim, error) {
	lost, err := q.Queue.Extend(ctx, claims)
	if err != nil {
		q.failed.Add(1)
	}
	return lost, err
}

// The database refuses connections for some seconds while rows are being delivered,
// so that several extensions of their claims fail in a row. The claims stay: all
// is settled as soon as it is delivered, what waits behind is claimed, nothing comes twice,
// and the log does not say that somebody else had the rows.
func TestG3_G13_RefusedConnectionsLoseNoClaims(t *testing.T) {
	t.Parallel()
	f := newFlowcatalyst(t)
	w, through := newWire(t, f.url, 0)
	log := &journal{}
	f.through, f.timeout, f.log = through, 4*time.Second, slog.NewTextHandler(log, nil)
	release := make(chan struct{})
	f.dest.setFail(func(string, *message.Message) error { <-release; return nil })
	var queue *extendedQueue
	f.alter = func(r *Route) {
		queue = &extendedQueue{Queue: r.Queue.(*queuetable.Queue)}
		r.Queue, r.Claims.PerGroup = queue, 5
	}
	const rows, groups = 40, 4 // of which 20 are claimed at first
	f.insert("outbox_events", "e", groups, 0, rows)
	stop := f.startWith(postgres.WakePoll, Poll{Batch: 500, Min: time.Millisecond, Max: 50 * time.Millisecond})
	// That the table has claims is not enough: whoever has no answer extends nothing.
	until(t, "the relay has its claims", func() bool { return queue.claimed.Load() == groups*5 })
	w.refusing.Store(true)
	w.cut()
	until(t, "three extensions have failed", func() bool { return queue.failed.Load() >= 3 })
	w.refusing.Store(false)
	f.exec("CREATE TEMPORARY TABLE back AS SELECT localtimestamp AS at")
	f.await("status = 'PROCESSING' AND processed_at > (SELECT at FROM back)", groups*5)
	close(release)
	f.await("status = 'COMPLETED'", rows)
	stop()
	f.checkOrdered(rows)
	for _, blame := range []string{"somebody", "no longer claimed"} {
		if n := log.count(blame); n > 0 {
			t.Errorf("the log says %d times that rows were %q", n, blame)
		}
	}
}
