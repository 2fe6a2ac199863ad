package ownership

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// routesTogether is of how many routes lanes are acquired in one transaction.
const routesTogether = 128

// takeTogether acquires what several routes lack, where the state store can: a transaction for each of hundreds of routes takes seconds. What it
// does not get, because of one of them perhaps, is acquired route by route.
func (m *Manager) takeTogether(ctx context.Context, now *round, shares *assignment) {
	store, able := m.Store.(adapters.RoutesAcquirer)
	if !able {
		return
	}
	taken := map[string]adapters.Acquired{}
	err := m.peers.together.Call(ctx, func(ctx context.Context) error {
		wanted := m.wantedTogether(ctx, now, shares)
		if len(wanted) < 2 {
			return nil
		}
		for some := range slices.Chunk(wanted, routesTogether) {
			got, err := store.AcquireRoutes(ctx, m.instance, some)
			if err != nil {
				return err
			}
			maps.Copy(taken, got)
		}
		pauses, err := m.Store.Pauses(ctx, "") // as in begin: those written after we had acquired
		now.pauses = pauses
		return err
	})
	if err != nil { // rows that are ours are acquired again
		m.taking.Fail(m.log, slog.LevelWarn, "cannot acquire lanes of several routes at once, trying one by one", err)
		return
	}
	now.taken = taken
}

// wantedTogether returns what routes lack that can run.
func (m *Manager) wantedTogether(ctx context.Context, now *round, shares *assignment) (out []adapters.Wanted) {
	unable := map[adapters.Source]bool{} // those that do not say which table they read are asked once
	for _, rt := range m.routes.All() {
		want, most := m.missing(rt, shares.share(m.instance, rt.Name))
		if most <= 0 || m.failing(rt) || now.before[rt] != nil || unable[rt.Source] {
			continue
		}
		if rt.locate(ctx, now) != nil {
			unable[rt.Source] = true
			continue
		}
		out = append(out, adapters.Wanted{Route: rt.Name, Slots: want, Most: most, Table: rt.table})
	}
	return out
}

// take acquires lanes of a route, unless takeTogether has.
func (m *Manager) take(ctx context.Context, now *round, rt *Route, want []int, most int) ([]adapters.LaneState, error) {
	taken, together := now.taken[rt.Name]
	switch {
	case !together:
		return m.Store.Acquire(ctx, m.instance, rt.Name, want, most)
	case taken.Paused:
		return nil, adapters.ErrPaused
	}
	return taken.Lanes, nil
}

// pausesOf returns the pauses of a route.
func (m *Manager) pausesOf(ctx context.Context, now *round, rt *Route) (pauses []adapters.Pause, err error) {
	if _, together := now.taken[rt.Name]; !together {
		return m.Store.Pauses(ctx, rt.Name)
	}
	for _, p := range now.pauses {
		if p.Route == rt.Name {
			pauses = append(pauses, p)
		}
	}
	return pauses, nil
}
