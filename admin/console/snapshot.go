package console

import (
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/status"
	"github.com/outriderhq/outrider/internal/assembly"
)

// Snapshot is the state of all routes at a moment.
type Snapshot struct {
	At        time.Time
	Took      time.Duration        // to find it out
	Routes    []status.RouteStatus // worst first
	Instances []status.Member
	Lanes     []adapters.LaneStatus // by route and slot
	Rates     map[string]float64    // by route: messages a second that this instance delivered lately
	Stats     map[string]adapters.RouteStats

	// Problem is why the state store could not be read; then the routes are what the
	// process knows.
	Problem error
}

// CauseOf is why a route of the snapshot is in its state.
func (s *Snapshot) CauseOf(r *status.RouteStatus) status.Cause {
	c := r.Cause()
	if s.Problem != nil && c.Kind != status.CauseStopped {
		why, action := s.Trouble()
		c = status.Cause{Kind: status.CauseState, Text: "the state store cannot be read: " + why, Why: why, Action: action}
	}
	return c
}

// Trouble is why the state store cannot be read, and what to do about it.
func (s *Snapshot) Trouble() (why, action string) {
	if text, fix, ok := assembly.ConnectionProblem(s.Problem); ok && fix != "" {
		return text, fix + "; Outrider retries"
	}
	return s.Problem.Error(), "make its database reachable; `outrider doctor` examines it"
}

// statusPatience is how long a caller of Status waits for a new snapshot when there is a former one: not at all if
// making that one took longer. After a change, an error or a pause of the callers it waits longer, to see what is the case now.
const (
	statusPatience  = 100 * time.Millisecond
	changedPatience = time.Second
	statusOld       = 15 * time.Second // no request came meanwhile, or the state store is slow
)

// patience is how long a caller waits for a snapshot after this one; nil: after none.
func (s *Snapshot) patience(changed bool) time.Duration {
	switch {
	case s == nil:
		return statusLongest
	case changed, s.Problem != nil, s.Old():
		return changedPatience
	case s.Took > statusPatience:
		return 0
	}
	return statusPatience
}

// Old reports whether the snapshot says little about now: making another one takes long.
func (s *Snapshot) Old() bool { return time.Since(s.At) > statusOld }
