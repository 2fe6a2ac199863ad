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
