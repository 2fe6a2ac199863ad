package claiming

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// lookOnPause is the shortest pause of a claimer whose queue has not looked at
// everything.
const lookOnPause = time.Millisecond

// lookOn shortens the pause after a claim that brought nothing but had not looked at
// everything: it must not sleep then, because a row may be waiting there. More
// means that the next claim goes on with it. It also looks again
// when something that was seen may be claimed, for which there is no wake-up.
func (c *Claimer) lookOn(pause time.Duration) (shortened time.Duration, more bool) {
	l := c.Queue.Coverage()
	least := lookOnPause
	if !c.Backoff.Armed {
		least = c.poll.Min
	}
	if !l.Due.IsZero() {
		pause = min(pause, max(time.Until(l.Due), least))
	}
	if !l.Since.Before(c.whole) {
		return pause, false
	}
	next := max(time.Until(l.Next), lookOnPause)
	return min(pause, next), next < pause
}

// countUnmatched notes how many rows no route matches: those that this claim has
// looked at, or all that the queue remembers.
func (c *Claimer) countUnmatched(w *wanted) {
	c.unmatched.Store(max(w.unmatched, int64(c.Queue.Coverage().Unwanted)))
}

// wanting is what the claims of a claimer want; see adapters.ClaimRequest.Wants.
type wanting struct {
	open     [][adapters.Slots]bool          // by route
	sessions [][adapters.Slots]*lane.Session // by route
	paused   []*lane.PausedGroups            // by route
	terms    [adapters.Slots]uint64          // of the lanes; see adapters.ClaimRequest.Terms
	last     uint64
}

// wantings numbers what claims want. A queue may outlive its claimer, and meet the
// routes of another one.
var wantings atomic.Uint64

// number is another one whenever a lane is open that was closed for the claim
// before, or has another session, and when groups were paused or resumed.
func (w *wanting) number(now *wanted) uint64 {
	wider := w.last == 0 || !slices.Equal(w.paused, now.paused)
	w.paused = now.paused
	for i := range now.open {
		for slot, s := range now.sessions[i] {
			if s != nil && (w.sessions == nil || w.sessions[i][slot] != s) {
				w.terms[slot], wider = wantings.Add(1), true
			}
			wider = wider || now.open[i][slot] && w.open != nil && !w.open[i][slot]
		}
	}
	if w.open, w.sessions = now.open, now.sessions; wider {
		w.last = wantings.Add(1)
	}
	return w.last
}

func (w *wanting) termsOf(slots []int) []uint64 {
	out := make([]uint64, len(slots))
	for i, slot := range slots {
		out[i] = w.terms[slot]
	}
	return out
}
