package lane

import (
	"maps"
	"math"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
)

// ledgerOf is a ledger of the deliveries of former or own sessions at positions.
func ledgerOf(s *Session, former bool, positions ...int64) *ledger {
	l := newLedger(s)
	for _, position := range positions {
		l.deliveries[position] = &delivery{address: "topic", check: uint16(position), former: former}
	}
	return l
}

// A note says what it was made of, within its size, whatever the positions; another generation's is void.
func TestNotesAreReadAsTheyWereWritten(t *testing.T) {
	s, stop := alone(t, Config{Destination: &recorder{}})
	defer stop()
	rapid.Check(t, func(t *rapid.T) {
		positions := rapid.SliceOfNDistinct(rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(math.MinInt64/2, math.MaxInt64/2)), 0, notesMost, rapid.ID[int64]).Draw(t, "positions")
		l := ledgerOf(s, false, positions...)
		note := l.note("topic")
		want := map[int64]uint16{}
		for _, position := range positions {
			want[position] = uint16(position)
		}
		if got := l.decode(note); len(note) > adapters.NoteMost || !maps.Equal(got, want) {
			t.Fatalf("a note of %d bytes says %v, want %v", len(note), got, want)
		}
		str := s.Streams()[0]
		str.revision += 1 << 40
		if got := l.decode(note); got != nil {
			t.Fatalf("the note of another generation says %v", got)
		}
		str.revision -= 1 << 40
		l.decode(rapid.StringN(0, 100, 200).Draw(t, "text")) // of another program: nothing panics
	})
}

// A note has the session's own deliveries first, then the highest of former sessions.
func TestANoteHasRoomForTheOwnDeliveries(t *testing.T) {
	s, stop := alone(t, Config{Destination: &recorder{}})
	defer stop()
	var former []int64
	for position := int64(1); position <= notesMost; position++ {
		former = append(former, position)
	}
	l := ledgerOf(s, true, former...)
	maps.Copy(l.deliveries, ledgerOf(s, false, -1, -2).deliveries)
	got := l.decode(l.note("topic"))
	for position, want := range map[int64]bool{-2: true, -1: true, 1: false, 2: false, 3: true, notesMost: true} {
		if _, has := got[position]; has != want || len(got) != notesMost {
			t.Errorf("position %d of %d is noted: %v, want %v", position, len(got), has, want)
		}
	}
}

// What former sessions have noted is forgotten when it cannot come any more, so notes do not grow with each crash.
func TestNotesOfFormerSessionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := alone(t, Config{Destination: &recorder{}})
		defer stop()
		l := newLedger(s)
		s.progress.ledger = l
		if n := l.take(map[string]string{"topic": ledgerOf(s, false, 1, 2, 3).note("topic")}); n != 3 {
			t.Fatalf("%d deliveries are known, want 3", n)
		}
		str := s.Streams()[0]
		poll := func() int {
			synctest.Wait()
			str.MoveTo(adapters.Cursor{Position: 9}, 1, true, true)
			return len(l.deliveries)
		}
		arrive(s, 4)
		str.whole = false // there was more
		synctest.Wait()
		str.MoveTo(adapters.Cursor{Position: 4}, 1, false, false)
		if n := len(l.deliveries); n != 3 {
			t.Errorf("%d deliveries are known while more is to be read, want 3", n)
		}
		if n := poll(); n != 0 {
			t.Errorf("%d deliveries are known when all was read and settled, want none", n)
		}
	})
}
