package lane

import (
	"testing"
	"testing/synctest"

	"github.com/outriderhq/outrider/router/internal/settling"
)

// Rows take room in the window until they are durably settled: a cursor behind rows that were
// only settled in memory would have them delivered again after a crash, however many they are.
func TestG5_TheWindowCountsWhatIsNotDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dest := &recorder{}
		s, stop := alone(t, Config{Destination: dest, Window: 8})
		arrive(s, 1, 2, 3)
		synctest.Wait()
		if n := len(dest.received()); n != 3 {
			t.Fatalf("%d of 3 messages were delivered", n)
		}
		for _, step := range []struct {
			name string
			do   func()
			room int
		}{
			{"delivered", func() {}, 5},
			{"being written", func() { s.Settlements(settling.Concluded) }, 5},
			{"not written", func() { s.Settled(false) }, 5},
			{"written", func() { s.Settlements(settling.Concluded); s.Settled(true) }, 8},
		} {
			if step.do(); s.Room() != step.room {
				t.Errorf("%s: the window has room for %d rows, want %d", step.name, s.Room(), step.room)
			}
		}
		stop()
	})
}

// A lane takes memory for what is pending and not for its whole window: with 500 routes most lanes never fill it.
func TestG7_RoomForRowsGrowsWithWhatIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := alone(t, Config{Destination: &recorder{}, Window: 1024})
		str := s.Streams()[0]
		if n := len(str.ring); n > ringLeast {
			t.Errorf("there is room for %d rows at the beginning, want %d at most", n, ringLeast)
		}
		settle := func() { s.Settlements(settling.Concluded); s.Settled(true) }
		var next int64
		for _, n := range []int{10, 10, 100, 7, 300} { // so that the ring is wrapped when it grows
			for range n {
				next++
				arrive(s, next)
			}
			synctest.Wait()
			settle()
			if str.pending() != 0 || str.settled.Position != next {
				t.Errorf("after row %d: %d rows are pending, and the cursor is at %d", next, str.pending(), str.settled.Position)
			}
		}
		if n := len(str.ring); n < 300 || n > 512 {
			t.Errorf("there is room for %d rows after 300 were pending", n)
		}
		stop()
	})
}
