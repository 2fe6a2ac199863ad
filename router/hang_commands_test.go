package router

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// hanger is a destination at which some messages hang until they are released or
// called off.
type hanger struct {
	*receiver
	hanging map[string]bool
	release chan struct{}
}

func (h *hanger) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	for _, msg := range batch {
		if !h.hanging[msg.UUID] {
			continue
		}
		select {
		case <-h.release:
		case <-ctx.Done():
			errs := make([]error, len(batch))
			for i := range errs {
				errs[i] = outbox.Released(ctx.Err())
			}
			return errs
		}
	}
	return h.receiver.Deliver(ctx, address, batch)
}

// hangScenario is all that is random about messages that hang while operators give
// commands and the relay restarts.
type hangScenario struct {
	unit         string // in which the destination takes messages: "single", "group", "wave"
	window, rows int
	groups       int
	order        adapters.OrderMode
	static, dies bool // dies: the ones that hang do so at the poison destination
	hanging      map[string]bool
	seed         uint64
	steps        []step
}

func drawHangScenario(t *rapid.T) hangScenario {
	sc := hangScenario{
		unit:    rapid.SampledFrom([]string{"single", "group", "wave"}).Draw(t, "unit"),
		window:  rapid.IntRange(4, 24).Draw(t, "window"),
		rows:    rapid.IntRange(100, 400).Draw(t, "rows"),
		groups:  rapid.IntRange(0, 6).Draw(t, "groups"),
		order:   rapid.SampledFrom([]adapters.OrderMode{adapters.OrderGroup, adapters.OrderNone}).Draw(t, "order"),
		static:  rapid.Bool().Draw(t, "static"),
		dies:    rapid.Bool().Draw(t, "dies"),
		hanging: map[string]bool{},
		seed:    rapid.Uint64().Draw(t, "seed"),
	}
	// What shares a request with one that hangs waits for it, whoever it is.
	sc.dies = sc.dies || sc.unit != "single"
	for _, i := range rapid.SliceOfN(rapid.IntRange(0, 99), 1, 4).Draw(t, "hanging") {
		sc.hanging[fmt.Sprint("m", i)] = true
	}
	for range rapid.IntRange(1, 8).Draw(t, "steps") {
		sc.steps = append(sc.steps, step{
			kind: rapid.SampledFrom([]string{"write", "restart", "evict", "pause", "command", "skip", "redrive"}).Draw(t, "kind"),
			wait: time.Duration(rapid.IntRange(0, 6000).Draw(t, "wait")) * time.Millisecond,
		})
	}
	return sc
}

// hangRun plays a hangScenario.
type hangRun struct {
	hangScenario
	*rig
	random  *rand.Rand
	dead    *hanger
	route   Route
	written int
	skipped map[string]bool
}

func newHangRun(t *testing.T, sc hangScenario) *hangRun {
	o := adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 1, MaxRequests: 1000, Static: sc.static}
	switch sc.unit {
	case "group":
		o.MaxMessages = 8
	case "wave":
		o = adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: 50, Static: sc.static}
	}
	r := &hangRun{hangScenario: sc, rig: newRig(t, o), random: rand.New(rand.NewPCG(sc.seed, 1)), skipped: map[string]bool{}}
	r.config.DrainTimeout = 5 * time.Second
	release := make(chan struct{})
	r.dead = &hanger{&receiver{ordering: templated}, nil, release}
	at := &hanger{r.dest, nil, release}
	if sc.dies {
		r.dead.hanging = sc.hanging
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if sc.hanging[msg.UUID] {
				return outbox.Permanent(errInjected)
			}
			return nil
		})
	} else {
		at.hanging = sc.hanging
	}
	r.route = r.rig.route(func(rt *Route) {
		rt.Destination, rt.Window, rt.SendTimeout, rt.Order, rt.Poison, rt.PoisonName = at, sc.window, time.Hour, sc.order, r.dead, "dead"
	})
	return r
}

func (r *hangRun) write(n int) {
	for range n {
		id, group := fmt.Sprint("m", r.written), ""
		if !r.hanging[id] && r.groups > 0 {
			group = fmt.Sprint("g", r.written%r.groups)
		}
		r.add(group, id)
		r.written++
	}
}

// play carries out one step.
func (r *hangRun) play(s step) error {
	ctx := context.Background()
	switch s.kind {
	case "write":
		r.write(20)
	case "restart":
		r.cancel()
		if err := <-r.done; err != nil && !errors.Is(err, ErrCutOff) { // cut off where something hung
			return err
		}
		r.start(r.route)
	case "evict":
		r.state.evict()
	case "pause":
		if _, err := r.state.Pause(ctx, adapters.Pause{Route: "orders"}); err != nil {
			return err
		}
		time.Sleep(s.wait)
		if _, err := r.state.Resume(ctx, adapters.Pause{Route: "orders"}); err != nil {
			return err
		}
	case "command": // by which an operator changed nothing
		r.state.mu.Lock()
		r.state.raise("orders")
		r.state.mu.Unlock()
	case "skip":
		if rows := r.parked(); len(rows) > 0 {
			id := rows[r.random.IntN(len(rows))].ID
			step, err := r.state.ChangeParked(ctx, adapters.ParkedCommand{Action: adapters.ParkedSkip, Filter: adapters.ParkedFilter{ID: id}})
			if err != nil {
				return err
			}
			r.skipped[id] = r.skipped[id] || step.Changed > 0
		}
	case "redrive":
		r.state.redrive()
	}
	time.Sleep(s.wait)
	return nil
}

// missing counts those that have neither ended nor hang.
func (r *hangRun) missing(hang map[string]bool) int {
	arrived := map[string]bool{}
	for _, d := range []*receiver{r.dest, r.dead.receiver} {
		for _, ids := range d.received() {
			for _, id := range ids {
				arrived[id] = true
			}
		}
	}
	n := 0
	for i := range r.written {
		if id := fmt.Sprint("m", i); !arrived[id] && !r.skipped[id] && !hang[id] {
			n++
		}
	}
	return n
}

func (r *hangRun) all() error {
	r.write(r.rows)
	r.start(r.route)
	for _, s := range r.steps {
		if err := r.play(s); err != nil {
			return err
		}
	}
	for end := time.Now().Add(patience); r.missing(r.hanging) > 0; time.Sleep(time.Second) {
		if time.Now().After(end) {
			n := r.missing(r.hanging)
			close(r.dead.release)
			r.stop()
			return fmt.Errorf("%d of %d that do not hang have not arrived", n, r.written)
		}
	}
	close(r.dead.release)
	r.until("all have ended", func() bool { return r.missing(nil) == 0 })
	r.until("nothing is left in the parking but what is dead", func() bool {
		for _, p := range r.parked() {
			if p.Status != adapters.ParkedDead {
				return false
			}
		}
		return true
	})
	r.stop()
	return nil
}

// What hangs, at the destination or as dead at the poison destination beside batches of
// others, stalls nobody, whatever operators do and however often the relay restarts or
// loses its lanes.
func TestG6_G13_WhatHangsStallsNobodyUnderCommands(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := drawHangScenario(rt)
		var err error
		synctest.Test(t, func(t *testing.T) { err = newHangRun(t, sc).all() })
		if err != nil {
			rt.Fatal(err)
		}
	})
}
