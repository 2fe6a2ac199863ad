package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// deaths is a run in which the writes of deaths wait, and their groups meet what may happen to them meanwhile.
type deaths struct {
	a, b    *rig
	random  *rand.Rand  // of the test's own goroutine
	pauses  *rand.Rand  // of deliveries, with the mutex
	table   *queueTable // nil: the rows are read by cursor
	begin   func(r *rig)
	written func(id string) bool // it is durable that it is dead

	waits atomic.Bool // what is dead is not written
	dying sync.Map    // ids in dies and early

	mu      sync.Mutex
	groups  [4]int // how many messages each has
	paused  [4]bool
	dies    map[string]bool // at the destination, or before its turn there
	early   map[string]bool // in a middleware, before its turn
	fails   map[string]bool // once
	moved   map[string]bool // by an operator
	skipped map[string]bool
	arrived map[string]int
	wrong   []string
	down    bool // an address
	lost    bool // lanes were: what was not settled comes again
	both    bool // b runs
}

func newDeaths(r *rig, seed uint64) *deaths {
	d := &deaths{a: r, random: rand.New(rand.NewPCG(seed, 1)), pauses: rand.New(rand.NewPCG(seed, 2)), dies: map[string]bool{}, early: map[string]bool{}, fails: map[string]bool{},
		moved: map[string]bool{}, skipped: map[string]bool{}, arrived: map[string]int{}}
	r.config.Instance, r.config.DrainTimeout = "a", 10*time.Second
	d.b = r.peer("b")
	for _, x := range []*rig{d.a, d.b} {
		x.dest.setFail(d.take)
	}
	change := func(rt *Route) {
		rt.Window, rt.Claims = 12, Claims{InMemory: 12, PerGroup: 6}
		if !r.deliverFirst {
			rt.Middleware = append(rt.Middleware, d.before)
		}
	}
	d.begin = func(x *rig) { x.start(x.route(change)) }
	d.written = func(id string) bool {
		return slices.ContainsFunc(r.parked(), func(p adapters.Parked) bool { return p.ID == id && p.Status == adapters.ParkedDead })
	}
	if seed%2 == 1 {
		d.table = newQueueTable()
		d.table.locked = func(id string) bool {
			_, dies := d.dying.Load(id)
			return dies && d.waits.Load()
		}
		d.begin = func(x *rig) { (&queueRig{x, d.table}).begin(change) }
		d.written = func(id string) bool { return d.table.get(id).status == "dead" }
	}
	return d
}

// before is a middleware, which some do not survive.
func (d *deaths) before(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		d.mu.Lock()
		early := d.early[msg.UUID]
		d.mu.Unlock()
		if early {
			return nil, outbox.Permanent(errInjected)
		}
		return next(msg)
	}
}

// take is the destination.
func (d *deaths) take(address string, msg *message.Message) error {
	d.mu.Lock()
	pause := time.Duration(d.pauses.IntN(40)) * time.Millisecond
	d.mu.Unlock()
	time.Sleep(pause)
	d.mu.Lock()
	defer d.mu.Unlock()
	id := msg.UUID
	switch {
	case d.down && address != "main":
		return outbox.Unavailable(errInjected, 0)
	case d.dies[id]:
		return outbox.Permanent(errInjected)
	case d.fails[id]:
		delete(d.fails, id)
		return outbox.Transient(errInjected, 4*time.Second)
	}
	d.arrived[id]++
	group, text, _ := strings.Cut(id, "-")
	n, _ := strconv.Atoi(text)
	for i := range n {
		before := fmt.Sprintf("%s-%d", group, i)
		if d.arrived[before] == 0 && !d.moved[before] && !d.moved[id] && !d.written(before) {
			d.wrong = append(d.wrong, fmt.Sprintf("%s passed %s", id, before))
		}
	}
	return nil
}

// add publishes messages, of which some will fail.
func (d *deaths) add(n int) {
	for range n {
		g := d.random.IntN(len(d.groups))
		id, address := fmt.Sprintf("g%d-%d", g, d.groups[g]), ""
		if g == 0 {
			address = "other"
		}
		d.mu.Lock()
		d.groups[g]++
		switch d.random.IntN(8) {
		case 0:
			d.dies[id] = true
		case 1:
			d.early[id] = !d.a.deliverFirst
		case 2:
			d.fails[id] = true
		}
		if d.dies[id] || d.early[id] {
			d.dying.Store(id, true)
		}
		d.mu.Unlock()
		if d.table != nil {
			(&queueRig{d.a, d.table}).put(address, id[:2], id)
		} else {
			d.a.addTo(address, id[:2], id)
		}
	}
}

// wait has writes of deaths fail, or not.
func (d *deaths) wait(waits bool) {
	if d.waits.Store(waits); d.table != nil {
		return
	}
	if d.a.state.setFail(nil); waits {
		d.a.state.setFail(errInjected)
	}
}

// pause pauses a group, or resumes it.
func (d *deaths) pause(g int, paused bool) {
	p := adapters.Pause{Route: "orders", Group: fmt.Sprintf("g%d", g), By: "t"}
	if d.paused[g] == paused {
		return
	}
	if d.paused[g] = paused; paused {
		d.a.pause(p)
	} else {
		d.a.resumeGroup(p.Group)
	}
}

// command redrives or skips a message that is parked.
func (d *deaths) command() {
	rows := d.a.parked()
	if len(rows) == 0 {
		return
	}
	id, action := rows[d.random.IntN(len(rows))].ID, adapters.ParkedRedrive
	if d.random.IntN(2) == 0 {
		action = adapters.ParkedSkip
	}
	d.mu.Lock()
	d.moved[id] = true
	d.skipped[id] = d.skipped[id] || action == adapters.ParkedSkip
	d.mu.Unlock()
	_, _ = d.a.state.ChangeParked(context.Background(), adapters.ParkedCommand{Action: action, Filter: adapters.ParkedFilter{ID: id}})
}

// step is something that happens.
func (d *deaths) step() {
	switch d.random.IntN(10) {
	case 0, 1:
		d.wait(true)
	case 2:
		d.wait(false)
	case 3, 4:
		g := d.random.IntN(len(d.groups))
		d.pause(g, !d.paused[g])
	case 5:
		d.command()
	case 6:
		d.mu.Lock()
		d.down = !d.down
		d.mu.Unlock()
	case 7: // lanes are lost, or move
		switch {
		case d.random.IntN(2) == 0:
			d.mu.Lock()
			d.lost = true
			d.mu.Unlock()
			d.a.state.evict()
		case d.both:
			d.wait(false)
			d.b.stop()
			d.both = false
		default:
			d.begin(d.b)
			d.both = true
		}
	case 8:
		d.add(10)
	case 9: // claims count as stuck
		if d.table == nil {
			return
		}
		d.table.steal(func(row *queueRow) bool { _, dies := d.dying.Load(row.ID); return dies && d.random.IntN(2) == 0 })
	}
}

// ended reports whether each message has arrived, or it is durable that it is dead, or an operator has skipped it.
func (d *deaths) ended() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for g, n := range d.groups {
		for i := range n {
			id := fmt.Sprintf("g%d-%d", g, i)
			dead := (d.dies[id] || d.early[id]) && d.written(id)
			if d.arrived[id] == 0 && !d.skipped[id] && !dead {
				return false
			}
		}
	}
	return true
}

// A message is dead, its write waits, and its group is evicted, paused, parked by another failure, moved with its lane, skipped or redriven, or its claim is lost:
// nothing of the group passes it, everything ends, once unless lanes were lost, and nothing stays in the lanes.
func TestG1_G2_G3_WhatMeetsADeathThatIsNotWritten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testenv.Brief(80, 200)) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, templated)
			r.deliverFirst = seed%4 >= 2
			d := newDeaths(r, seed)
			d.add(30)
			d.begin(d.a)
			time.Sleep(time.Second)
			for range 14 {
				d.step()
				time.Sleep(time.Duration(d.random.IntN(1500)) * time.Millisecond)
			}
			d.wait(false)
			for g := range d.groups {
				d.pause(g, false)
			}
			d.mu.Lock()
			d.down = false
			d.mu.Unlock()
			d.a.until(fmt.Sprintf("seed %d: all have ended", seed), d.ended)
			d.a.until(fmt.Sprintf("seed %d: nothing is in flight", seed), func() bool {
				return d.a.router.Stats()[0].InFlight == 0 && (!d.both || d.b.router.Stats()[0].InFlight == 0)
			})
			if d.both {
				d.b.stop()
			}
			d.a.stop()
			for id, n := range d.arrived {
				if n > 1 && !d.lost {
					d.wrong = append(d.wrong, fmt.Sprintf("%s arrived %d times", id, n))
				}
			}
			if len(d.wrong) > 0 {
				t.Errorf("seed %d: %v", seed, d.wrong[:min(len(d.wrong), 5)])
			}
		})
	}
}

// Some of a group's parked messages have come back, and the last of them is dead: while that is not written, fresh messages join those that are
// still parked.
func TestG2_FreshMessagesBehindADeathAndParkedOnes(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		first := flaky(outbox.Transient(errInjected, 3*time.Second))
		r.dest.setFail(func(address string, msg *message.Message) error {
			switch msg.UUID {
			case "g0-0":
				return first(address, msg)
			case "g0-1":
				r.state.setFail(errInjected)
				return outbox.Permanent(errInjected)
			}
			return nil
		})
		r.fill(1, 6)
		r.start(r.route(func(rt *Route) { rt.Window = 8 }))
		r.await(1)
		r.fillFrom(1, 6, 9)
		time.Sleep(time.Minute)
		r.state.setFail(nil)
		r.await(8)
		r.stop()
		want := []string{"g0-0", "g0-2", "g0-3", "g0-4", "g0-5", "g0-6", "g0-7", "g0-8"}
		if got := r.dest.received()["g0"]; !slices.Equal(got, want) {
			t.Errorf("arrived %v, want %v", got, want)
		}
	})
}
