package claiming

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// continuePause is the shortest pause of a claimer whose queue has not seen all rows.
const continuePause = time.Millisecond

// continueSoon shortens the pause after a claim that brought nothing but has not seen all rows: one that it has not seen may be waiting. More
// means that the next claim continues. The pause also ends when a row that was seen becomes due, or may be claimed again, for which there is
// no wake-up: a claimer that relies on these does not wait for its next poll.
func (c *Claimer) continueSoon(pause time.Duration, readmitted time.Time) (shortened time.Duration, more bool) {
	l := c.Queue.Coverage()
	least := c.poll.Min
	if c.Backoff.Relies() {
		least = continuePause
	}
	for _, due := range []time.Time{l.Due, readmitted} {
		if !due.IsZero() {
			pause = min(pause, max(time.Until(due), least))
		}
	}
	if !l.Since.Before(c.whole) {
		return pause, false
	}
	next := max(time.Until(l.NextFor(c.whole)), continuePause)
	return min(pause, next), next < pause
}

// countUnmatched counts the rows that no route matches: those that this claim has seen, or all that the queue remembers.
func (c *Claimer) countUnmatched(w *wanted) {
	c.unmatched.Store(max(w.unmatched, int64(c.Queue.Coverage().Unwanted)))
}

// wanting numbers the wants of a claimer; see [adapters.ClaimRequest].Wants.
type wanting struct {
	open     [][adapters.Slots]bool          // by route
	sessions [][adapters.Slots]*lane.Session // by route
	paused   []*lane.PausedGroups            // by route
	terms    [adapters.Slots]uint64          // of the lanes; see adapters.ClaimRequest.Terms
	last     uint64
}

// wantings numbers what claims want, across claimers: a queue may outlive its claimer.
var wantings atomic.Uint64

// number changes whenever a lane is open that was closed for the claim before, or has another session, and when groups were paused
// or resumed.
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

// wanted says which rows find a lane, as of the beginning of a claim. A route whose lane is not ours or whose memory is spent is closed
// until the claim ends, and a group that is paused stays so: if it opened meanwhile, rows could overtake others that were refused before.
//
// The rows of a claim belong to the sessions of its beginning. A later session of a lane may have begun after another instance had the
// lane, and a queue whose tables have no claims may have read its rows before that.
type wanted struct {
	routes    []*lane.Route
	sessions  [][adapters.Slots]*lane.Session // of lanes that are ours, by route
	open      [][adapters.Slots]bool          // by route
	any       bool                            // there is an open one
	paused    []*lane.PausedGroups            // by route
	slots     []int                           // of lanes that are ours, of any route
	spent     bool                            // a route is closed for want of memory
	unmatched int64
}

func (c *Claimer) wanted() *wanted {
	w := &wanted{routes: c.routes, open: make([][adapters.Slots]bool, len(c.routes))}
	w.sessions, _ = c.sessions()
	var own [adapters.Slots]bool
	for i, rt := range c.routes {
		w.paused = append(w.paused, rt.Paused())
		spent := rt.Memory.Spent(int64(c.rowCost))
		w.spent = w.spent || spent
		for slot, s := range w.sessions[i] {
			if s != nil {
				own[slot], w.open[i][slot] = true, !spent
				w.any = w.any || !spent
			}
		}
	}
	for slot, ours := range own {
		if ours {
			w.slots = append(w.slots, slot)
		}
	}
	return w
}

// sessions returns those that run now, by route. A row claimed for a lane that is stopping would only go back.
func (c *Claimer) sessions() (out [][adapters.Slots]*lane.Session, works bool) {
	out = make([][adapters.Slots]*lane.Session, len(c.routes))
	for i, rt := range c.routes {
		for slot, l := range rt.Lanes {
			if s := l.Session(); s != nil && s.Context().Err() == nil {
				out[i][slot], works = s, true
			}
		}
	}
	return out, works
}

// route returns the index of the first route that matches; -1: none.
func (w *wanted) route(row *adapters.Row) int {
	for i, rt := range w.routes {
		if rt.Match(row) {
			return i
		}
	}
	return -1
}

func (w *wanted) match(row *adapters.Row) bool {
	i := w.route(row)
	if i < 0 {
		w.unmatched++
		return false
	}
	return w.open[i][adapters.SlotOf(row.Group, row.ID)] && !w.paused[i].Has(row.Group)
}
