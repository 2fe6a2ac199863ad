package ownership

import (
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// A lane is quiesced to be handed over, or because its route was paused, as on shutdown: reading stops, what is being sent is finished,
// everything is settled, then its rows are released. Until then it is not taken again: that would fence what is still to be settled.

// handOver hands over what we have of a route above our share.
func (m *Manager) handOver(rt *Route, shares *assignment) {
	if rt.Group != nil {
		m.handBack(rt)
		return
	}
	if len(shares.runs[rt.Name]) == 0 {
		return // it is in trouble everywhere: no instance would take it
	}
	sessions := m.beginQuiescing(rt, shares.share(m.instance, rt.Name))
	if len(sessions) == 0 {
		return
	}
	began := time.Now()
	rt.Log().Info("handing lanes over to other instances", "lanes", len(sessions))
	m.background(func() {
		if m.quiesce(rt, sessions, m.drainFor) {
			rt.Log().Info("lanes were handed over", "lanes", len(sessions), "took", time.Since(began).Round(time.Millisecond))
		}
	})
}

// beginQuiescing returns the sessions of a route above a share, which quiesce from now on.
func (m *Manager) beginQuiescing(rt *Route, share int) (out []*lane.Session) {
	return m.quiesceWhere(rt, func(s *lane.Session) bool {
		share -= len(s.Lane.Slots)
		return share < 0
	})
}

// quiesceWhere has sessions of a route quiesce, and returns them.
func (m *Manager) quiesceWhere(rt *Route, goes func(*lane.Session) bool) (out []*lane.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.draining {
		return nil
	}
	for _, s := range rt.Sessions() {
		if m.quiescing[s.Lane] == nil && goes(s) {
			m.quiescing[s.Lane] = s
			out = append(out, s)
		}
	}
	return out
}

// quiesce ends sessions of a route that have begun to quiesce. Each lane is released as soon as it has ended, lanes of a route that moves as a
// whole together. Deliveries in flight are cancelled when limit is over. It reports whether all were released; if not, the drain does the rest.
func (m *Manager) quiesce(rt *Route, sessions []*lane.Session, limit time.Duration) bool {
	stopping, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ended := make(chan *lane.Session, len(sessions)) // nil: the process stops before
	for _, s := range sessions {
		go func() {
			s.Stop(stopping)
			if !m.conclude(rt, s) {
				s = nil
			}
			ended <- s
		}()
	}
	released := true
	for left := len(sessions); left > 0; {
		least := 1
		if rt.Unit != "" {
			least = left
		}
		var batch []*lane.Session
		for n := 0; n < least || len(ended) > 0; n++ {
			left--
			if s := <-ended; s != nil {
				batch = append(batch, s)
			} else {
				released = false
			}
		}
		released = (released || rt.Unit == "") && m.release(rt, batch) && released
	}
	for _, left := range lane.UnknownBy(sessions) {
		rt.Log().Warn("deliveries were cut off: whether they arrived is not known, and they may come again",
			"messages", left.Messages, "lanes", left.Lanes, "after", limit)
	}
	return released
}

// conclude writes what a stopped session has concluded; false if the process stops before. A result may have to wait long, for a row lock, so
// each session waits by itself.
func (m *Manager) conclude(rt *Route, s *lane.Session) bool {
	return m.retryUntilDone(rt, "write the last progress of lanes that are given up", func(ctx context.Context) error {
		return m.Settler.Flush(ctx, settling.Concluded, s) // of a stopped session all is written
	}) && m.retryUntilDone(rt, "give back what was taken for lanes that are given up", func(ctx context.Context) error { // a subscription when the acks are out
		return rt.Feeder.GiveUp(ctx, s.Lane.Rows())
	})
}

// release gives up the rows of sessions that have ended; false if the process stops before.
func (m *Manager) release(rt *Route, sessions []*lane.Session) bool {
	var lanes []adapters.LaneRef
	for _, s := range sessions {
		lanes = append(lanes, s.Lane.Rows()...)
	}
	if !m.retryUntilDone(rt, "release lanes", func(ctx context.Context) error {
		return m.Store.Release(ctx, m.instance, lanes)
	}) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range sessions {
		delete(m.quiescing, s.Lane)
	}
	return true
}

// Drain returns the sessions to be stopped; from now on those and the quiescing sessions are settled.
func (m *Manager) Drain() []*lane.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	working := m.working()
	if !m.draining {
		m.draining = true
		close(m.quit)
	}
	m.drained = m.withQuiescing(slices.Clone(working))
	return working
}

// Sessions returns all sessions whose progress is to be written.
func (m *Manager) Sessions() []*lane.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.draining {
		return m.drained
	}
	return m.withQuiescing(m.working())
}

// Wait returns when all that was begun in the background has ended.
func (m *Manager) Wait() { m.wg.Wait() }

// batches returns these sessions for the settler.
func (m *Manager) batches() []settling.Batch {
	sessions := m.Sessions()
	out := make([]settling.Batch, len(sessions))
	for i, s := range sessions {
		out[i] = s
	}
	return out
}

// withQuiescing adds the sessions that quiesce. Call with the mutex held.
func (m *Manager) withQuiescing(sessions []*lane.Session) []*lane.Session {
	if len(m.quiescing) == 0 {
		return sessions
	}
	known := make(map[*lane.Session]bool, len(sessions))
	for _, s := range sessions {
		known[s] = true
	}
	for _, s := range m.quiescing {
		if !known[s] {
			sessions = append(sessions, s)
		}
	}
	return sessions
}

// working returns the sessions that are in their lanes.
func (m *Manager) working() []*lane.Session {
	var out []*lane.Session
	for _, rt := range m.routes.All() {
		out = append(out, rt.Sessions()...)
	}
	return out
}
