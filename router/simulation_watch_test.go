package router

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// siegePatience is after what time of calm everything that can be done was done: more
// than a heartbeat, a poll, the longest pause between probes and a send together.
const siegePatience = 10 * time.Minute

// siegeWatch is what operators do to a siege, and the invariants that hold meanwhile:
// what is ready is sent while there is room, what is settled is referred to by nothing,
// what is parked is found.
type siegeWatch struct {
	lent    *lending
	parking parkingWatch

	begun     time.Time            // the present instance
	commanded time.Time            // when an operator last did something
	paused    map[string]time.Time // until when, by address; empty: the route
	calm      map[string]time.Time // since when there has been nothing wrong with an address
}

func newSiegeWatch(s *siege) siegeWatch {
	w := siegeWatch{lent: &lending{}, paused: map[string]time.Time{}, calm: map[string]time.Time{}}
	s.source.lending, s.state.lending = w.lent, w.lent
	w.parking = parkingWatch{state: s.state, known: siegePatience, overdue: map[overdueKey]time.Time{}, complain: func(format string, args ...any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.complain(format, args...)
	}}
	return w
}

// operate is an operator who pauses the route or an address for a while, or skips or
// purges a message.
func (s *siege) operate() error {
	s.commanded = time.Now()
	address := ""
	switch s.random.IntN(4) {
	case 0:
		address = fmt.Sprint("a", s.random.IntN(siegeAddresses))
		fallthrough
	case 1:
		if !s.paused[address].IsZero() {
			return nil
		}
		s.paused[address] = time.Now().Add(time.Duration(1+s.random.IntN(60)) * time.Minute)
		_, err := s.state.Pause(context.Background(), adapters.Pause{Route: "orders", Address: address})
		return err
	case 2:
		s.drop(adapters.ParkedSkip)
	case 3:
		s.drop(adapters.ParkedPurge)
	}
	return nil
}

// drop has an operator skip a parked message, or purge a dead one.
func (s *siege) drop(action adapters.ParkedAction) {
	parked, _ := s.state.ListParked(context.Background(), adapters.ParkedFilter{}, 1<<40)
	parked = slices.DeleteFunc(parked, func(p adapters.Parked) bool {
		return (p.Status == adapters.ParkedDead) != (action == adapters.ParkedPurge)
	})
	if len(parked) == 0 {
		return
	}
	slices.SortFunc(parked, func(a, b adapters.Parked) int { return cmp.Compare(a.ID, b.ID) })
	p := parked[s.random.IntN(len(parked))]
	step, err := s.state.ChangeParked(context.Background(), adapters.ParkedCommand{Action: action, Filter: adapters.ParkedFilter{ID: p.ID}})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && step.Changed == 1 {
		s.dropped[p.ID] = true
	}
}

// resume ends the pauses that are over at a time.
func (s *siege) resume(now time.Time) error {
	for address, until := range s.paused {
		if until.After(now) {
			continue
		}
		delete(s.paused, address)
		s.commanded = time.Now()
		if _, err := s.state.Resume(context.Background(), adapters.Pause{Route: "orders", Address: address}); err != nil {
			return err
		}
	}
	return nil
}

// observe checks the invariants, at a moment at which nobody has anything to do.
func (s *siege) observe() {
	synctest.Wait()
	now := time.Now()
	_, halted := s.paused[""]
	s.mu.Lock()
	for i := range siegeAddresses {
		address := fmt.Sprint("a", i)
		if _, paused := s.paused[address]; paused || now.Before(s.down[address]) || s.calm[address].IsZero() {
			s.calm[address] = now
		} else if until := s.down[address]; until.After(s.calm[address]) {
			s.calm[address] = until
		}
	}
	s.mu.Unlock()
	if halted || min(now.Sub(s.begun), now.Sub(s.commanded)) < siegePatience {
		return
	}
	var full map[int]bool
	room, alive := 0, 1
	for try := 0; alive > room && try < 3; try++ { // what a timer has still at hand is gone a little later
		if try > 0 {
			time.Sleep(2 * lane.ShortDelay)
			synctest.Wait()
		}
		room, full = s.look()
		alive = s.lent.alive()
	}
	if alive > room {
		s.mu.Lock()
		s.complain("%d messages are referred to, of which at most %d are under way", alive, room)
		s.mu.Unlock()
	}
	s.checkReady(now, full)
}

// look inspects the sessions: how many messages they may refer to, and which lanes have
// no room.
func (s *siege) look() (room int, full map[int]bool) {
	full = map[int]bool{}
	for _, l := range s.router.routes.All()[0].Lanes {
		session := l.Session()
		if session == nil {
			full[l.Slots[0]] = true
			s.parking.complain("lane %s has no session", l.Name)
			continue
		}
		in := lane.Inspect(session)
		room += in.Unsettled
		full[l.Slots[0]] = in.Unsettled >= siegeWindow/2
		s.parking.check(l, &in)
	}
	return room, full
}

// checkReady complains of what waits for nothing and was not sent: the first of its
// group that has not ended, whose address has been fine for long, and which is not
// parked. A group in the parking is [parkingWatch]'s.
func (s *siege) checkReady(now time.Time, full map[int]bool) {
	parked, _ := s.state.ListParked(context.Background(), adapters.ParkedFilter{}, 1<<40)
	inParking, ended := map[string]bool{}, map[string]bool{}
	for _, p := range parked {
		ended[p.ID] = p.Status == adapters.ParkedDead
		inParking[p.Group] = inParking[p.Group] || !ended[p.ID]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first := map[string]bool{}
	for _, row := range s.source.rows {
		if s.seen[row.ID] || s.dropped[row.ID] || ended[row.ID] || first[row.Group] {
			continue
		}
		first[row.Group] = true
		if inParking[row.Group] || full[row.Slot] || now.Sub(row.CreatedAt) < siegePatience ||
			now.Sub(s.calm[row.Headers["address"]]) < siegePatience {
			continue
		}
		s.complain("%s of group %s is ready and was not sent for %v", row.ID, row.Group, now.Sub(row.CreatedAt))
	}
}
