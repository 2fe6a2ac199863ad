package lane

import (
	"container/heap"
	"time"
)

// dueEntry is a group's planned way back.
type dueEntry struct {
	group *parkedGroup
	at    time.Time
}

// dueHeap orders groups by when they are due (container/heap).
type dueHeap []dueEntry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

func (h *dueHeap) Push(x any) {
	*h = append(*h, x.(dueEntry)) //nolint:forcetypeassert // container/heap hands over what it was given
}

func (h *dueHeap) Pop() any {
	old := *h
	n := len(old) - 1
	x := old[n]
	old[n] = dueEntry{}
	*h = old[:n]
	return x
}

// first is the entry that is due first, of which current says that its group still has
// this plan; others are dropped. False: there is none.
func (h *dueHeap) first(current func(dueEntry) bool) (dueEntry, bool) {
	for len(*h) > 0 {
		if e := (*h)[0]; current(e) {
			return e, true
		}
		heap.Pop(h)
	}
	return dueEntry{}, false
}
