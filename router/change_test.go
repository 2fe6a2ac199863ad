package router

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// versioned is the route with settings of a version.
func (r *rig) versioned(dest *receiver, version int) Route {
	def := r.route(func(rt *Route) {
		rt.Destination, rt.Window = dest, 100+version
		if version%3 == 2 {
			rt.Attempts, rt.Order = 7, adapters.OrderGroup
		}
		if version%4 == 3 {
			rt.Pace = Poll{Min: 20 * time.Millisecond, Max: 50 * time.Millisecond}
		}
	})
	if r.deliverFirst {
		withDeliverFirst(&def)
	}
	return def
}

// Routes change 60 times under load: to other settings, by an end and a beginning, with receivers that fail. What is not concerned keeps its sessions,
// nothing is lost, repeated or out of order.
func TestG1_G2_G3_RoutesChangeWhileTheOthersGoOn(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		other := &receiver{ordering: group}
		var mu sync.Mutex
		failed := map[string]bool{}
		r.dest.setFail(func(_ string, msg *message.Message) error { // each tenth fails once
			mu.Lock()
			defer mu.Unlock()
			if rand.IntN(10) > 0 || failed[msg.UUID] {
				return nil
			}
			failed[msg.UUID] = true
			return outbox.Transient(errors.New("not now"), 0)
		})
		r.start(r.route(nil), r.route(func(rt *Route) { rt.Name, rt.Destination = "other", other }))
		<-r.router.Ready()
		var before []*lane.Session
		r.until("all lanes are worked", func() bool { before = r.router.named("other").Sessions(); return len(before) == 16 })
		const rounds = 60
		there := true
		for i := range rounds {
			r.fillFrom(20, 5*i, 5*i+5)
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
			switch {
			case i%5 == 4 && there:
				if err := r.router.Change([]string{"orders"}, nil); err != nil {
					t.Fatal(err)
				}
				there = false
			case there:
				if err := r.router.Change([]string{"orders"}, []Route{r.versioned(r.dest, i)}); err != nil {
					t.Fatal(err)
				}
			default:
				if err := r.router.Change(nil, []Route{r.versioned(r.dest, i)}); err != nil {
					t.Fatal(err)
				}
				there = true
			}
		}
		if !there {
			if err := r.router.Change(nil, []Route{r.versioned(r.dest, 0)}); err != nil {
				t.Fatal(err)
			}
		}
		r.await(rounds * 100)
		r.until("the other route has everything", func() bool { return other.count() == rounds*100 })
		if after := r.router.named("other").Sessions(); !slices.Equal(before, after) {
			t.Error("the route that did not change has other sessions")
		}
		time.Sleep(time.Second)
		r.stop()
		r.checkOrdered(20, 5*rounds)
		checkEachOnce(t, 20, 5*rounds, other)
	})
}

// A change meets what else happens: pauses, an instance that comes and goes, results that cannot be written. At the end everything has arrived once,
// in order.
func TestG1_G2_G3_ChangesOfRoutesAmongOtherEvents(t *testing.T) {
	inBubble(t, group, func(a *rig) {
		a.config.Instance = "a"
		store := &unsettling{memState: a.state}
		here := func(version int) Route {
			def := a.versioned(a.dest, version)
			def.State = store
			return def
		}
		b := a.peer("b")
		other := &receiver{ordering: group}
		a.start(here(0), a.route(func(rt *Route) { rt.Name, rt.Destination, rt.State = "other", other, store }))
		<-a.router.Ready()
		paused, joined, changing := false, false, make(chan error, 1)
		changing <- nil
		const rounds = 150
		for i := range rounds {
			a.fillFrom(20, 2*i, 2*i+2)
			switch rand.IntN(6) {
			case 0:
				if paused = !paused; paused {
					a.pause(adapters.Pause{Route: "orders"})
				} else {
					a.resume("")
				}
			case 1:
				store.on.Store(!store.on.Load())
			case 2:
				if joined = !joined; joined {
					b = a.peer("b")
					b.dest = a.dest
					b.start(b.versioned(b.dest, 0))
				} else {
					b.stop()
				}
			default:
				select {
				case err := <-changing: // the former one
					if err != nil {
						t.Fatal(err)
					}
					go func() { changing <- a.router.Change([]string{"orders"}, []Route{here(i)}) }()
				default:
				}
			}
			time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		}
		store.on.Store(false)
		if err := <-changing; err != nil {
			t.Fatal(err)
		}
		if paused {
			a.resume("")
		}
		a.await(rounds * 40)
		a.until("the other route has everything", func() bool { return other.count() == rounds*40 })
		if joined {
			b.stop()
		}
		time.Sleep(time.Second)
		a.stop()
		a.checkOrdered(20, 2*rounds)
		checkEachOnce(t, 20, 2*rounds, other)
	})
}

// Messages that this process publishes by the hot path meet changes of their route: before the commit, after it, and while it has no route.
func TestG1_G2_G3_HotRowsWhileRoutesChange(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		other := &receiver{ordering: wave}
		r.start(r.route(nil), r.route(func(rt *Route) { rt.Name, rt.Destination = "other", other }))
		<-r.router.Ready()
		changed := make(chan error, 1)
		changed <- nil
		const rounds = 400
		for i := range rounds {
			select {
			case err := <-changed:
				if err != nil {
					t.Fatal(err)
				}
				go func() { changed <- r.router.Change([]string{"orders"}, []Route{r.versioned(r.dest, 4*i)}) }() // without a pace of its own
			default:
			}
			for g := range 5 {
				r.source.mu.Lock()
				r.source.coming = &adapters.Row{ID: fmt.Sprintf("g%d-%d", g, i), Type: "t", Group: fmt.Sprint("g", g), Payload: []byte("{}"), CreatedAt: time.Now()}
				row := r.source.coming
				r.source.mu.Unlock()
				in := r.router.AnnounceRows(r.source, "")
				in.Inserted(nil)
				time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
				r.source.add(row)
				time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
				in.Committed()
				r.router.Committed(r.source, in.Slots)
			}
		}
		if err := <-changed; err != nil {
			t.Fatal(err)
		}
		r.await(rounds * 5)
		r.until("the other route has everything", func() bool { return other.count() == rounds*5 })
		time.Sleep(time.Second)
		r.stop()
		r.checkOrdered(5, rounds)
		checkEachOnce(t, 5, rounds, other)
	})
}

// That a source was put back is known to the next route of the name, until its lanes have begun.
func TestG1_AChangedRouteKnowsThatItsSourceWasPutBack(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.start(r.route(nil), r.route(func(rt *Route) { rt.Name = "other" }))
		<-r.router.Ready()
		r.router.named("orders").PutBack[5].Store(true)
		if err := r.router.Change([]string{"orders"}, []Route{r.versioned(r.dest, 4)}); err != nil {
			t.Fatal(err)
		}
		if !r.router.named("orders").PutBack[5].Load() {
			t.Error("the changed route does not know it")
		}
		r.stop()
	})
}

// A router that stops while routes change ends as always, and says so to who changes them.
func TestG3_ARouterStopsWhileRoutesChange(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		store := &unsettling{memState: r.state}
		r.start(r.route(func(rt *Route) { rt.State = store }), r.route(func(rt *Route) { rt.Name, rt.State = "other", store }))
		<-r.router.Ready()
		r.fill(20, 5)
		r.await(200)
		store.on.Store(true) // the old route cannot be given up
		r.fillFrom(20, 5, 6)
		r.await(240)
		changed := make(chan error, 1)
		go func() {
			def := r.route(func(rt *Route) { rt.State = store })
			changed <- r.router.Change([]string{"orders"}, []Route{def})
		}()
		time.Sleep(time.Second)
		store.on.Store(false)
		r.cancel()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		if err := <-changed; err != nil && !errors.Is(err, ErrStopping) {
			t.Error(err)
		}
		if err := r.router.Change([]string{"orders"}, nil); !errors.Is(err, ErrStopping) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// What cannot change while the router runs is refused, and nothing has changed.
func TestG11_ImpossibleChangesOfRoutesAreRefused(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.start(r.route(nil), r.route(func(rt *Route) { rt.Name = "other" }))
		<-r.router.Ready()
		elsewhere := newRig(t, group)
		for what, try := range map[string]struct {
			ended []string
			begun []Route
			want  string
		}{
			"a route that is not there": {[]string{"none"}, nil, `route "none" cannot be ended`},
			"a name that is taken":      {nil, []Route{r.route(nil)}, `route "orders" cannot begin`},
			"another source":            {nil, []Route{r.route(func(rt *Route) { rt.Name, rt.Source = "new", elsewhere.source })}, `route "new" cannot begin`},
			"another state store":       {nil, []Route{r.route(func(rt *Route) { rt.Name, rt.State = "new", elsewhere.state })}, `route "new" cannot begin`},
			"no destination":            {[]string{"orders"}, []Route{r.route(func(rt *Route) { rt.Destination = nil })}, "needs a destination"},
		} {
			if err := r.router.Change(try.ended, try.begun); err == nil || !strings.Contains(err.Error(), try.want) {
				t.Errorf("%s: %v", what, err)
			}
		}
		r.fill(20, 5)
		r.await(200)
		time.Sleep(time.Second)
		if names := fmt.Sprint(r.router.Stats()[0].Route, " ", r.router.Stats()[1].Route); names != "orders other" {
			t.Errorf("the routes are %s", names)
		}
		r.stop()
	})
}
