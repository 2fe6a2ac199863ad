package lane

import (
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// patientReloads is how often a reload reads without stopping the lane.
const patientReloads = 5

// Reload reads the parked groups again after an operator changed them. It must read exactly what was written so far, so it reads once
// more if something was written meanwhile; after [patientReloads] times the lane stops during the read.
func (s *Session) Reload(ctx context.Context) error {
	for try := 0; ; try++ {
		changes, err := writeAll(ctx, s)
		if err != nil {
			return err
		}
		if try < patientReloads {
			s.mu.Unlock()
		}
		groups, err := s.Route.State.ParkedGroups(ctx, s.Route.Name, s.Lane.Slots)
		if try < patientReloads {
			s.mu.Lock()
		}
		same := s.progress.rows.Changes() == changes
		if err == nil && same {
			for _, group := range s.parking.reconcile(groups) {
				followLocked(s, group)
			}
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if same {
			return takeAway(ctx, s)
		}
	}
}

// writeAll returns, with the mutex held, when everything that was concluded is written, and the number of changes.
func writeAll(ctx context.Context, s *Session) (changes uint64, err error) {
	for {
		if err := s.Route.settler.Flush(ctx, settling.Concluded, s); err != nil {
			return 0, err
		}
		s.mu.Lock()
		if s.progress.written() {
			return s.progress.rows.Changes(), nil
		}
		s.mu.Unlock()
	}
}

// followLocked parks the lane's messages of a group that an operator's redrive has put into the parking. Otherwise fresh messages, which
// join the group there, would wait behind parked rows while older ones are in the lane.
func followLocked(s *Session, group string) {
	if group == "" || s.runner.stopping {
		return
	}
	if t := s.gate.Front(group); t != nil {
		s.parking.park(owner(t), adapters.ParkedWaiting, time.Time{}, nil)
	}
}

// takeAway ends the messages of the lane whose rows an operator has removed, and marks those that the operator has redriven.
func takeAway(ctx context.Context, s *Session) error {
	s.mu.Lock()
	withRows := s.parking.withRows()
	s.mu.Unlock()
	for key, items := range withRows {
		ref := adapters.LaneRef{Route: s.Route.Name, Slot: items[0].slot}
		limit := len(items) + patientReloads // rows of a redrive may be among them
		rows, err := s.Route.State.ParkedQueue(ctx, ref, key.Group, items[0].seq-1, limit, 0)
		if err != nil {
			return err
		}
		s.mu.Lock()
		for _, it := range items {
			if s.parking.here[it.parkedRow()] != it {
				continue
			}
			i := slices.IndexFunc(rows, func(p adapters.Parked) bool { return p.Seq == it.seq })
			switch known := len(rows) < limit || rows[limit-1].Seq > it.seq; {
			case i < 0 && known:
				s.outcomes.skip(it)
			case i >= 0 && rows[i].Status == adapters.ParkedRetrying && rows[i].Attempts == 0 && it.saved.attempts > 0:
				it.saved.attempts, it.redriven = 0, it.death == nil
			}
		}
		s.runner.proceedLocked()
		s.mu.Unlock()
	}
	return nil
}

// applyPausedGroups takes messages of paused groups out of the lane, and lets resumed groups continue. Messages that are being sent get
// their outcomes.
func applyPausedGroups(s *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, now := s.parking.paused, s.Route.paused.Load()
	if s.runner.stopping || before == now {
		return
	}
	s.parking.paused = now
	s.parking.groups.Pause(now.Has) // the first row of a resumed group says when
	for group := range *now {
		if t := s.gate.Front(group); t != nil {
			s.outcomes.putAside(owner(t))
		}
	}
	s.runner.proceedLocked()
}
