package queue

import "testing"

type held struct{ token string }

func (h *held) Token() string { return h.token }

// TestG2_AClaimSeesWhatHasEndedSinceItBegan: a claim may read rows as they were before a settle.
func TestG2_AClaimSeesWhatHasEndedSinceItBegan(t *testing.T) {
	ended := 0
	h := NewHeld(func(*held, bool) { ended++ })
	done, lost, kept := &held{"1"}, &held{"2"}, &held{"3"}
	h.Keep("done", done)
	h.Keep("lost", lost)
	h.Keep("kept", kept)
	h.Begin()
	h.drop("done", done, true)
	h.drop("lost", lost, false)
	h.drop("kept", lost, true) // of a former hold
	whose := func(key string, marked bool) Owner {
		return h.Whose(key, marked, func(*held) Owner { return Ours })
	}
	for key, want := range map[string]Owner{"done": Ours, "lost": Theirs, "kept": Ours, "new": Free} {
		if got := whose(key, false); got != want {
			t.Errorf("%s belongs to %v, want %v", key, got, want)
		}
	}
	if got := whose("new", true); got != Theirs {
		t.Errorf("a marked row that is not held belongs to %v", got)
	}
	h.Keep("lost", kept)
	if got := whose("lost", true); got != Ours {
		t.Errorf("a row that was claimed again belongs to %v", got)
	}
	if ended != 2 {
		t.Errorf("%d holds ended, want 2", ended)
	}
	h.End(h.look)
	if got := whose("done", false); got != Free {
		t.Errorf("after the claim a finished row belongs to %v", got)
	}
}
