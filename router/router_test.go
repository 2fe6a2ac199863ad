package router

import (
	"errors"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) {
	// A case of the models is a life of a router, and takes a twentieth of a second.
	if err := testenv.LimitChecks(30, 1000); err != nil {
		panic(err)
	}
	debug.SetGCPercent(400) // a quarter of the processor time was the garbage collector's
	goleak.VerifyTestMain(m)
}

func TestG2_DeliversInOrder(t *testing.T) {
	for name, o := range map[string]adapters.Ordering{"wave": wave, "group": group, "single": {}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, o, func(r *rig) {
				r.fill(50, 40)
				r.start(r.route(nil))
				r.await(2000)
				r.stop()
				r.checkOrdered(50, 40)
			})
		})
	}
}

// flaky fails each second message once, with the given error.
func flaky(err error) func(string, *message.Message) error {
	var mu sync.Mutex
	seen := map[string]bool{}
	return func(_ string, msg *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if len(msg.UUID)%2 == 0 && !seen[msg.UUID] {
			seen[msg.UUID] = true
			return err
		}
		return nil
	}
}

func TestG2_FailuresKeepTheOrder(t *testing.T) {
	for name, err := range map[string]error{
		"transient":   errors.New("try again"),
		"unavailable": outbox.Unavailable(errors.New("refused"), 0),
		"released":    outbox.Released(errors.New("not now")),
	} {
		for unit, o := range map[string]adapters.Ordering{"wave": wave, "group": group} {
			t.Run(name+"/"+unit, func(t *testing.T) {
				inBubble(t, o, func(r *rig) {
					r.dest.setFail(flaky(err))
					r.fill(5, 20)
					r.start(r.route(nil))
					r.await(100)
					r.stop()
					r.checkOrdered(5, 20)
				})
			})
		}
	}
}

// once fails the message with this id once.
func once(id string, err error) func(string, *message.Message) error {
	var failed sync.Map
	return func(_ string, msg *message.Message) error {
		if msg.UUID != id {
			return nil
		}
		if _, again := failed.LoadOrStore(id, true); again {
			return nil
		}
		return err
	}
}

func TestG2_LongRetriesAreParkedWithTheirGroup(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(once("g1-3", outbox.Transient(errors.New("later"), 1500*time.Millisecond)))
		r.fill(4, 20)
		r.start(r.route(nil))
		r.await(3*20 + 3)
		time.Sleep(time.Second)
		if n := len(r.parked()); n != 17 || r.dest.count() != 63 {
			r.t.Errorf("%d rows are parked and %d delivered, want 17 and 63", n, r.dest.count())
		}
		r.await(80)
		r.stop()
		r.checkOrdered(4, 20)
		r.wantParked()
	})
}
