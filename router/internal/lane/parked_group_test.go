package lane

import (
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Each step of a parked group, and whether its first messages may be brought back and fresh
// ones may enter the lane behind it.
func TestParkedGroupStates(t *testing.T) {
	first, second, sent := &Item{}, &Item{}, &Item{}
	g := &parkedGroup{}
	for _, step := range []struct {
		name             string
		do               func()
		movable, allHere bool
		empty            bool
	}{
		{"parked", func() { g.store(first); g.first(adapters.ParkedRetrying, time.Now()) }, true, false, false},
		{"joined", func() { g.store(second) }, true, false, false},
		{"written again", func() { g.store(second) }, true, false, false},
		{"one is being sent", func() { g.block(sent); g.block(sent) }, false, false, false},
		{"it was sent", func() { g.leave(sent) }, true, false, false},
		{"held", func() { g.first(adapters.ParkedHeld, time.Time{}) }, false, false, false},
		{"redriven", func() { g.found(adapters.ParkedGroup{Count: 2}) }, true, false, false},
		{"being read", func() { g.load(1) }, false, false, false},
		{"one is back", func() { g.loaded(); g.enter(first) }, false, false, false},
		{"both are", func() { g.enter(second) }, false, true, false},
		{"the first is settled", func() { g.leave(first); g.settle(first) }, false, true, false},
		{"the second is parked again", func() { g.leave(second) }, true, false, false},
		{"and skipped by an operator", func() { g.missed() }, false, false, true},
	} {
		step.do()
		if g.movable() != step.movable || g.allHere() != step.allHere || g.empty() != step.empty {
			t.Errorf("%s: movable %v, all here %v, empty %v; want %v, %v, %v", step.name,
				g.movable(), g.allHere(), g.empty(), step.movable, step.allHere, step.empty)
		}
	}
}

// Something that is added while the rows of a group are read has them read again.
func TestParkedGroupIsReadAgain(t *testing.T) {
	g := &parkedGroup{}
	g.store(&Item{})
	g.load(10)
	if again, _ := g.loaded(); again {
		t.Error("read again, though nothing was added")
	}
	g.load(10)
	g.store(&Item{})
	fresh := &Item{}
	g.aside = append(g.aside, fresh)
	again, aside := g.loaded()
	if !again || len(aside) != 1 || aside[0] != fresh {
		t.Errorf("again %v with %d messages aside, want true and the fresh one", again, len(aside))
	}
	if again, aside := g.loaded(); again || aside != nil {
		t.Error("what came during a read is reported twice")
	}
}

// A group that was parked to make room comes back with its address, once.
func TestParkedGroupIsReadmittedOnce(t *testing.T) {
	g := &parkedGroup{due: time.Now()}
	g.evict()
	g.evict()
	if g.evictions != 2 {
		t.Errorf("%d evictions in a row, want 2", g.evictions)
	}
	if !g.readmit() || !g.due.IsZero() || g.evictions != 0 {
		t.Errorf("not due at once: due %v after %d evictions", g.due, g.evictions)
	}
	if g.readmit() {
		t.Error("readmitted twice")
	}
}
