package ownership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/logging"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// The lanes of a source with partitions are assigned by its group, not by the function assign. Everything else is as with other routes: lanes are acquired
// in the state store and fenced by their epochs, so an instance that still believes to be in the group does no harm.

// commitPause is the pause between commits of offsets, which only show others how far the group is.
const commitPause = time.Second

// assigned returns the lanes that the group has given to us; nil: the route has no group.
func (r *Route) assigned() map[int]bool {
	if r.Group == nil {
		return nil
	}
	out := map[int]bool{}
	slots, of := r.Group.Owned()
	r.Parts.Store(int32(min(of, len(r.Lanes))))
	for _, slot := range slots {
		if slot < len(r.Lanes) {
			out[slot] = true
		}
	}
	return out
}

// joinGroups takes part in the groups of the manager's routes.
func (m *Manager) joinGroups() error {
	for _, rt := range m.routes.All() {
		if rt.Group == nil {
			continue
		}
		err := rt.Group.Join(adapters.GroupCalls{
			Changed: func() { signal.Send(m.reassigned) },
			Revoked: func(slots []int) { m.revoke(rt, slots) },
			Lost: func(slots []int) {
				for _, s := range rt.Sessions() {
					if slices.Contains(slots, s.Lane.Index) {
						m.lose(s)
					}
				}
			},
		})
		if err != nil {
			return fmt.Errorf("route %q: %w", rt.Name, err)
		}
	}
	return nil
}

// handBack gives up lanes that were acquired while the group took them away.
func (m *Manager) handBack(rt *Route) {
	assigned := rt.assigned()
	if sessions := m.quiesceWhere(rt, func(s *lane.Session) bool { return !assigned[s.Lane.Index] }); len(sessions) > 0 {
		m.background(func() { m.quiesce(rt, sessions, m.drainFor) })
	}
}

// revoke hands over lanes that the group takes away. Those that have no session are not ours, or are being given up by another goroutine.
func (m *Manager) revoke(rt *Route, slots []int) {
	sessions := m.quiesceWhere(rt, func(s *lane.Session) bool { return slices.Contains(slots, s.Lane.Index) })
	if len(sessions) == 0 {
		return
	}
	began := time.Now()
	rt.Log().Info("handing partitions over to other members of the group", "partitions", len(sessions))
	if m.quiesce(rt, sessions, m.drainFor) {
		if err := commit(context.Background(), rt, sessions); err != nil {
			rt.Log().Warn("the last offsets of partitions that were handed over could not be committed to the group; the state store has them", "error", err)
		}
		rt.Log().Info("partitions were handed over", "partitions", len(sessions), "took", time.Since(began).Round(time.Millisecond))
	}
}

// leaveGroups commits what is settled, and ends the memberships.
func (m *Manager) leaveGroups() {
	for _, rt := range m.routes.All() {
		if rt.Group == nil {
			continue
		}
		m.mu.Lock()
		sessions := slices.DeleteFunc(slices.Clone(m.drained), func(s *lane.Session) bool { return s.Route != rt.Route })
		m.mu.Unlock()
		if err := commit(context.Background(), rt, sessions); err != nil {
			rt.Log().Warn("the last offsets could not be committed to the group; the state store has them", "error", err)
		}
		rt.Group.Leave()
	}
}

// CommitOffsets commits what is settled until ctx ends.
func (m *Manager) CommitOffsets(ctx context.Context) {
	if !slices.ContainsFunc(m.routes.All(), func(rt *Route) bool { return rt.Group != nil }) {
		return
	}
	var failing logging.Outage
	for signal.Sleep(commitPause, ctx.Done()) {
		for _, rt := range m.routes.All() {
			if rt.Group == nil {
				continue
			}
			if err := commit(ctx, rt, rt.Sessions()); ctx.Err() == nil {
				failing.Report(rt.Log(), slog.LevelWarn, err, "offsets cannot be committed to the group, trying again; the state store has them", "offsets are committed again")
			}
		}
	}
}

// commit tells the group what sessions have durably settled. Those that have lost their lanes have nothing to say.
func commit(ctx context.Context, rt *Route, sessions []*lane.Session) error {
	settled := map[int]int64{}
	for _, s := range sessions {
		if s.Lost() {
			continue
		}
		maps.Copy(settled, lane.Durable(s))
	}
	if len(settled) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rt.manager.lease)
	defer cancel()
	err := rt.Group.Commit(ctx, settled)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// placeOf is what the answers of a source for a slot depend on: the slot, if it has positions of its own.
func (r *Route) placeOf(slot int) int {
	if r.Group == nil {
		return 0
	}
	return slot
}

// startOf is where a new lane begins.
func (r *Route) startOf(ctx context.Context, now *round, slot int) (adapters.Cursor, error) {
	return answer(now, question{r.Source, [2]any{r.Start, r.placeOf(slot)}}, func() (adapters.Cursor, error) {
		if r.Group != nil {
			return r.Group.StartIn(ctx, slot, r.Start)
		}
		return r.Source.Start(ctx, r.Start)
	})
}

// validate checks the cursor of a lane.
func (r *Route) validate(ctx context.Context, st *adapters.LaneState) error {
	if r.Group != nil {
		return r.Group.ValidateIn(ctx, st.Slot, st.Cursor)
	}
	return r.Source.Validate(ctx, st.Cursor)
}
