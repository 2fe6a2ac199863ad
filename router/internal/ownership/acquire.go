package ownership

import (
	"context"
	"log/slog"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// acquire takes free lanes of a route, up to our share, and starts their sessions; it reports whether the share is complete.
func (m *Manager) acquire(ctx context.Context, now *round, rt *Route, share int) (bool, error) {
	if m.failing(rt) {
		return false, m.retryRoute(ctx, rt)
	}
	want, most := m.missing(rt, share)
	if most <= 0 {
		return true, nil
	}
	if m.before != nil {
		if err, asked := now.before[rt]; !asked || err != nil { // what it lacks it has lost since
			return false, err
		}
	}
	states, err := m.take(ctx, now, rt, want, most)
	if err != nil || len(states) == 0 {
		return false, err
	}
	failpoint.Hit(failpoint.Acquired)
	if rt.Unit != "" && len(states) < len(want) {
		m.giveUp(ctx, states) // all or nothing: its former owner has not released all of it
		return false, nil
	}
	if err := m.begin(ctx, now, rt, states); err != nil {
		m.giveUp(ctx, states)
		return false, err
	}
	return len(states) == most, nil
}

// prepareRoutes calls [Config].Before for all routes that lack lanes.
func (m *Manager) prepareRoutes(ctx context.Context, now *round, shares *assignment) {
	if m.before == nil {
		return
	}
	var names []string
	var lacking []*Route
	for _, rt := range m.routes.All() {
		if _, most := m.missing(rt, shares.share(m.instance, rt.Name)); most > 0 && !m.failing(rt) {
			lacking, names = append(lacking, rt), append(names, rt.Name)
		}
	}
	if len(lacking) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.lease/2)
	defer cancel()
	refused := m.before(ctx, names)
	for _, rt := range lacking {
		now.before[rt] = refused[rt.Name]
	}
}

// begin starts sessions in all lanes that were acquired, or in none.
func (m *Manager) begin(ctx context.Context, now *round, rt *Route, states []adapters.LaneState) error {
	if err := rt.prepare(ctx, now, states); err != nil {
		return err
	}
	pauses, err := m.pausesOf(ctx, now, rt)
	if err != nil {
		return err
	}
	for _, p := range pauses {
		if p.OfRoute() { // it was written after we had acquired
			return adapters.ErrPaused
		}
	}
	m.recovered(rt)
	rt.ApplyPauses(pauses)
	if err := m.startSessions(ctx, now, rt, states); err != nil {
		return err
	}
	rt.Feeder.Wake()
	m.Settler.Note(false) // first cursors are written at once
	return nil
}

// missing returns the cursor rows of the route that have no session, and how many of them our share lacks. Lanes that quiesce are not among
// them: acquiring those would fence what they have still to settle.
func (m *Manager) missing(rt *Route, share int) (want []int, most int) {
	if rt.leaving {
		return nil, 0
	}
	assigned := rt.assigned()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range rt.Lanes {
		switch {
		case assigned != nil && !assigned[l.Index]:
		case m.quiescing[l] != nil:
		case l.Session() != nil:
			share -= len(l.Slots)
		default:
			want = append(want, l.Slots...)
		}
	}
	if assigned != nil {
		return want, len(want)
	}
	return want, min(share, len(want))
}

// startSessions starts a session in every lane whose cursor rows were acquired. A lane with several rows belongs to a route that moves as a
// whole: all of its rows are there.
func (m *Manager) startSessions(ctx context.Context, now *round, rt *Route, states []adapters.LaneState) error {
	bySlot := map[int][]adapters.LaneState{}
	slots := make([]int, len(states))
	for i, st := range states {
		bySlot[st.Slot], slots[i] = []adapters.LaneState{st}, st.Slot
	}
	var groups []adapters.ParkedGroup
	if taken, together := now.taken[rt.Name]; !together || taken.Parking {
		var err error
		if groups, err = rt.State.ParkedGroups(ctx, rt.Name, slots); err != nil {
			return err
		}
	}
	parked := map[int][]adapters.ParkedGroup{}
	for _, g := range groups {
		parked[g.Slot] = append(parked[g.Slot], g)
	}
	for _, l := range rt.Lanes {
		var mine []adapters.LaneState
		var of []adapters.ParkedGroup
		for _, slot := range l.Slots {
			mine, of = append(mine, bySlot[slot]...), append(of, parked[slot]...)
		}
		if len(mine) > 0 {
			lane.NewSession(l, rt.table, mine, of).Start()
		}
	}
	return nil
}

// giveUp releases rows that were acquired and have no session. If that fails they are released in a later round: no other instance could
// acquire them.
func (m *Manager) giveUp(ctx context.Context, states []adapters.LaneState) {
	for _, st := range states {
		m.peers.orphans = append(m.peers.orphans, st.LaneRef)
	}
	m.releaseOrphans(ctx)
}

// withoutSession returns the rows of no session, in its lane or quiescing. Call with the mutex held.
func (m *Manager) withoutSession(rows []adapters.LaneRef) []adapters.LaneRef {
	if len(rows) == 0 {
		return nil
	}
	return notWorked(rows, m.withQuiescing(m.working()))
}

// notWorked returns the rows of none of the sessions.
func notWorked(rows []adapters.LaneRef, sessions []*lane.Session) []adapters.LaneRef {
	worked := map[adapters.LaneRef]bool{}
	for _, s := range sessions {
		for _, ref := range s.Lane.Rows() {
			worked[ref] = true
		}
	}
	return slices.DeleteFunc(rows, func(ref adapters.LaneRef) bool { return worked[ref] })
}

// findOrphans releases rows that are ours without a session: from an earlier process of the same name, or because the answer to an Acquire was
// lost. Only the goroutine that acquires may do this: rows that it has just acquired are no orphans.
func (m *Manager) findOrphans(ctx context.Context) {
	m.mu.Lock()
	m.peers.orphans = append(m.peers.orphans, m.withoutSession(m.unclaimed)...)
	m.unclaimed = nil
	m.mu.Unlock()
	m.releaseOrphans(ctx)
}

func (m *Manager) releaseOrphans(ctx context.Context) {
	if len(m.peers.orphans) == 0 || ctx.Err() != nil {
		return
	}
	err := m.peers.release.Call(ctx, func(ctx context.Context) error { return m.Store.Release(ctx, m.instance, m.peers.orphans) })
	switch {
	case err == nil:
		m.releasing.End(m.log, "")
		m.peers.orphans = nil
	case ctx.Err() == nil:
		m.releasing.Fail(m.log, slog.LevelWarn, "lanes that are not worked cannot be released, trying again", err)
	}
}
