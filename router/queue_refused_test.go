package router

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// refusing has the table refuse results until it is mended.
func (r *queueRig) refusing(refuses func(adapters.ClaimResult) bool) (mend func()) {
	set := func(refuses func(adapters.ClaimResult) bool) {
		r.table.mu.Lock()
		defer r.table.mu.Unlock()
		r.table.refuses = refuses
	}
	set(refuses)
	return func() { set(nil) }
}

// wantRefused checks that the status of the route names a row.
func (r *queueRig) wantRefused(id string) {
	r.t.Helper()
	if text := r.router.Stats()[0].StateError; id == "" && text != "" || !strings.Contains(text, id) {
		r.t.Errorf("the status says %q of row %q", text, id)
	}
}

// The table refuses that one row is done. All others are settled and delivered, the row is not sent again, and once the table is mended it is
// done too.
func TestG1_G6_ARowThatTheTableRefusesStopsNoOther(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.fill(30, 10)
		mend := r.refusing(func(res adapters.ClaimResult) bool {
			return res.Claim.Key == "g3-1" && res.Outcome == outbox.OutcomeDelivered
		})
		r.begin(nil)
		r.await(300)
		r.until("all others are settled", func() bool { return r.table.statuses()["done"] == 299 })
		time.Sleep(11 * time.Minute) // the claim is extended, and its result tried
		r.put("", "g3", "g3-10")
		r.until("what is new is delivered and settled", func() bool { return r.table.statuses()["done"] == 300 })
		r.wantRefused("g3-1")
		if n := r.table.get("g3-1").claims; n != 1 {
			t.Errorf("the row was claimed %d times", n)
		}
		mend()
		r.until("it is settled", func() bool { return r.table.statuses()["done"] == 301 })
		r.wantRefused("")
		r.stop()
	})
}

// A row whose retry the table refuses keeps its group waiting, and no other; a drain does not wait for it.
func TestG2_G6_ARetryThatTheTableRefuses(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.fill(10, 5)
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if msg.UUID == "g3-1" {
				return errors.New("it failed")
			}
			return nil
		})
		r.refusing(func(res adapters.ClaimResult) bool {
			return res.Claim.Key == "g3-1" && res.Outcome == outbox.OutcomeRetry
		})
		r.begin(nil)
		r.until("all before it, and all of others, are settled", func() bool { return r.table.statuses()["done"] == 46 })
		time.Sleep(11 * time.Minute)
		r.wantRefused("g3-1")
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the drain took %v", took)
		}
		r.wantStatuses(map[string]int{"done": 46, "pending": 3, "processing": 1})
		if n := r.table.get("g3-1").claims; n != 1 {
			t.Errorf("the row was claimed %d times", n)
		}
	})
}

// A table that takes no result stops the route when there is no more room: nothing is sent again.
func TestG7_ATableThatRefusesEveryRow(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.fill(100, 10)
		mend := r.refusing(func(adapters.ClaimResult) bool { return true })
		r.begin(func(rt *Route) { rt.Claims.InMemory = 300 })
		r.await(300)
		time.Sleep(11 * time.Minute)
		r.await(300)
		mend()
		r.await(1000)
		r.until("all is settled", func() bool { return r.table.statuses()["done"] == 1000 })
		r.stop()
		r.checkOrdered(100, 10)
	})
}
