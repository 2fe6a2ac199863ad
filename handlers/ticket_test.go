package handlers

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The queue of a group against a slice.
func TestGroupQueueAgainstASlice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q, want := &group{}, []*Ticket{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step < 5 || len(want) == 0:
				x := new(Ticket)
				q.push(x)
				want = append(want, x)
			case step < 9:
				i := rapid.IntRange(0, len(want)-1).Draw(t, "which") * rapid.IntRange(0, 1).Draw(t, "not the front")
				q.remove(want[i])
				want = slices.Delete(want, i, i+1)
			default:
				want = want[:rapid.IntRange(0, len(want)).Draw(t, "keep")]
				q.keep(want)
			}
			got := slices.DeleteFunc(slices.Clone(q.queue[q.head:]), func(x *Ticket) bool { return x == nil })
			if !slices.Equal(got, want) {
				t.Fatalf("the queue has %d tickets, want %d, or in another order", len(got), len(want))
			}
			if front := q.front(); len(want) == 0 && front != nil || len(want) > 0 && front != want[0] {
				t.Fatal("front is not the first ticket")
			}
			for _, x := range q.queue[:cap(q.queue)] {
				if x != nil && !slices.Contains(want, x) {
					t.Fatal("the queue still holds a ticket that has left")
				}
			}
		}
	})
}

// A hot group with a full window: its queue neither grows, nor is it moved for
// every message.
func TestALongQueueIsRarelyMoved(t *testing.T) {
	t.Parallel()
	const window, turns = 1000, 100_000
	q, moved := &group{}, 0
	for i := range turns {
		before := q.head
		q.push(new(Ticket))
		if q.head < before {
			moved++
		}
		if i >= window {
			q.remove(q.front())
		}
	}
	if cap(q.queue) > 4*window || moved > 2*turns/window {
		t.Errorf("room for %d tickets, moved %d times", cap(q.queue), moved)
	}
}
