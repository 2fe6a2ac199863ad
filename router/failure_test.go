package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

var errInjected = errors.New("injected")

// calls records the attempts of a destination, with their times.
type calls struct {
	mu    sync.Mutex
	ids   []string
	times []time.Time
}

func (c *calls) note(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids, c.times = append(c.ids, id), append(c.times, time.Now())
	return len(c.ids)
}

func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ids)
}

func (c *calls) of(id string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.ids {
		if x == id {
			n++
		}
	}
	return n
}

// failing is a destination's fault: messages fail as verdict says.
func failing(c *calls, verdict func(id string) error) func(string, *message.Message) error {
	return func(_ string, msg *message.Message) error {
		c.note(msg.UUID)
		return verdict(msg.UUID)
	}
}

// only fails one group.
func only(group string, err error) func(string) error {
	return func(id string) error {
		if strings.HasPrefix(id, group+"-") {
			return err
		}
		return nil
	}
}

func short(rt *Route) { rt.Attempts, rt.Middleware = 3, stack(10*time.Millisecond, 3) }

// The lines of the failure table, each for a group that fails while another
// one's messages are delivered in between.
func TestG1_FailureTable(t *testing.T) {
	for name, tt := range map[string]struct {
		err       error
		attempts  int // of g0-0 at the destination; 0: goes on forever
		delivered int
		parked    []string
	}{
		"transient":   {errInjected, 3, 0, []string{"g0-0 dead 3", "g0-1 dead 3"}},
		"permanent":   {outbox.Permanent(errInjected), 1, 0, []string{"g0-0 dead 1", "g0-1 dead 1"}},
		"skip":        {outbox.Skip("duplicate"), 1, 0, nil},
		"released":    {outbox.Released(errInjected), 0, 0, nil},
		"unavailable": {outbox.Unavailable(errInjected, 0), 0, 0, nil},
		"gone":        {outbox.Gone(errInjected), 1, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, group, func(r *rig) {
				var c calls
				r.dest.setFail(failing(&c, only("g0", tt.err)))
				r.addTo("a0", "g0", "g0-0")
				r.addTo("a0", "g0", "g0-1")
				r.start(r.route(short))
				for i := range 100 { // successes of the other group, at its own address
					time.Sleep(100 * time.Millisecond)
					r.addTo("a1", "g1", fmt.Sprintf("g1-%d", i))
				}
				r.await(100)
				time.Sleep(20 * time.Second)
				if n := c.of("g0-0"); tt.attempts > 0 && n != tt.attempts || n < 1 {
					t.Errorf("%d attempts, want %d", n, tt.attempts)
				} else if tt.attempts == 0 && n < 4 {
					t.Errorf("only %d attempts: it is not tried again", n)
				}
				r.stop()
				r.wantParked(tt.parked...)
				if s := r.router.Stats()[0]; tt.err.Error() == "duplicate" && s.Skipped["duplicate"] != 2 {
					t.Errorf("skipped: %v", s.Skipped)
				}
			})
		})
	}
}

// Two groups that fail without a success in between are an address that is
// down: nothing is charged, whatever was charged is given back, and one head at
// a time is sent.
func TestG10_FailuresOfTwoGroupsAreTheAddress(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		var c calls
		down := true
		var mu sync.Mutex
		r.dest.setFail(failing(&c, func(string) error {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return errInjected
			}
			return nil
		}))
		r.fill(6, 5)
		r.start(r.route(nil))
		time.Sleep(5 * time.Second)
		first := c.count()
		time.Sleep(10 * time.Second)
		if n := c.count() - first; n < 2 || n > 5 {
			t.Errorf("%d probes in 10 s of an outage, want 2 to 5", n)
		}
		if s := r.router.Stats()[0]; len(s.Down) != 1 || s.Dead+s.Parked != 0 {
			t.Errorf("stats: %+v", s)
		}
		for id, n := range r.router.routes.All()[0].HeldAttempts("main") {
			if n != 1 {
				t.Errorf("%s is charged with %d attempts", id, n-1)
			}
		}
		mu.Lock()
		down = false
		mu.Unlock()
		r.await(30)
		r.stop()
		r.checkOrdered(6, 5)
		r.wantParked()
	})
}

// A group that fails alone is charged and parked again and again; when another
// one fails too, all of that is given back.
func TestG10_ParkedAttemptsAreGivenBack(t *testing.T) {
	for _, rounds := range []int{1, 2, 3} {
		t.Run(strconv.Itoa(rounds), func(t *testing.T) {
			inBubble(t, group, func(r *rig) {
				r.dest.setFail(func(string, *message.Message) error { return outbox.Transient(errInjected, 3*time.Second) })
				r.add("g0", "g0-0")
				r.start(r.route(nil))
				time.Sleep(time.Duration(rounds)*3*time.Second - time.Second)
				r.wantParked(fmt.Sprintf("g0-0 retrying %d", rounds))
				r.add("g1", "g1-0")
				time.Sleep(500 * time.Millisecond)
				if p := r.parked(); rounds == 1 && (len(p) != 1 || p[0].Attempts != 0) {
					t.Errorf("parked: %v, want the attempt to be given back in the row", brief(p))
				}
				time.Sleep(5 * time.Second)
				r.dest.setFail(nil)
				r.await(2)
				r.stop()
				if got := r.attempts("g0-0"); got != 1 {
					t.Errorf("g0-0 was delivered at attempt %d, want 1", got)
				}
				r.wantParked()
			})
		})
	}
}

// attempts tells at which attempt a message was delivered.
func (r *rig) attempts(id string) int {
	r.dest.mu.Lock()
	defer r.dest.mu.Unlock()
	for _, msg := range r.dest.got {
		if msg.UUID == id {
			a, _ := outbox.AttemptOf(msg.Context())
			return a.Number
		}
	}
	return 0
}

func TestG10_TwoPoisonedMessagesOnAQuietRouteEnd(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		var c calls
		r.dest.setFail(failing(&c, func(string) error { return errInjected }))
		r.add("g0", "g0-0")
		r.add("g1", "g1-0")
		r.start(r.route(short))
		r.until("two dead", func() bool { return len(r.parked()) == 2 })
		r.stop()
		r.wantParked("g0-0 dead 3", "g1-0 dead 3")
		if a, b := c.of("g0-0"), c.of("g1-0"); a < 3 || b < 3 {
			t.Errorf("attempts: %d and %d, want 3 at least", a, b)
		}
	})
}

// Nothing is sent to an address that is gone, although a probe was planned and
// something that was under way succeeds.
func TestG10_GoneIsNeverProbed(t *testing.T) {
	inBubble(t, adapters.Ordering{}, func(r *rig) {
		var c calls
		r.dest.setFail(func(_ string, msg *message.Message) error {
			n := c.note(msg.UUID)
			switch msg.UUID {
			case "g0-0":
				time.Sleep(20 * time.Millisecond) // so that all three are under way
				return outbox.Unavailable(errInjected, 0)
			case "g1-0":
				time.Sleep(50 * time.Millisecond)
				return outbox.Gone(errInjected)
			case "g2-0":
				time.Sleep(100 * time.Millisecond)
				return nil
			}
			if n > 0 {
				t.Errorf("%s was sent", msg.UUID)
			}
			return nil
		})
		r.fill(3, 1)
		r.start(r.route(nil))
		time.Sleep(time.Second)
		r.fillFrom(3, 1, 2)
		time.Sleep(time.Minute)
		if got := c.count(); got != 3 {
			t.Errorf("%d attempts, want 3", got)
		}
		if d := r.router.Stats()[0].Down; len(d) != 1 || !d[0].Gone {
			t.Errorf("down: %+v", d)
		}
		r.stop()
	})
}

func TestG2_HoldAndRedrive(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if msg.UUID == "g1-2" {
				return outbox.Permanent(errInjected)
			}
			return nil
		})
		r.fill(2, 5)
		r.start(r.route(func(rt *Route) { rt.Middleware[0] = middleware.Poison{Hold: true}.Middleware }))
		r.await(7)
		r.fillFrom(2, 5, 8) // joins the held group
		r.await(10)
		time.Sleep(time.Minute)
		want := []string{"g1-2 held 1"}
		for i := 3; i < 8; i++ {
			want = append(want, fmt.Sprintf("g1-%d waiting 0", i))
		}
		r.wantParked(want...)
		r.dest.setFail(nil)
		if n := r.state.redrive(); n != 1 {
			t.Errorf("redrive changed %d rows, want 1", n)
		}
		r.await(16)
		r.stop()
		r.checkOrdered(2, 8)
		r.wantParked()
	})
}

// A command that comes right after a lane was acquired is not overlooked.
func TestG1_RedriveRightAfterTheStart(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(func(string, *message.Message) error { return outbox.Permanent(errInjected) })
		r.add("g0", "g0-0")
		r.start(r.route(nil))
		r.until("one dead", func() bool { return len(r.parked()) == 1 })
		r.stop()
		r.dest.setFail(nil)
		r.start(r.route(nil))
		time.Sleep(100 * time.Millisecond)
		r.state.redrive()
		r.await(1)
		r.stop()
		r.wantParked()
	})
}

// with puts a middleware inside the default stack.
func with(f func(msg *message.Message) error, keep ...bool) func(*Route) {
	return func(rt *Route) {
		rt.Middleware = append(rt.Middleware, func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				if err := f(msg); err != nil || len(keep) > 0 && keep[0] {
					return nil, err
				}
				return h(msg)
			}
		})
	}
}

func TestG1_ShortCircuitsAreSkippedAsFiltered(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.fill(3, 3)
		r.start(r.route(with(func(*message.Message) error { return nil }, true)))
		r.until("nine skipped", func() bool { return r.router.Stats()[0].Skipped["filtered"] == 9 })
		r.stop()
		r.start(r.route(nil)) // skipped is settled: they do not come back
		time.Sleep(time.Second)
		r.stop()
		if n := r.dest.count(); n != 0 {
			t.Errorf("%d were delivered", n)
		}
		r.wantParked()
	})
}

func TestG1_PanicsAreTransient(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		var c calls
		r.fill(3, 3)
		r.start(r.route(with(func(msg *message.Message) error {
			c.note(msg.UUID)
			if msg.UUID == "g1-0" && c.of(msg.UUID) < 3 {
				panic("cannot go on")
			}
			return nil
		})))
		r.await(9)
		r.stop()
		r.checkOrdered(3, 3)
		if got := r.attempts("g1-0"); got != 3 {
			t.Errorf("delivered at attempt %d, want 3: a panic counts", got)
		}
	})
}

func TestG1_ReleasedComesAgainAfterAPause(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want time.Duration
	}{
		"pause":       {outbox.Released(errInjected), lane.ReleaseDelay},
		"retry after": {&outbox.Error{Kind: outbox.KindReleased, Err: errInjected, RetryAfter: 4 * time.Second}, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, wave, func(r *rig) {
				var c calls
				r.add("g0", "g0-0")
				r.start(r.route(with(func(msg *message.Message) error {
					if c.note(msg.UUID) < 3 {
						return tt.err
					}
					return nil
				})))
				r.await(1)
				r.stop()
				if d := c.times[1].Sub(c.times[0]); d < tt.want || d > tt.want+50*time.Millisecond {
					t.Errorf("came again after %v, want %v", d, tt.want)
				}
				if got := r.attempts("g0-0"); got != 1 {
					t.Errorf("delivered at attempt %d, want 1", got)
				}
			})
		})
	}
}

// A deadline that ends while the message waits at the gate is no attempt.
func TestG10_DeadlinesAtTheGateAreReleases(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(once("g0-0", outbox.Transient(errInjected, 900*time.Millisecond)))
		r.fill(1, 3)
		r.start(r.route(func(rt *Route) {
			rt.Middleware = append(rt.Middleware, func(h message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) {
					ctx, cancel := context.WithTimeout(msg.Context(), 100*time.Millisecond)
					defer cancel()
					msg.SetContext(ctx)
					return h(msg)
				}
			})
		}))
		r.await(3)
		r.stop()
		r.checkOrdered(1, 3)
		if a, b := r.attempts("g0-0"), r.attempts("g0-1"); a != 2 || b != 1 {
			t.Errorf("delivered at attempts %d and %d, want 2 and 1", a, b)
		}
		r.wantParked()
	})
}

// A middleware that fails a message in the middle of its group parks the ones
// before it in their order, too.
func TestG2_MiddlewareFailsBehindAWaitingHead(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(once("g0-0", outbox.Transient(errInjected, 700*time.Millisecond)))
		var c calls
		r.fill(1, 6)
		r.start(r.route(with(func(msg *message.Message) error {
			if msg.UUID == "g0-3" && c.note(msg.UUID) == 1 {
				return outbox.Transient(errInjected, 2*time.Second)
			}
			return nil
		})))
		r.await(6)
		r.stop()
		r.checkOrdered(1, 6)
		r.wantParked()
	})
}

func TestG1_UndecodableRowsAreDead(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.fill(2, 2)
		r.source.rows[1].Err = errors.New("tags are no JSON object")
		r.start(r.route(nil))
		r.await(3)
		r.stop()
		r.wantParked("g1-0 dead 1")
		if got := r.dest.received(); !slices.Equal(got["g1"], []string{"g1-1"}) {
			t.Errorf("g1: %v", got["g1"])
		}
	})
}

// nasty is a destination that panics when asked for an address.
type nasty struct{ *receiver }

func (n nasty) Address(msg *message.Message) (string, error) {
	if strings.HasPrefix(msg.UUID, "nasty") {
		panic("no address")
	}
	return n.receiver.Address(msg)
}

// Panics of destinations fail their messages and nothing else.
func TestG6_PanicsOfAnAddressStayWithTheirMessage(t *testing.T) {
	for name, change := range map[string]func(*rig, *Route){
		"the poison destination's": func(_ *rig, rt *Route) {
			rt.Poison, rt.PoisonName = nasty{&receiver{ordering: group}}, "dead"
			rt.Middleware = append(rt.Middleware, failingMiddleware(outbox.Permanent(errInjected)))
		},
		"the destination's, behind a breaker": func(r *rig, rt *Route) {
			rt.Destination = nasty{r.dest}
			rt.Middleware = append(rt.Middleware, failingMiddleware(outbox.Unavailable(errInjected, 0)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, group, func(r *rig) {
				for i := range 3 {
					r.add("same", fmt.Sprint("nasty", i))
				}
				r.add("other", "m")
				r.start(r.route(func(rt *Route) { change(r, rt) }))
				r.await(1)
				time.Sleep(time.Minute)
				r.add("other", "n")
				r.await(2)
				if s := r.router.Stats()[0]; s.Dead != 0 {
					t.Errorf("%d are dead", s.Dead)
				}
				r.stop()
			})
		})
	}
}

func failingMiddleware(err error) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if strings.HasPrefix(msg.UUID, "nasty") {
				return nil, err
			}
			return h(msg)
		}
	}
}
