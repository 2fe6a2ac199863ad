package faults_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// shared is the configuration of instances that share FlowCatalyst's tables, with
// what a test adds to the destination.
func (c *catalyst) shared(to, source, destination string) string {
	text := c.config(to, source+", leader: false")
	return strings.Replace(text, "token: secret-token", "token: secret-token"+destination, 1)
}

// One of three instances that share a queue is killed again and again under load, or
// leaves and joins. What it had claimed is recovered after the timeout and delivered, in
// order; nothing stays behind.
func TestG1_G2_InstancesOfAQueueAreKilled(t *testing.T) {
	t.Parallel()
	c := newCatalyst(t)
	c.migrate()
	to := newAPI(t, nil)
	to.killed = true
	f := &fleet{database: c.database, config: c.shared(to.url(), stuckSoon, "")}
	for range 3 {
		f.join()
	}
	stop, longest := c.writeEvery(20*time.Millisecond), c.longestClaim()
	kills, recovery := f.replaceUnderLoad(3, 150, to.arrived), stopwatch{}
	stop()
	began := time.Now()
	total := c.count("true")
	f.members[0].until("settled everything", func() bool { return c.count("status = 'COMPLETED'") == total })
	recovery.since(began)
	for _, r := range f.members {
		r.stop()
	}
	if n := c.count("status <> 'COMPLETED' OR retry_count > 0 OR error_message IS NOT NULL"); n > 0 {
		t.Errorf("%d rows are not as if nothing had been: %s", n, c.statuses())
	}
	report := c.compare(to)
	tell(t, fmt.Sprintf("%d kills of one of 3 instances that share a queue, worst even spread %v, longest claim %v (timeout 2s, looked for each 1s)",
		kills, f.worst.Round(time.Millisecond), longest().Round(time.Millisecond)), report, recovery)
	if report.Committed != total {
		t.Errorf("want %d items: %v", total, report)
	}
}

// longestClaim measures how long rows stay marked as being processed, until stop is called.
func (c *catalyst) longestClaim() (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan time.Duration)
	go func() {
		longest := 0.0
		for ctx.Err() == nil {
			var age float64
			err := c.pool.QueryRow(ctx, `SELECT coalesce(extract(epoch FROM localtimestamp - min(processed_at)), 0)::float8 FROM `+both+
				` WHERE status = 'PROCESSING'`).Scan(&age)
			if err == nil {
				longest = max(longest, age)
			}
			pause(ctx, 100*time.Millisecond)
		}
		done <- time.Duration(longest * float64(time.Second))
	}()
	return func() time.Duration { cancel(); return <-done }
}

// Instances that share a queue join and leave under load: nothing is delivered twice, no
// group has two requests at once, and nothing waits for claims to end.
func TestG1_G2_G3_InstancesOfAQueueJoinAndLeave(t *testing.T) {
	t.Parallel()
	c := newCatalyst(t)
	c.migrate()
	to := newAPI(t, nil)
	f := &fleet{database: c.database, config: c.shared(to.url(), busy, "")}
	f.join()
	stop := c.writeEvery(20 * time.Millisecond)
	for range rounds(t, 2, 30) {
		f.joinAndLeave(to)
	}
	stop()
	total := c.count("true")
	f.members[0].until("settled everything", func() bool { return c.count("status = 'COMPLETED'") == total })
	for _, r := range f.members {
		r.stop()
	}
	if report := c.compare(to); report.Duplicates > 0 || report.Committed != total {
		t.Errorf("want %d items without duplicates: %v", total, report)
	}
}

// Three instances share the backlog of a queue with a receiver that takes its time: each has
// work. The times of one and of three are in the log.
func TestThreeInstancesShareAQueue(t *testing.T) {
	t.Parallel()
	c := newCatalyst(t)
	c.migrate()
	n := size(t, 600, 8000)
	var took []time.Duration
	for _, instances := range []int{1, 3} {
		f := &fleet{database: c.database}
		var receivers []*api
		for range instances {
			to := newAPI(t, func([]item) int { pause(t.Context(), 4*time.Millisecond); return 0 }) // and 1 ms that every request takes
			receivers = append(receivers, to)
			f.config = c.shared(to.url(), "poll: {min: 5ms, max: 50ms, batch: 2000}, claims: {in_memory: 2000}", ", max_requests: 4, batch: {max_messages: 1}")
			f.join()
		}
		arrived := func() (sum int) {
			for _, to := range receivers {
				sum += to.arrived()
			}
			return sum
		}
		c.backlog(fmt.Sprint("of", instances), n)
		began := time.Now()
		f.members[0].until("delivered most of the backlog", func() bool { return arrived() >= n*3/4 })
		took = append(took, time.Since(began)*4/3) // until then none has run dry
		f.members[0].until("delivered the backlog", func() bool { return arrived() >= n })
		for i, to := range receivers {
			if got := to.arrived(); got < n/instances/3 {
				t.Errorf("instance %d of %d delivered %d of %d", i+1, instances, got, n)
			}
		}
		if got := arrived(); got != n {
			t.Errorf("%d arrived, want each of %d once", got, n)
		}
		for _, r := range f.members {
			r.stop()
		}
	}
	t.Logf("a backlog of %d items, 5 ms each, by its first three quarters: one instance %v (%.0f/s), three %v (%.0f/s), %.2f times", n,
		took[0].Round(time.Millisecond), float64(n)/took[0].Seconds(), took[1].Round(time.Millisecond), float64(n)/took[1].Seconds(),
		took[0].Seconds()/took[1].Seconds())
}

// backlog publishes n events, one to each of so many groups.
func (c *catalyst) backlog(ref string, n int) {
	c.t.Helper()
	const groups = 2000 // with few of them lanes have unequal parts
	c.exec(fmt.Sprintf(`INSERT INTO outbox_events (id, type, message_group, payload, status, created_at)
		SELECT right('%[1]s' || lpad(i::text, 10, '0'), 13), 'EVENT', 'g' || i %% %[2]d,
			json_build_object('kind', '%[3]s', 'group', 'g' || i %% %[2]d, 'type', 'order.created', 'ref', '%[1]s-' || i), 'PENDING', localtimestamp + i * interval '1 microsecond'
		FROM generate_series(1, %[4]d) AS i`, ref, groups, outbox.FlowCatalystEvent, n))
}
