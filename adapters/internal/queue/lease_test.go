package queue

import (
	"testing"
	"time"
)

// TestG2_AClaimSeesWhatHasEndedSinceItBegan: a claim may read rows as they were before a settle.
func TestG2_AClaimSeesWhatHasEndedSinceItBegan(t *testing.T) {
	l := leases{held: map[string]*Lease{}}
	done, lost, kept := &Lease{id: "a"}, &Lease{id: "b"}, &Lease{id: "c"}
	l.keep("done", done)
	l.keep("lost", lost)
	l.keep("kept", kept)
	l.gone = map[string]bool{} // a claim begins
	l.drop("done", done, true)
	l.drop("lost", lost, false)
	l.drop("kept", lost, true) // of a former lease
	whose := func(key string, marked bool) owner { return l.whose(key, marked, func(*Lease) bool { return true }) }
	for key, want := range map[string]owner{"done": ours, "lost": theirs, "kept": ours, "new": free} {
		if got := whose(key, false); got != want {
			t.Errorf("%s belongs to %v, want %v", key, got, want)
		}
	}
	if got := whose("new", true); got != theirs {
		t.Errorf("a marked row that is not held belongs to %v", got)
	}
	l.keep("lost", kept)
	if got := whose("lost", true); got != ours {
		t.Errorf("a row that was claimed again belongs to %v", got)
	}
	if len(l.returned) != 1 || l.returned[0] != "b" {
		t.Errorf("groups that are to be read again are %v, want that of the lost row", l.returned)
	}
	if l.gone = nil; whose("done", false) != free {
		t.Error("after the claim a finished row is still known")
	}
}

// A row that a claim has met while another session held it is looked for again when the lease ends, even if the row is finished then.
func TestALeaseThatBlocksReturnsItsGroup(t *testing.T) {
	l := leases{held: map[string]*Lease{}}
	held := &Lease{id: "g"}
	l.keep("k", held)
	if got := l.whose("k", true, func(*Lease) bool { return false }); got != theirs {
		t.Errorf("a row of another session belongs to %v", got)
	}
	if l.drop("k", held, true); len(l.returned) != 1 {
		t.Errorf("groups that are to be read again are %v", l.returned)
	}
}

func TestALeaseKnowsEveryTimeThatItsRowMayHave(t *testing.T) {
	first, second := time.UnixMilli(1), time.UnixMilli(2)
	l := Lease{Stamp: second, Former: []time.Time{first}}
	if !l.MarkedAt(first) || !l.MarkedAt(second) || l.MarkedAt(time.UnixMilli(3)) || len(l.Stamps()) != 2 {
		t.Errorf("its times are %v", l.Stamps())
	}
}
