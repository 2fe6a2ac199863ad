package router

import (
	"context"

	"github.com/outriderhq/outrider/outbox"
)

// acquire takes what is free of a route and starts its sessions; it tells
// whether all lanes are worked by us.
func (k *keeper) acquire(ctx context.Context, rt *route) (bool, error) {
	want := k.missing(rt)
	if len(want) == 0 {
		return true, nil
	}
	states, err := k.store.Acquire(ctx, k.instance, rt.Name, want)
	if err != nil || len(states) == 0 {
		return false, err
	}
	if err := rt.prepare(ctx, states); err != nil {
		return false, err
	}
	pauses, err := k.store.Pauses(ctx, rt.Name)
	if err != nil {
		return false, err
	}
	for _, p := range pauses {
		if p.Address == "" { // it was written after we had acquired
			if err := k.giveUp(ctx, states); err != nil {
				return false, err
			}
			return false, outbox.ErrPaused
		}
	}
	k.mended(rt)
	k.applyAddresses(rt, pauses)
	all, err := k.startSessions(ctx, rt, states)
	if err != nil {
		return false, err
	}
	rt.wakeReader()
	k.router.settlers[k.store].note(false) // first cursors are written at once
	return all, nil
}

// missing are the cursor rows of the route's lanes that have no session. There
// are none while sessions come to rest: taking their lanes would fence what they
// have still to settle.
func (k *keeper) missing(rt *route) []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.resting[rt] != nil {
		return nil
	}
	var out []int
	for _, l := range rt.lanes {
		if l.session.Load() == nil {
			out = append(out, l.slots...)
		}
	}
	return out
}

// startSessions starts a session in every lane of which all cursor rows were
// acquired; it tells whether those were all that had none. Rows of lanes that
// are not complete are given up: two instances that each keep some of them would
// wait for each other.
func (k *keeper) startSessions(ctx context.Context, rt *route, states []outbox.LaneState) (all bool, err error) {
	bySlot := map[int]outbox.LaneState{}
	for _, st := range states {
		bySlot[st.Slot] = st
	}
	all = true
	var parts []outbox.LaneState
	for _, l := range rt.lanes {
		if l.session.Load() != nil {
			continue
		}
		mine := make([]outbox.LaneState, 0, len(l.slots))
		for _, slot := range l.slots {
			if st, ok := bySlot[slot]; ok {
				mine = append(mine, st)
			}
		}
		if len(mine) < len(l.slots) {
			all = false
			parts = append(parts, mine...)
			continue
		}
		groups, err := loadGroups(ctx, rt, l.slots)
		if err != nil {
			return false, err
		}
		newSession(l, mine, groups).start()
	}
	return all, k.giveUp(ctx, parts)
}

// giveUp releases rows that were acquired and have no session.
func (k *keeper) giveUp(ctx context.Context, states []outbox.LaneState) error {
	if len(states) == 0 {
		return nil
	}
	lanes := make([]outbox.LaneRef, len(states))
	for i, st := range states {
		lanes[i] = st.LaneRef
	}
	return k.store.Release(ctx, k.instance, lanes)
}
