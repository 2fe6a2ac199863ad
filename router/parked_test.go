package router

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// A held group stays held over a restart, others flow, and skipping the held
// message releases those behind it.
func TestG2_HeldGroupOutlastsARestartAndSkipReleasesIt(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(fatal("g1-2"))
		hold := r.route(func(rt *Route) { rt.Middleware[0] = middleware.Poison{Hold: true}.Middleware })
		r.fill(2, 5)
		r.start(hold)
		r.await(7)
		r.stop()
		r.dest.setFail(nil)
		r.fillFrom(2, 5, 8)
		r.start(hold)
		r.await(10)
		time.Sleep(time.Minute)
		want := []string{"g1-2 held 1"}
		for i := 3; i < 8; i++ {
			want = append(want, fmt.Sprintf("g1-%d waiting 0", i))
		}
		r.wantParked(want...)
		step, _ := r.state.ChangeParked(context.Background(),
			adapters.ParkedCommand{Action: adapters.ParkedSkip, Filter: adapters.ParkedFilter{ID: "g1-2"}})
		if step.Changed != 1 {
			t.Fatalf("skipped %d", step.Changed)
		}
		r.await(15)
		r.stop()
		r.wantParked()
		if got := r.dest.received()["g1"]; !slices.Equal(got, []string{"g1-0", "g1-1", "g1-3", "g1-4", "g1-5", "g1-6", "g1-7"}) {
			t.Errorf("group g1 got %q", got)
		}
	})
}

// Attempts that a message from the parking made in memory are not forgotten when
// it goes back there because of another one of its group.
func TestShortRetriesAreKeptWhenTheGroupIsParkedAgain(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		var runs calls
		var numbers calls // of attempts
		inner := func(msg *message.Message) error {
			attempt, _ := outbox.AttemptOf(msg.Context())
			runs.note(msg.UUID)
			switch run := runs.of(msg.UUID); {
			case msg.UUID == "g-0" && run == 1: // parks the group, when the others have run
				time.Sleep(time.Millisecond)
				return outbox.RetryAt(time.Now().Add(2*time.Second), errInjected)
			case msg.UUID == "g-2" && run == 2: // parks it again, while g-1 is between two attempts
				time.Sleep(500 * time.Millisecond)
				return outbox.RetryAt(time.Now().Add(2*time.Second), errInjected)
			case msg.UUID == "g-1" && run > 1 && numbers.note(strconv.Itoa(attempt.Number)) < 3:
				return errInjected
			}
			return nil
		}
		route := r.route(func(rt *Route) {
			with(inner)(rt)
			rt.Middleware[1] = middleware.Retry{Base: 900 * time.Millisecond, Factor: 1, Jitter: middleware.NoJitter}.Middleware
		})
		for i := range 3 {
			r.add("g", fmt.Sprintf("g-%d", i))
		}
		r.start(route)
		r.await(3)
		r.stop()
		if !slices.Equal(numbers.ids, []string{"1", "2", "3"}) {
			t.Errorf("attempts of a message whose group was parked in between were numbered %v, want 1 2 3", numbers.ids)
		}
		if got := r.dest.received()["g"]; !slices.Equal(got, []string{"g-0", "g-1", "g-2"}) {
			t.Errorf("got %q", got)
		}
		r.wantParked()
	})
}

// A redrive puts a dead message of a group back into the parking while others of
// it wait in the lane. What comes then must not get before those.
func TestG2_ARedriveBesideMessagesInTheLane(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		groups := sameLane(2)
		r.dest.setFail(fatal("1"))
		r.start(r.route(func(rt *Route) { rt.Window = 16 }))
		r.addTo("a", groups[0], "1")
		r.until("the first message is dead", func() bool { return len(r.parked()) == 1 })
		r.dest.setFail(func(string, *message.Message) error { return outbox.Unavailable(errInjected, 0) })
		r.addTo("a", groups[0], "2")
		r.addTo("a", groups[0], "3")
		time.Sleep(time.Second)
		if n := r.state.redrive(); n != 1 {
			t.Fatalf("redriven: %d", n)
		}
		time.Sleep(time.Minute) // until it was noticed
		r.addTo("a", groups[0], "4")
		for i := range 12 { // so many that the lane evicts what waits in it
			r.addTo("a", groups[1], fmt.Sprint("other", i))
		}
		time.Sleep(time.Minute)
		r.dest.setFail(nil)
		r.await(16)
		r.stop()
		r.wantParked()
		got := slices.DeleteFunc(r.dest.received()[groups[0]], func(id string) bool { return id == "1" })
		if !slices.Equal(got, []string{"2", "3", "4"}) {
			t.Errorf("beside the redriven message came %q", got)
		}
	})
}
