package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// stuck is a destination that ends only with its context.
type stuck struct {
	receiver
	arrives bool // what it was given turns out to have arrived

	mu    sync.Mutex
	lanes map[string]int // messages that it was given, by lane
}

func (s *stuck) Deliver(ctx context.Context, _ string, batch []*message.Message) []error {
	s.mu.Lock()
	if s.lanes == nil {
		s.lanes = map[string]int{}
	}
	for _, msg := range batch {
		s.lanes[msg.Metadata[outbox.MetaLane]]++
	}
	s.mu.Unlock()
	<-ctx.Done()
	if s.arrives {
		return nil
	}
	errs := make([]error, len(batch))
	for i := range errs {
		errs[i] = ctx.Err()
	}
	return errs
}

// taken tells how many messages it was given, and of which lanes.
func (s *stuck) taken() (n int, lanes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane, k := range s.lanes {
		n += k
		lanes = append(lanes, lane)
	}
	slices.Sort(lanes)
	return n, lanes
}

// end stops the router and returns what Run returned.
func (r *rig) end() error {
	r.cancel()
	return <-r.done
}

// wantCutOff checks what a drain that was cut off says.
func wantCutOff(t *testing.T, err error, want ...string) {
	t.Helper()
	if !errors.Is(err, ErrCutOff) {
		t.Fatalf("got %v, want %v", err, ErrCutOff)
	}
	for _, w := range append(want, "may be delivered again") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is missing in: %v", w, err)
		}
	}
}

// A drain ends with its limit, and says what it cut off and where; that comes
// again.
func TestG1_G3_ADrainIsBoundedAndSaysWhatItCutOff(t *testing.T) {
	for name, o := range map[string]adapters.Ordering{"wave": wave, "group": group} {
		t.Run(name, func(t *testing.T) { aDrainIsBounded(t, o) })
	}
}

func aDrainIsBounded(t *testing.T, o adapters.Ordering) {
	inBubble(t, o, func(r *rig) {
		r.config.DrainTimeout = 3 * time.Second
		r.fill(4, 4)
		d := &stuck{receiver: receiver{ordering: o}}
		r.start(r.route(func(rt *Route) { rt.Destination, rt.SendTimeout, rt.Middleware = d, time.Hour, nil }))
		time.Sleep(time.Second)
		began := time.Now()
		err := r.end()
		if d := time.Since(began); d < 3*time.Second || d > 4*time.Second {
			t.Errorf("the drain took %v, want 3 s", d)
		}
		n, lanes := d.taken()
		wantCutOff(t, err, fmt.Sprintf("after 3s (drain_timeout) with %d messages in flight", n),
			fmt.Sprintf("route orders (%d, in %s)", n, strings.Join(lanes, ", ")))
		r.start(r.route(nil))
		r.await(16)
		r.stop()
		r.checkOrdered(4, 4)
	})
}

// What turns out to have arrived at the last moment is no reason for an error.
func TestG3_ADrainThatKnowsTheOutcomesIsClean(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.config.DrainTimeout = time.Second
		r.fill(4, 1)
		d := &stuck{receiver: receiver{ordering: group}, arrives: true}
		r.start(r.route(func(rt *Route) { rt.Destination, rt.SendTimeout, rt.Middleware = d, time.Hour, nil }))
		time.Sleep(time.Second)
		if n, _ := d.taken(); n != 4 {
			t.Errorf("%d messages are under way, want 4", n)
		}
		r.stop()
		r.start(r.route(nil))
		time.Sleep(5 * time.Second)
		r.stop()
		if n := r.dest.count(); n != 0 {
			t.Errorf("%d messages come again, want none", n)
		}
	})
}

// Middleware that does not end is cut off as well.
func TestG3_ADrainTellsOfMiddlewareThatDoesNotEnd(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.config.DrainTimeout = time.Second
		begun, release := make(chan struct{}, 3), make(chan struct{})
		defer close(release)
		r.fill(3, 1)
		r.start(r.route(func(rt *Route) {
			rt.Middleware = []message.HandlerMiddleware{func(h message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) {
					begun <- struct{}{}
					<-release
					return h(msg)
				}
			}}
		}))
		for range cap(begun) {
			<-begun
		}
		err := r.end()
		wantCutOff(t, err, "with 3 messages in flight")
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("what was cut off is told twice: %v", err)
		}
	})
}

// A dead message whose way to the poison destination is cut off comes there again.
func TestG3_ADrainTellsOfAPoisonDestinationThatHangs(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.config.DrainTimeout = time.Second
		r.dest.setFail(func(string, *message.Message) error { return outbox.Permanent(errInjected) })
		r.fill(2, 1)
		_, route := grave(r, nil)
		route.Poison, route.SendTimeout = &stuck{receiver: receiver{ordering: group}}, time.Hour
		r.start(route)
		time.Sleep(time.Second)
		wantCutOff(t, r.end(), "with 2 messages in flight")
	})
}

// Many routes are counted, not listed.
func TestG3_ADrainNamesAFewRoutes(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.config.DrainTimeout = time.Second
		r.fill(1, 1)
		var routes []Route
		for i := range mostRoutesNamed + 2 {
			routes = append(routes, r.route(func(rt *Route) {
				rt.Name, rt.Destination = fmt.Sprint("r", i), &stuck{receiver: receiver{ordering: group}}
				rt.SendTimeout, rt.Middleware = time.Hour, nil
			}))
		}
		r.start(routes...)
		time.Sleep(time.Second)
		wantCutOff(t, r.end(), "with 7 messages in flight: route r0 (1, in r0/", "route r4 (1, in r4/", ", 2 more routes;")
	})
}

// pauseStuck pauses a route of which all three messages are under way, to a
// destination that ends only when it is cut off, and returns what the log says.
func pauseStuck(r *rig, d *stuck, mw ...message.HandlerMiddleware) string {
	r.t.Helper()
	r.config.DrainTimeout = time.Second
	var log bytes.Buffer // which the handler locks, and which is read when the router has ended
	r.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r.fill(3, 1)
	r.start(r.route(func(rt *Route) { rt.Destination, rt.SendTimeout, rt.Middleware = d, time.Hour, mw }))
	r.until("all are under way", func() bool { n, _ := d.taken(); return n == 3 })
	r.pause(adapters.Pause{Route: "orders"})
	r.until("at rest", func() bool { return r.router.Stats()[0].Lanes == 0 && r.state.owned() == 0 })
	time.Sleep(time.Second)
	r.stop()
	return log.String()
}

const cutOffLog = "deliveries were cut off: whether they arrived is not known, and they may come again"

// What a pause cuts off is in the log, and the drain that comes later is clean.
func TestG3_APauseTellsWhatItCutOff(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		log := pauseStuck(r, &stuck{receiver: receiver{ordering: group}})
		if !strings.Contains(log, cutOffLog+`" route=orders messages=3 lanes=`) {
			t.Errorf("the log does not tell:\n%s", log)
		}
	})
}

// A chain does not end with its delivery: it is given a moment to tell that its
// message arrived.
func TestG3_WhatArrivesAtTheCutIsKnown(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		slow := func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				defer time.Sleep(lane.CutMoment / 2)
				return h(msg)
			}
		}
		if log := pauseStuck(r, &stuck{receiver: receiver{ordering: group}, arrives: true}, slow); strings.Contains(log, cutOffLog) {
			t.Errorf("all has arrived, and the log says:\n%s", log)
		}
	})
}
