package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// commanded is a pair that gets commands by SQL and by an operator in another process than the relay.
type commanded struct {
	*crablet
	op *operate.Operator
}

// ofKafka is the route of the pair.
const ofKafka = "kafkapublisher"

func newCommanded(t *testing.T) *commanded {
	t.Helper()
	c := newCrablet(t, "KafkaPublisher", "Webhook")
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, "sources:\n  events: {type: postgres, url: %q, layout: %s}\n%s", c.url, c.layout, c.cfg))
	must(t, err)
	op, err := operate.NewOperator(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	t.Cleanup(func() { must(t, op.Close()) })
	return &commanded{c, op}
}

func (c *commanded) pause() {
	c.Helper()
	changed, err := c.op.Pause(c.Context(), adapters.Pause{Route: ofKafka, By: "test"})
	must(c.T, err)
	if !changed {
		c.Error("the route is said to be paused already")
	}
}

func (c *commanded) resume() {
	c.Helper()
	changed, err := c.op.Resume(c.Context(), adapters.Pause{Route: ofKafka, By: "test"})
	must(c.T, err)
	if !changed {
		c.Error("the route is said not to be paused")
	}
}

func (c *commanded) seek(to operate.Target) {
	c.Helper()
	plan, err := c.op.PlanSeek(c.Context(), ofKafka, to)
	must(c.T, err)
	must(c.T, c.op.Relocate(c.Context(), plan, "test"))
}

// pauses returns the number of pauses of a route.
func (c *commanded) pauses(route string) (n int) {
	c.Helper()
	must(c.T, c.pool.QueryRow(c.Context(), "SELECT count(*) FROM outrider_pause WHERE route = $1", route).Scan(&n))
	return n
}

// followed waits until a relay has carried out what is in the rows now: it does so with what is written into another row after that. It
// carries out the rows that it has read in any order, so the second time it has ended what it read the first time.
func (c *commanded) followed() {
	c.Helper()
	for range 2 {
		n := 1 - c.pauses("webhook")
		c.exec(`UPDATE `+c.progressTable+` SET status = $1 WHERE publisher = 'Webhook'`, []string{"ACTIVE", "PAUSED"}[n])
		eventually(c.T, "a relay follows the rows", func() bool { return c.pauses("webhook") == n })
	}
}

// A pair gets commands by SQL on its row, which relays read twice a second, and as commands of Outrider. The later one counts, also when no relay
// has read the row between them.
func TestG8_OfTwoCommandsToACrabletPairTheLaterCounts(t *testing.T) {
	t.Parallel()
	c := newCommanded(t)
	last := c.add(1)
	defer c.run("one")()
	c.reaches("KafkaPublisher", last)
	c.reaches("Webhook", last)
	sql := func(status string) func() { return func() { c.set("status = '" + status + "'") } }
	for _, tt := range []struct {
		what          string
		former, later func()
		paused        int
	}{
		{"pause, then SQL resumes", c.pause, sql("ACTIVE"), 0},
		{"SQL pauses, then resume", sql("PAUSED"), c.resume, 0},
		{"SQL fails it, then resume", sql("FAILED"), c.resume, 0},
		{"SQL pauses and resumes, then pause", func() { sql("PAUSED")(); c.followed(); sql("ACTIVE")() }, c.pause, 1},
		{"resume, then SQL pauses", c.resume, sql("PAUSED"), 1},
	} {
		tt.former()
		tt.later()
		c.followed()
		if n, p := c.pauses(ofKafka), c.progress("KafkaPublisher"); n != tt.paused || p.Status != []string{"ACTIVE", "PAUSED"}[n] {
			t.Errorf("%s: %d pauses, and the row is %s", tt.what, n, p.Status)
		}
	}
}

// The same with positions, while no relay runs: what comes first is carried out all the same.
func TestG1_OfTwoMovesOfACrabletPairTheLaterCounts(t *testing.T) {
	t.Parallel()
	c := newCommanded(t)
	kafka, last := c.in["KafkaPublisher"], c.add(40)
	stop := c.run("one")
	c.reaches("KafkaPublisher", last)
	stop()
	for _, tt := range []struct {
		what string
		move func()
		from int64
	}{
		{"SQL, then a seek to the end", func() {
			c.set("last_position = 20")
			c.seek(operate.Target{Start: adapters.Start{Kind: adapters.StartEnd}})
		}, 41},
		{"a seek, then SQL", func() { c.seek(operate.Target{Position: 11}); c.set("last_position = 35") }, 36},
		{"a seek, then SQL to where it was before", func() { c.seek(operate.Target{Position: 11}); c.set(fmt.Sprint("last_position = ", last)) }, 43},
	} {
		n := len(kafka.all())
		tt.move()
		last = c.add(1)
		stop = c.run(tt.what)
		c.reaches("KafkaPublisher", last)
		stop()
		if got := kafka.all()[n:]; !slices.Equal(got, c.ids(tt.from, last)) {
			t.Errorf("%s: it got %v, want what is from %d on", tt.what, got, tt.from)
		}
	}
}

// A pair that is forgotten starts again as its key start says, and also delivers events that committed late. The row of a route that is not
// configured stays, for Crablet.
func TestG1_AForgottenCrabletPairBeginsAnew(t *testing.T) {
	t.Parallel()
	c := newCommanded(t)
	c.add(3)
	late, err := c.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = late.Rollback(context.WithoutCancel(t.Context())) }() // nothing after the commit
	var position int64
	must(t, late.QueryRow(t.Context(), c.append, []string{"wallet_id=1"}, `{"late":true}`).Scan(&position))
	last := c.add(4)
	stop := c.run("one")
	c.reaches("KafkaPublisher", last)
	stop()
	must(t, late.Commit(t.Context()))
	c.pause()
	_, err = c.op.Forget(t.Context(), ofKafka, true, "test")
	must(t, err)
	defer c.run("two")()
	c.reaches("KafkaPublisher", last)
	if got := c.in["KafkaPublisher"].all()[7:]; !slices.Equal(got, c.ids(1, last)) {
		t.Errorf("it began again with %v, want all events, with the late one", got)
	}
}

// A session that has locked the row keeps the relay from writing the row, not from starting at its position.
func TestG1_ALockedCrabletRowIsFollowedAtTheStart(t *testing.T) {
	t.Parallel()
	c := newCrablet(t, "KafkaPublisher")
	c.add(5)
	stop := c.run("one")
	c.reaches("KafkaPublisher", 5)
	stop()
	c.add(5)
	c.set("last_position = 7")
	lock, err := c.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }() // nothing after the first one
	_, err = lock.Exec(t.Context(), "SELECT FROM "+c.progressTable+" FOR UPDATE")
	must(t, err)
	defer c.run("two")()
	eventually(t, "it goes on beside the lock", func() bool { return slices.Contains(c.in["KafkaPublisher"].all(), "events:10") })
	must(t, lock.Rollback(t.Context()))
	c.reaches("KafkaPublisher", 10)
	if got := c.in["KafkaPublisher"].all()[5:]; !slices.Equal(got, c.ids(8, 10)) {
		t.Errorf("it got %v, want what is behind the position of the row", got)
	}
}
