package queue

import "github.com/outriderhq/outrider/adapters"

// Owner says whose a row is that a claim has read.
type Owner int

// The owners.
const (
	Free   Owner = iota
	Ours         // the queue holds it, or has finished it since it was read
	Theirs       // another process has it, or its state is not known here
)

// Hold is what an adapter remembers of a claim that has not been settled: a pointer to a type of its own.
type Hold interface {
	comparable
	Token() string // of the [adapters.Claim]
}

// Held are the holds of a table, which embeds it. Guarded by the lock of [Claims].
type Held[H Hold] struct {
	holds map[string]H    // by key
	gone  map[string]bool // holds that have ended since the claim under way began, and whether their rows are finished; nil: none is under way
	ended func(h H, finished bool)
	look  adapters.Coverage // of the claims so far
}

// NewHeld returns no holds. ended is called after a hold has ended, with the lock; finished is false of a row that has gone back or is lost.
func NewHeld[H Hold](ended func(h H, finished bool)) Held[H] {
	return Held[H]{holds: map[string]H{}, ended: ended}
}

// Begin begins a claim. Holds that end from now on are remembered: what the claim reads may be from before.
func (h *Held[H]) Begin() { h.gone = map[string]bool{} }

// End ends a claim, with how much has been looked at.
func (h *Held[H]) End(look adapters.Coverage) { h.gone, h.look = nil, look }

// Keep remembers a row that was claimed.
func (h *Held[H]) Keep(key string, hold H) {
	if old, ok := h.holds[key]; ok {
		h.drop(key, old, true)
	}
	delete(h.gone, key)
	h.holds[key] = hold
}

// Holds reports whether a row is held.
func (h *Held[H]) Holds(key string) bool {
	_, ok := h.holds[key]
	return ok
}

// Len is how many rows are held.
func (h *Held[H]) Len() int { return len(h.holds) }

// Whose says whose a row is. Of one that is held, held decides; marked says whether another one is being processed.
func (h *Held[H]) Whose(key string, marked bool, held func(H) Owner) Owner {
	if hold, ok := h.holds[key]; ok {
		return held(hold)
	}
	switch finished, ended := h.gone[key]; {
	case finished:
		return Ours
	case ended, marked: // one that has ended is lost or has gone back, and the next claim begins with it
		return Theirs
	}
	return Free
}

// drop ends a hold, unless the row has another one by now.
func (h *Held[H]) drop(key string, hold H, finished bool) {
	if h.holds[key] != hold {
		return
	}
	delete(h.holds, key)
	if h.gone != nil {
		h.gone[key] = finished
	}
	h.ended(hold, finished)
}

// Own returns the holds of a table that embeds them.
func (h *Held[H]) Own() *Held[H] { return h }
