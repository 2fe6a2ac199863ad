package handlers

import (
	"slices"
	"testing"

	"github.com/outriderhq/outrider/outbox"
)

// What is before the part keeps its place and goes; what is behind it does not,
// and what comes later takes its place.
func TestWithdrawAPart(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		b.closed.Store(true)
		first, second := b.enter("1", "a", "x").handle(), b.enter("2", "a", "x")
		third, fourth := b.enter("3", "a", "x").handle(), b.enter("4", "a", "x")
		other := b.enter("5", "b", "x").handle()
		left := b.enter("6", "a", "x")
		b.gate.Leave(&left.Ticket)

		if got := withdrawn(b, &second.Ticket, Behind); !slices.Equal(got, []*chain{third, fourth}) {
			t.Errorf("behind 2: %d tickets, want 3 and 4", len(got))
		}
		if got := withdrawn(b, &second.Ticket, FromHere); !slices.Equal(got, []*chain{second}) {
			t.Errorf("from 2 on: %d tickets, want 2", len(got))
		}
		if got := withdrawn(b, &third.Ticket, FromHere); got != nil {
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
func TestWithdrawKeepsWhatIsBeingSent(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		flying := b.enter("1", "a", "x").handle()
		r := b.sent("1")
		waiting := b.enter("2", "a", "x").handle()
		if got := withdrawn(b, &flying.Ticket, FromHere); !slices.Equal(got, []*chain{waiting}) {
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

// A group that stood in line is out of it when its front was withdrawn.
func TestWithdrawAPartTakesTheFrontOutOfLine(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		b.closed.Store(true)
		for _, c := range []*chain{b.enter("1", "a", "x").handle(), b.enter("2", "", "x").handle()} {
			if got := withdrawn(b, &c.Ticket, FromHere); !slices.Equal(got, []*chain{c}) {
				t.Errorf("withdrew %d tickets, want the message", len(got))
			}
			wantKind(t, c.result(), outbox.KindReleased)
		}
		b.empty()
	})
}

// withdrawn is what leaves the gate of a part of a group.
func withdrawn(b *bench, t *Ticket, part Part) []*chain {
	out, _ := b.gate.Withdraw(t, part)
	if len(out) == 0 {
		return nil
	}
	return owners(out)
}

// What is being sent when its group is withdrawn, and turns out not to have been attempted, is not sent again beside others.
func TestWithdrawRecallsWhatIsBeingSent(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		a1, b1 := b.enter("a1", "a", "x"), b.enter("b1", "b", "x")
		b.together(a1, b1)
		r := b.sent("a1", "b1")
		if got := withdrawn(b, &a1.Ticket, FromHere); got != nil {
			t.Errorf("%d tickets, want none: it is being sent", len(got))
		}
		r.answer <- []error{errReleased, nil}
		wantKind(t, a1.result(), outbox.KindReleased)
		wantNil(t, b1.result())
		b.silent()
		a1.handle()
		b.sent("a1").answer <- nil
		wantNil(t, a1.result())
	})
}
