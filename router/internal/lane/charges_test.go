package lane

import (
	"testing"
	"testing/synctest"
)

// Attempts that were the address's fault get back to the message wherever it is: at once while
// it waits, when its chain has returned, and in the parking when its row is read.
func TestG10_AttemptsAreGivenBackWhereverTheMessageIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := alone(t, Config{Destination: &recorder{}, Window: 8})
		defer stop()
		charge := func(as phase) (*Item, *charge) {
			it := newItem(s, "g")
			it.phase, it.seq, it.Attempt.Number, it.record = running, 7, 4, &record{id: "m"}
			var l charged
			for range 3 {
				l.addLocked(it)
			}
			if len(l) != 1 || l[0].n != 3 {
				t.Fatalf("%d charges, want one of three attempts", len(l))
			}
			it.phase = as
			return it, l[0]
		}

		it, c := charge(backoff)
		if c.giveBack(); it.Attempt.Number != 1 {
			t.Errorf("a waiting message is at attempt %d, want 1", it.Attempt.Number)
		}

		it, c = charge(running)
		if c.giveBack(); it.Attempt.Number != 4 {
			t.Errorf("the attempt under way became number %d", it.Attempt.Number)
		}
		if s.charges.repay(it); it.Attempt.Number != 1 || len(s.charges.owed) != 0 {
			t.Errorf("after its chain the message is at attempt %d, want 1; %d are owed something", it.Attempt.Number, len(s.charges.owed))
		}

		it, c = charge(parked)
		s.parking.groups[keyOf(it.slot, "g", 7)] = &parkedGroup{key: keyOf(it.slot, "g", 7)}
		s.charges.left(it)
		c.giveBack()
		if n := s.charges.take(c.group, 7); n != 3 || len(s.charges.credits) != 0 {
			t.Errorf("%d attempts are credited in the parking, want 3; %d groups are left", n, len(s.charges.credits))
		}

		it, c = charge(finished)
		s.charges.left(it)
		if c.giveBack(); it.Attempt.Number != 4 || !c.settled() || len(s.charges.owed)+len(s.charges.credits) != 0 {
			t.Error("a settled message got something back")
		}
	})
}
