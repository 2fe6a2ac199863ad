package handlers

import (
	"slices"
	"testing"

	"github.com/outriderhq/outrider/outbox"
)

// What is before the cut keeps its place and goes; what is behind it does not,
// and what comes later takes its place.
func TestCut(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		b.closed.Store(true)
		first, second := b.enter("1", "a", "x").handle(), b.enter("2", "a", "x")
		third, fourth := b.enter("3", "a", "x").handle(), b.enter("4", "a", "x")
		other := b.enter("5", "b", "x").handle()
		left := b.enter("6", "a", "x")
		b.gate.Leave(&left.Ticket)

		if got := owners(b.gate.Cut(&second.Ticket, false)); !slices.Equal(got, []*chain{third, fourth}) {
			t.Errorf("behind 2: %d tickets, want 3 and 4", len(got))
		}
		if got := owners(b.gate.Cut(&second.Ticket, true)); !slices.Equal(got, []*chain{second}) {
			t.Errorf("from 2 on: %d tickets, want 2", len(got))
		}
		if got := b.gate.Cut(&third.Ticket, true); got != nil {
			t.Errorf("of one that is gone: %d tickets, want none", len(got))
		}
		wantKind(t, third.result(), outbox.KindReleased)
		wantKind(t, fourth.handle().result(), outbox.KindReleased)
		last := b.enter("7", "a", "x").handle()
		first.waits()
		b.closed.Store(false)
		b.gate.Kick()
		for sent := 0; sent < 3; {
			r := b.next()
			sent += len(r.ids)
			r.answer <- nil
		}
		for _, c := range []*chain{first, other, last} {
			wantNil(t, c.result())
		}
		b.empty()
	})
}

// What is being sent stays, and its group continues behind it.
func TestCutKeepsWhatIsBeingSent(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		flying := b.enter("1", "a", "x").handle()
		r := b.sent("1")
		waiting := b.enter("2", "a", "x").handle()
		if got := owners(b.gate.Cut(&flying.Ticket, true)); !slices.Equal(got, []*chain{waiting}) {
			t.Errorf("%d tickets, want 2", len(got))
		}
		wantKind(t, waiting.result(), outbox.KindReleased)
		again := b.enter("2", "a", "x").handle()
		b.silent()
		r.answer <- nil
		wantNil(t, flying.result())
		b.sent("2").answer <- nil
		wantNil(t, again.result())
		b.empty()
	})
}

// A group that stood in line is out of it when its front was cut.
func TestCutTakesTheFrontOutOfLine(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		b.closed.Store(true)
		for _, c := range []*chain{b.enter("1", "a", "x").handle(), b.enter("2", "", "x").handle()} {
			if got := owners(b.gate.Cut(&c.Ticket, true)); !slices.Equal(got, []*chain{c}) {
				t.Errorf("cut %d tickets, want the message", len(got))
			}
			wantKind(t, c.result(), outbox.KindReleased)
		}
		b.empty()
	})
}
