package lane

import (
	"time"

	"github.com/outriderhq/outrider/handlers"
)

// slowDelivery is how long a delivery takes before what is behind it counts as blocked.
const slowDelivery = LongestProbe

// Blockage is a message that does not move, with what waits behind it.
type Blockage struct {
	Item    *Item
	Waiting int
	Sending bool
}

// Blockages returns the messages of the session that do not move, for a feeder that
// can take them back; with patient without those that wait for their address.
func (s *Session) Blockages(now time.Time, patient bool) (out []Blockage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stalls := s.gate.Stalled(now.Add(-slowDelivery))
	for _, it := range s.Route.health.heldAlone(s) {
		stalls = append(stalls, handlers.Stall{Front: &it.Ticket, Waiting: 1})
	}
	for _, stall := range stalls {
		it := owner(stall.Front)
		waits := stall.Down || it.phase == held // for its address
		if stall.Sending && it.key == "" {      // nothing is behind it
			continue
		}
		if waits && patient || it.phase == running && !waits && !stall.Sending {
			continue
		}
		out = append(out, Blockage{Item: it, Waiting: stall.Waiting, Sending: stall.Sending})
	}
	return out
}
