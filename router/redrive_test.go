package router

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// redriveOne is an operator who redrives a message, who is told that it was one.
func (r *rig) redriveOne(id string) {
	r.t.Helper()
	step, err := r.state.ChangeParked(context.Background(),
		adapters.ParkedCommand{Action: adapters.ParkedRedrive, Filter: adapters.ParkedFilter{ID: id}})
	if err != nil || step.Changed != 1 {
		r.t.Errorf("redriven %d, error %v", step.Changed, err)
	}
}

// An operator redrives a message of which an attempt is under way that will fail:
// the one before the last, which would be followed minutes later, or the last, after which the
// message would be dead. The redrive follows the attempt: its attempts are forgotten, and the next
// one comes at once, whether the attempt ends before the command is known or after it.
func TestG13_ARedriveFollowsTheAttemptUnderWay(t *testing.T) {
	const attempts = 4
	for name, tt := range map[string]struct {
		under int           // number of the attempt under way
		takes time.Duration // from the command on
	}{
		"ends before the command is known":       {3, 10 * time.Millisecond},
		"ends later":                             {3, 20 * time.Second},
		"dies of it before the command is known": {4, 10 * time.Millisecond},
		"dies of it later":                       {4, 20 * time.Second},
	} {
		for _, poison := range []bool{false, true} {
			t.Run(name+", poison destination "+strconv.FormatBool(poison), func(t *testing.T) {
				inBubble(t, templated, func(r *rig) {
					var c calls
					release := make(chan struct{})
					r.dest.setFail(func(_ string, msg *message.Message) error {
						c.note(msg.UUID)
						n := c.of("1")
						switch {
						case msg.UUID != "1" || n >= tt.under+attempts:
							return nil
						case n == tt.under:
							<-release
						case n > tt.under:
							return outbox.Transient(errInjected, 0)
						}
						return outbox.Transient(errInjected, 2*time.Minute)
					})
					r.add("g", "1")
					r.add("g", "2")
					r.start(r.route(func(rt *Route) {
						rt.Middleware, rt.Attempts, rt.SendTimeout = stack(10*time.Millisecond, attempts), attempts, time.Hour
						if poison {
							rt.Poison, rt.PoisonName = &receiver{ordering: templated}, "dead"
						}
					}))
					for c.of("1") < tt.under {
						time.Sleep(time.Second)
					}
					r.redriveOne("1")
					time.Sleep(tt.takes)
					close(release)
					began := time.Now()
					r.await(2)
					if d := time.Since(began); d > time.Minute {
						t.Errorf("it was delivered %v later", d)
					}
					time.Sleep(5 * time.Second)
					if n := c.of("1"); n != tt.under+attempts {
						t.Errorf("it was attempted %d times, want %d", n, tt.under+attempts)
					}
					r.stop()
					r.wantParked()
				})
			})
		}
	}
}
