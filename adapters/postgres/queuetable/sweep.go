package queuetable

import "time"

const (
	// sweepShare bounds the share of time that goes into reading everything while
	// there is other work: one part of so many.
	sweepShare = 20

	// idleShare is what this becomes while many groups wait for a time: one more part for each so many.
	idleShare       = 100
	sleepersOfShare = 1000

	// sweepCredit is for how long everything may be read without being rationed when
	// there is nothing else to do. It comes back with the share of the time that was not used.
	sweepCredit = 500 * time.Millisecond
)

// sweep is where the reading of everything unfinished stands. By age it is at a
// place, by name in the walk of one status at a group.
type sweep struct {
	known  int64     // when the latest row was created that was known as it began; by age only
	began  time.Time // when it began
	whole  time.Time // when the latest one began that has come to its end
	place  place
	status int
	name   string
	midway bool          // not at the beginning
	read   time.Time     // when the last page was
	took   time.Duration // and how long
	credit time.Duration // for which nothing is rationed
	rows   int           // of the next page
	warned bool
}

// due reports whether the next page would keep to its share of the time.
func (s *sweep) due(share int) bool { return !time.Now().Before(s.next(share)) }

// next is when the next page is due.
func (s *sweep) next(share int) time.Time { return s.read.Add(time.Duration(share-1) * s.took) }

// restart begins the reading of everything anew.
func (s *sweep) restart() { s.place, s.status, s.name, s.midway = place{}, 0, "", false }

// spent takes note of what a page cost, of which one part of share is free.
func (s *sweep) spent(began time.Time, share int) {
	earned := min(began.Sub(s.read)/time.Duration(share-1), sweepCredit)
	s.read, s.took = time.Now(), time.Since(began)
	s.credit = min(s.credit+earned, sweepCredit) - s.took
}

// charge takes note of time that was spent in vain on looking at what a page has
// found: rows that no route matches, too many to be remembered.
func (s *sweep) charge(took time.Duration) {
	s.took, s.credit = max(s.took, min(s.took+took, slowSweep)), max(s.credit-took, -sweepCredit)
}

// share is which part of the time goes into reading everything when nothing else
// is to be done.
func (t *queueTable) share() int {
	if !t.aged {
		return 2 // there is no other way to find work
	}
	return min(sweepShare+len(t.asleep.groups)/sleepersOfShare, idleShare)
}
