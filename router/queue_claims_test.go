package router

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// Rows that wait for their address longer than a claim lives stay ours; those
// that somebody took nevertheless are dropped, and come in order again.
func TestG2_LostClaims(t *testing.T) {
	inQueueBubble(t, adapters.Ordering{MaxMessages: 10, Static: true}, func(r *queueRig) {
		r.fill(4, 10)
		r.dest.setFail(func(string, *message.Message) error { return outbox.Unavailable(errInjected, 0) })
		r.begin(func(rt *Route) { rt.Claims.Timeout = 20 * time.Second })
		time.Sleep(10 * time.Minute)
		if s := r.router.Stats()[0].Queue; s.Lost != 0 || s.Claimed != 40 {
			t.Fatalf("%d were lost, %d are claimed, want 0 and 40", s.Lost, s.Claimed)
		}
		stolen := r.table.steal(func(row *queueRow) bool { return row.ID == "g1-0" || row.ID == "g2-5" })
		time.Sleep(time.Minute)
		if s := r.router.Stats()[0].Queue; s.Lost != int64(stolen) || s.Claimed != 40 {
			t.Errorf("%d were lost, %d are claimed, want %d and 40", s.Lost, s.Claimed, stolen)
		}
		r.dest.setFail(nil)
		r.await(40)
		r.stop()
		r.checkOrdered(4, 10)
		r.wantStatuses(map[string]int{"done": 40})
	})
}

// A row that was delivered while its claim was lost is not settled as another's.
func TestG3_ALostClaimSettlesNothing(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.put("", "g", "m")
		taken := make(chan struct{})
		r.dest.setFail(func(string, *message.Message) error {
			<-taken
			return nil
		})
		r.begin(nil)
		r.until("it is being sent", func() bool { return r.table.statuses()["processing"] == 1 })
		r.table.mu.Lock()
		r.table.rows[0].token = "somebody else's"
		r.table.mu.Unlock()
		close(taken)
		r.await(1)
		time.Sleep(time.Second)
		r.wantStatuses(map[string]int{"processing": 1})
		if s := r.router.Stats()[0].Queue; s.Lost != 1 || s.Claimed != 0 {
			t.Errorf("%d were lost, %d are claimed, want 1 and 0", s.Lost, s.Claimed)
		}
		r.stop()
	})
}

// Rows that a killed process left behind are recovered, by the owner only.
func TestG1_RecoversWhatACrashLeft(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.fill(2, 3)
		r.table.timeout = 30 * time.Second
		for _, row := range r.table.rows[:2] {
			row.status, row.token, row.since = "processing", "dead process", time.Now()
		}
		r.config.Instance = "a"
		r.begin(nil)
		time.Sleep(20 * time.Second)
		if n := r.dest.count(); n != 0 {
			t.Errorf("%d arrived behind rows that are being processed", n)
		}
		r.await(6)
		r.stop()
		r.checkOrdered(2, 3)
		if s := r.router.Stats()[0].Queue; s.Recovered != 2 {
			t.Errorf("%d were recovered, want 2", s.Recovered)
		}
	})
}

// A second instance claims nothing while the first one has the lanes, and goes
// on where it stopped.
func TestG3_AStandbyOfAQueueTakesOver(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.config.Instance = "a"
		peer := &queueRig{r.peer("standby"), r.table}
		r.fill(10, 20)
		r.begin(func(rt *Route) { rt.Poll.Batch, rt.Claims.InMemory = 10, 20 })
		r.await(100)
		own := peer.begin(nil)
		time.Sleep(time.Second)
		if n := own.holds(); n != 0 {
			t.Errorf("the standby has claimed %d", n)
		}
		r.await(200)
		r.stop()
		r.fill(10, 5)
		peer.await(50)
		peer.stop()
		r.wantStatuses(map[string]int{"done": 250})
		if n := r.dest.count() + peer.dest.count(); n != 250 {
			t.Errorf("%d arrived, want 250", n)
		}
	})
}

// A pause gives back what was claimed before the lanes are released.
func TestG3_APausedQueueHoldsNothing(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.dest.setFail(func(string, *message.Message) error {
			time.Sleep(50 * time.Millisecond)
			return nil
		})
		r.fill(10, 300)
		r.begin(func(rt *Route) { rt.Claims.InMemory = 200 })
		r.await(100)
		if _, err := r.state.Pause(t.Context(), adapters.Pause{Route: "orders", By: "test"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		before := r.table.statuses()
		if before["processing"] != 0 || before["pending"] == 0 {
			t.Errorf("paused with the statuses %v", before)
		}
		time.Sleep(time.Minute)
		if n := r.dest.count(); n != before["done"] {
			t.Errorf("%d arrived, %d were done when it was paused", n, before["done"])
		}
		if _, err := r.state.Resume(t.Context(), adapters.Pause{Route: "orders", By: "test"}); err != nil {
			t.Fatal(err)
		}
		r.await(3000)
		r.stop()
		r.checkOrdered(10, 300)
		r.wantStatuses(map[string]int{"done": 3000})
	})
}

// An attempt that is given back after it was written, and after the row was
// claimed again, is right in the table at the end.
func TestG10_AttemptsAreGivenBackInTheTable(t *testing.T) {
	inQueueBubble(t, adapters.Ordering{MaxMessages: 1, Static: true}, func(r *queueRig) {
		r.table.delay = func() time.Duration { return 5 * time.Millisecond }
		r.dest.setFail(func(string, *message.Message) error { return errors.New("status 500") })
		for i := range 3 {
			r.put("", "first", fmt.Sprint("first", i))
		}
		r.begin(func(rt *Route) { rt.Middleware, rt.Attempts = stack(time.Second, 50), 50 })
		r.until("the first failure is written", func() bool { return r.table.get("first0").attempts == 1 })
		r.put("", "second", "second0") // its failure shows that it is the address
		time.Sleep(20 * time.Second)
		r.dest.setFail(nil)
		r.await(4)
		r.stop()
		for _, id := range []string{"first0", "first1", "first2", "second0"} {
			r.wantRow(id, "done", 0)
		}
		if got := r.dest.received()["first"]; !slices.Equal(got, []string{"first0", "first1", "first2"}) {
			t.Errorf("got %v", got)
		}
	})
}

// The first claim is small, so that something is delivered while the next is under
// way, and the others grow; but not where polls are rare.
func TestG6_ClaimsBeginSmall(t *testing.T) {
	for name, tt := range map[string]struct {
		poll Poll
		want []int
	}{
		"adaptive": {Poll{Batch: 2048}, []int{256, 512, 1024, 2048, 256}},
		"small":    {Poll{Batch: 100}, slices.Repeat([]int{100}, 30)},
		"fixed":    {Poll{Batch: 2048, Min: time.Second, Max: time.Second}, []int{2048, 2048, 2048}},
	} {
		t.Run(name, func(t *testing.T) {
			inQueueBubble(t, group, func(r *queueRig) {
				r.fill(100, 29)
				r.begin(func(rt *Route) { rt.Poll, rt.Claims.InMemory, rt.Claims.PerGroup = tt.poll, 10_000, 10_000 })
				r.await(2900)
				r.put("", "g0", "g0-29") // after a claim that was not full
				r.await(2901)
				r.stop()
				if got := r.table.limits; !slices.Equal(got, tt.want) {
					t.Errorf("the claims were of %v rows, want %v", got, tt.want)
				}
			})
		})
	}
}
