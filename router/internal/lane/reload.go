package lane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// patientReloads is how often a reload lets the lane go on while it reads.
const patientReloads = 5

// Reload reads the parked groups anew after an operator changed them. What is
// read must say what everything written so far comes to, and nothing else. So it
// is read again when something came in between, and after a few times that it did
// the lane has to stand still meanwhile.
func (s *Session) Reload(ctx context.Context) error {
	for try := 0; ; try++ {
		changes, err := s.writeAll(ctx)
		if err != nil {
			return err
		}
		if try < patientReloads {
			s.mu.Unlock()
		}
		groups, err := s.route.State.ParkedGroups(ctx, s.route.Name, s.lane.Slots)
		if try < patientReloads {
			s.mu.Lock()
		}
		same := s.ops.changes == changes
		if err == nil && same {
			s.reconcile(groups)
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if same {
			return s.takeAway(ctx)
		}
	}
}

// writeAll returns, with the mutex held, when everything that was concluded is
// written, and how many changes that were.
func (s *Session) writeAll(ctx context.Context) (changes uint64, err error) {
	for {
		if err := s.settler.Flush(ctx, settling.Concluded); err != nil {
			return 0, err
		}
		s.mu.Lock()
		if s.ops.empty() && s.flight == nil {
			return s.ops.changes, nil
		}
		s.mu.Unlock()
	}
}

// reconcile takes over what was read. Call with the mutex held.
func (s *Session) reconcile(groups []adapters.ParkedGroup) {
	seen := map[groupKey]bool{}
	for _, l := range groups {
		k := keyOf(l.Slot, l.Group, l.FirstSeq)
		seen[k] = true
		g := s.parking.groups[k]
		if g == nil {
			s.parking.add(l)
			s.follow(l.Group)
			continue
		}
		// Of those in the lane the operator may have taken some away, which are
		// counted until they end. What is counted twice for that is noticed when there
		// is nothing to load.
		g.count, g.due, g.held = l.Count+g.live+g.blockers, l.Due, l.Held
		s.parking.schedule(g)
	}
	for k, g := range s.parking.groups {
		if !seen[k] && !g.loading {
			g.count = g.live + g.blockers
			s.changed(g)
		}
	}
}

// follow parks what the lane has of a group that an operator's redrive has put
// into the parking: what comes from now on joins the group there, and would
// overtake what is in the lane. Call with the mutex held.
func (s *Session) follow(group string) {
	if group == "" || s.stopping {
		return
	}
	if t := s.gate.Front(group); t != nil {
		s.park(owner(t), adapters.ParkedWaiting, time.Time{}, nil)
	}
}

// skippedByOperator is the reason with which messages are counted whose rows were
// taken away while they were in the lane.
const skippedByOperator = "operator"

// takeAway ends the messages of the lane whose rows an operator has taken away, and
// notes which he has redriven.
func (s *Session) takeAway(ctx context.Context) error {
	for key, items := range s.withRows() {
		ref := adapters.LaneRef{Route: s.route.Name, Slot: items[0].slot}
		limit := len(items) + patientReloads // rows of a redrive may be among them
		rows, err := s.route.State.ParkedQueue(ctx, ref, key.group, items[0].seq-1, limit)
		if err != nil {
			return err
		}
		s.mu.Lock()
		for _, it := range items {
			if s.parking.here[opKey{it.slot, it.seq}] != it {
				continue
			}
			i := slices.IndexFunc(rows, func(p adapters.Parked) bool { return p.Seq == it.seq })
			switch known := len(rows) < limit || rows[limit-1].Seq > it.seq; {
			case i < 0 && known:
				s.skip(it)
			case i >= 0 && rows[i].Status == adapters.ParkedRetrying && rows[i].Attempts == 0 && it.saved.attempts > 0:
				it.saved.attempts, it.redriven = 0, it.death == nil
			}
		}
		s.runner.proceed()
		s.mu.Unlock()
	}
	return nil
}

// withRows returns the messages in the lane whose rows have been written, by group
// and in order.
func (s *Session) withRows() map[groupKey][]*Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[groupKey][]*Item{}
	for k, it := range s.parking.here {
		if it.injected || k.seq < s.streams[0].stored {
			key := keyOf(k.slot, it.key, k.seq)
			out[key] = append(out[key], it)
		}
	}
	for _, items := range out {
		slices.SortFunc(items, func(a, b *Item) int { return cmp.Compare(a.seq, b.seq) })
	}
	return out
}

// skip ends a message that an operator has taken away: now, or when what is under
// way of it has its outcome, unless that is its delivery. Call with the mutex held.
func (s *Session) skip(it *Item) {
	it.unwanted = true
	if it.phase == running || it.phase == deadLettering {
		s.gate.Leave(&it.Ticket)
		return
	}
	s.endSkipped(it)
}

// endSkipped is the end of skip.
func (s *Session) endSkipped(it *Item) {
	it.stopWaiting()
	s.route.health.left(it)
	s.route.stats.skip(skippedByOperator)
	s.gate.Leave(&it.Ticket)
	s.finish(it, outbox.OutcomeSkipped)
}
