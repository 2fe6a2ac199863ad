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
		charge := func(as phase) (*Item, *Charge) {
			it := newItem(s, "g")
			it.phase, it.seq, it.Attempt.Number, it.content = running, 7, 4, &content{id: "m"}
			var charges []*Charge
			for range 3 {
				charges = it.Charge(charges)
			}
			if len(charges) != 1 || charges[0].n != 3 {
				t.Fatalf("%d charges, want one of three attempts", len(charges))
			}
			it.phase = as
			return it, charges[0]
		}

		it, c := charge(backoff)
		if c.giveBack(); it.Attempt.Number != 1 {
			t.Errorf("a waiting message is at attempt %d, want 1", it.Attempt.Number)
		}

		it, c = charge(running)
		if c.giveBack(); it.Attempt.Number != 4 {
			t.Errorf("the attempt under way became number %d", it.Attempt.Number)
		}
		if s.parking.repay(it); it.Attempt.Number != 1 || it.credits != 0 {
			t.Errorf("after its chain the message is at attempt %d, want 1; %d are left", it.Attempt.Number, it.credits)
		}

		it, c = charge(parked)
		g := s.parking.groupOf(it)
		it.uncharge()
		c.giveBack()
		if n := g.Credits.Take(7); n != 3 || len(g.Credits) != 0 {
			t.Errorf("%d attempts are credited in the parking, want 3; %d rows are left", n, len(g.Credits))
		}

		it, c = charge(finished)
		it.uncharge()
		if c.giveBack(); it.Attempt.Number != 4 || it.credits != 0 {
			t.Error("a settled message got something back")
		}
	})
}
