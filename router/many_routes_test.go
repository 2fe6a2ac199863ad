package router

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// manyState acquires lanes of many routes at once, or fails to, and counts what a start asks it.
type manyState struct {
	*memState
	fails bool
	asked atomic.Int32
}

func (s *manyState) AcquireRoutes(ctx context.Context, instance string, wanted []adapters.Wanted) (map[string]adapters.Acquired, error) {
	if s.asked.Add(1); s.fails {
		return nil, errInjected
	}
	out := map[string]adapters.Acquired{}
	for _, w := range wanted {
		lanes, err := s.memState.Acquire(ctx, instance, w.Route, w.Slots, w.Most)
		if err == nil {
			err = s.memState.Bind(ctx, w.Route, w.Table)
		}
		a := adapters.Acquired{Paused: errors.Is(err, adapters.ErrPaused)}
		for _, l := range lanes {
			l.Table.Cluster, l.Table.Name = w.Table.Cluster, w.Table.Name
			a.Lanes = append(a.Lanes, l)
			s.mu.Lock()
			a.Parking = a.Parking || len(s.queue(l.LaneRef)) > 0
			s.mu.Unlock()
		}
		out[w.Route] = a
	}
	return out, nil
}

func (s *manyState) Acquire(ctx context.Context, instance, route string, slots []int, most int) ([]adapters.LaneState, error) {
	s.asked.Add(1)
	return s.memState.Acquire(ctx, instance, route, slots, most)
}

func (s *manyState) Bind(ctx context.Context, route string, table adapters.Table) error {
	s.asked.Add(1)
	return s.memState.Bind(ctx, route, table)
}

func (s *manyState) Pauses(ctx context.Context, route string) ([]adapters.Pause, error) {
	s.asked.Add(1)
	return s.memState.Pauses(ctx, route)
}

func (s *manyState) ParkedGroups(ctx context.Context, route string, slots []int) ([]adapters.ParkedGroup, error) {
	s.asked.Add(1)
	return s.memState.ParkedGroups(ctx, route, slots)
}

// namedSource knows the name of its table.
type namedSource struct{ *memSource }

func (namedSource) Table(context.Context) (adapters.Table, error) {
	return adapters.Table{Cluster: "mem", Name: "orders"}, nil
}

// manyRoutes starts routes on a state store, of which the first is paused and the second has a parked message.
func manyRoutes(r *rig, state *manyState, n int) {
	r.state.pauses = []adapters.Pause{{Route: "orders-0"}}
	parked := adapters.LaneRef{Route: "orders-1", Slot: 3}
	r.state.lanes[parked] = &adapters.LaneState{LaneRef: parked, New: true, NextSeq: 2}
	r.state.parked[parked] = map[int64]adapters.Parked{1: {LaneRef: parked, Seq: 1, Status: adapters.ParkedWaiting, Group: "g", ID: "parked", Type: "t"}}
	var all []Route
	source := namedSource{r.source}
	for i := range n {
		all = append(all, r.route(func(rt *Route) { rt.Name, rt.State, rt.Source = fmt.Sprint("orders-", i), state, source }))
	}
	r.fill(2, 5)
	r.start(all...)
	r.await(10*(n-1) + 1)
}

// The start of many routes asks the state store as often as that of two, but for a route with parked messages.
func TestManyRoutesStartTogether(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		state := &manyState{memState: r.state}
		manyRoutes(r, state, 20)
		if n := state.asked.Load(); n > 3 { // lanes, pauses, what is parked of one route
			t.Errorf("the state store was asked %d times for 20 routes", n)
		}
		r.stop()
	})
}

// What cannot be acquired together is acquired route by route.
func TestManyRoutesStartOneByOne(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		state := &manyState{memState: r.state, fails: true}
		manyRoutes(r, state, 20)
		r.stop()
	})
}
