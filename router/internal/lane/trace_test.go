package lane

import (
	"testing"
	"time"
)

// A timeline keeps its size, reaches back to its beginning, and is right about everything that it says.
func TestTheTimelineIsBoundedAndTrue(t *testing.T) {
	t.Parallel()
	var line timeline
	begin := time.Unix(1_000_000, 0)
	at := func(position int64) time.Time { return begin.Add(time.Duration(position) * time.Second) }
	const last = 10_000
	for p := int64(1); p <= last; p++ {
		line.add(p, at(p))
		line.add(p, at(p).Add(time.Millisecond)) // a settle that moved nothing
	}
	if n := len(line.points); n > timelineMost {
		t.Fatalf("%d marks", n)
	}
	known := 0
	for p := int64(1); p <= last; p++ {
		after, by := line.passed(p)
		if by.IsZero() {
			continue
		}
		known++
		if after.After(at(p)) || by.Before(at(p)) {
			t.Fatalf("position %d was passed at %v, and the timeline says between %v and %v", p, at(p), after, by)
		}
	}
	if known < last*9/10 {
		t.Errorf("of %d positions %d are known", last, known)
	}
	if _, by := line.passed(last); !by.Equal(at(last)) {
		t.Errorf("the last settle was at %v, not at %v", by, at(last))
	}
	if _, by := line.passed(last + 1); !by.IsZero() {
		t.Error("a position that was not passed has a time")
	}
	line.add(5, at(last+1)) // a seek
	if _, by := line.passed(last); !by.IsZero() {
		t.Error("what was before a seek is still said")
	}
}
