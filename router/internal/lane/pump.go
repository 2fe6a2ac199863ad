package lane

import (
	"container/heap"
	"log/slog"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// pumpBatch is how many parked messages of a group come back at a time: no
// more than the window has room for. Of one that was parked because it did not
// move it is the first, to see whether it does.
func (s *Session) pumpBatch(g *parkedGroup) int {
	if g.evicted {
		return 1
	}
	return max(min(64, s.route.Window/4), 1)
}

// pump brings parked messages back when they are due.
func (s *Session) pump() {
	defer s.wg.Done()
	kicked := s.parking.kicked // not the session: the runtime keeps a stopped timer, with what it refers to, for as long as it likes
	timer := time.AfterFunc(time.Hour, func() { signal.Send(kicked) })
	defer timer.Stop()
	for s.ctx.Err() == nil {
		groups, wait, full := s.dueGroups(time.Now())
		if full { // of what came back before, and does not move perhaps
			s.EvictBlocked(time.Now(), true)
		}
		if len(groups) > 0 {
			if wait = s.bringBack(groups); wait == 0 {
				continue
			}
		}
		if wait >= 0 {
			timer.Reset(wait)
		}
		select {
		case <-s.ctx.Done():
		case <-s.parking.kicked:
		}
	}
}

// dueGroups takes the groups that are due off the heap, as many as the lane has
// room for, and tells how long to wait for the next (-1: until kicked); full, when
// there was no room.
func (s *Session) dueGroups(now time.Time) (due []*parkedGroup, wait time.Duration, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.parking
	room := max(s.route.Window/4, 1) - p.live
	for len(p.due) > 0 && len(due) < 32 {
		e := p.due[0]
		if p.groups[e.group.key] != e.group || !e.group.movable() || !e.at.Equal(e.group.due) {
			heap.Pop(&p.due)
			continue
		}
		if e.at.After(now) {
			return due, e.at.Sub(now), false
		}
		if room <= 0 || s.route.Share.Spent(s.route.Overhead()) {
			return due, ReleaseDelay, true
		}
		heap.Pop(&p.due)
		e.group.loading, e.group.limit = true, s.pumpBatch(e.group)
		room -= min(e.group.count, e.group.limit)
		due = append(due, e.group)
	}
	if len(due) > 0 {
		return due, 0, false
	}
	return nil, -1, false
}

// bringBack loads the first messages of each group and lets them into the lane.
// What the rows say must be durable before it is read back.
func (s *Session) bringBack(groups []*parkedGroup) time.Duration {
	err := s.settler.Flush(s.ctx, settling.Concluded)
	for _, g := range groups {
		var rows []adapters.Parked
		if err == nil {
			rows, err = s.loadQueue(g)
			failpoint.Hit(failpoint.Unparking)
		}
		s.unpark(g, rows, err)
	}
	if err != nil {
		if s.ctx.Err() == nil {
			s.route.unparking.Fail(s.route.Log(), slog.LevelWarn, "cannot read parked messages, trying again", err, "lane", s.lane.Name)
		}
		return ShortDelay
	}
	s.route.unparking.End(s.route.Log(), "parked messages can be read again")
	return 0
}

// loadQueue reads the first messages of a group. A connection that has fallen
// silent must not keep the lane's other groups in the parking.
func (s *Session) loadQueue(g *parkedGroup) (rows []adapters.Parked, err error) {
	ctx, cancel := s.loading.Begin(s.ctx)
	defer cancel()
	ref := adapters.LaneRef{Route: s.route.Name, Slot: g.slot}
	if g.key.group == "" {
		rows, err = s.route.State.ParkedQueue(ctx, ref, "", g.key.alone.seq-1, 1)
	} else {
		rows, err = s.route.State.ParkedQueue(ctx, ref, g.key.group, 0, g.limit)
	}
	s.loading.End(ctx, err)
	return rows, err
}

// unpark takes what was read of a group, and what came for it meanwhile.
func (s *Session) unpark(g *parkedGroup, rows []adapters.Parked, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return
	}
	again, aside := g.again, g.aside
	g.loading, g.again, g.aside = false, false, nil
	switch {
	case err != nil:
		g.due = time.Now().Add(ShortDelay)
		s.parking.schedule(g)
	case again:
		g.due = time.Time{}
		s.parking.schedule(g)
	default:
		s.inject(g, rows)
	}
	for _, it := range aside {
		s.admit(it)
	}
	s.runner.proceed()
}

// inject puts parked messages into the lane, behind each other.
func (s *Session) inject(g *parkedGroup, rows []adapters.Parked) {
	if g.key.group == "" && len(rows) > 0 && rows[0].Seq != g.key.alone.seq {
		rows = nil
	}
	if g.key.group == "" || len(rows) < g.limit {
		g.count = len(rows) // an operator may have taken some away
	}
	now := time.Now()
	switch {
	case len(rows) == 0:
		s.changed(g)
		return
	case rows[0].Status == adapters.ParkedHeld:
		g.held = true
		return
	case rows[0].NextAttemptAt.After(now) && !s.early(rows[0]):
		s.correct(g, rows)
		g.due = rows[0].NextAttemptAt
		g.evicted = s.route.poison != nil && rows[0].Metadata[MetaDeath] != "" // another address was back
		s.parking.schedule(g)
		return
	}
	for _, p := range rows {
		if p.Status == adapters.ParkedHeld {
			break // whatever is behind a held message waits with it
		}
		if !s.injectRow(g, p) {
			break
		}
	}
	if g.live == 0 {
		g.due = now.Add(ReleaseDelay)
		s.parking.schedule(g)
	}
}

// injectRow puts one message into the lane; false: there is no memory for it.
func (s *Session) injectRow(g *parkedGroup, p adapters.Parked) bool {
	it := &Item{
		Session: s, key: p.Group, slot: p.Slot, seq: p.Seq,
		stored: true, injected: true,
		record: &record{id: p.ID, kind: p.Type, position: p.Position, metadata: p.Metadata,
			payload: p.Payload, created: p.ParkedAt},
		Attempt: outbox.Attempt{Route: s.route.Name, Lane: s.lane.Name, Number: p.Attempts + 1},
		cost:    int64(len(p.Payload)) + s.route.Overhead(),
	}
	it.Owner = it
	it.lastError = p.LastError
	it.revive(p)
	it.saved = it.toSave()
	if !s.route.Share.Take(it.cost) {
		return false
	}
	if it.death == nil {
		it.giveBack(s.parking.takeCredit(it))
	}
	s.live += it.cost
	s.extra++
	g.live++
	s.parking.live++
	s.parking.here[opKey{it.slot, it.seq}] = it
	s.enter(it)
	return true
}
