package queuetable

import (
	"math"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
)

const (
	// lookRows bounds the rows of a group that one look reads where those before
	// them brought nothing, and lookBytes their payloads.
	lookRows  = 8192
	lookBytes = 8 << 20

	// blockedPause is after how long a group is looked at again if another process
	// holds a row of it: there is no signal when that row is released.
	blockedPause = time.Second
)

// Coverage implements [adapters.Queue].
func (q *Queue) Coverage() adapters.Coverage {
	states := make([]adapters.Coverage, len(q.tables))
	for i, t := range q.tables {
		states[i] = t.state
		states[i].Unwanted = t.unmatched.never
	}
	return queue.Looked(states...)
}

// again notes when something in the group may be claimed that cannot be now.
func (g *queueGroup) again(pause time.Duration) {
	g.due = queue.Sooner(g.due, time.Now().Add(pause))
}

// end says whether a group stays in the ring.
func (s *tableClaim) end(v *visit) {
	if !v.stays {
		s.table.leave(v.group, v.known)
		return
	}
	v.group.since = v.first
	if v.waits != 0 && v.blocked == math.MaxInt64 {
		s.table.sleep(v)
	}
}

// suspend ends the visits that brought nothing for long, so that the claim comes to
// an end. The next one goes on there; because it begins by the margin further
// ahead, only those end that have come further than that.
func (s *tableClaim) suspend() {
	kept := s.again[:0]
	for _, v := range s.again {
		if v.after.created-v.begun <= queueMargin.Microseconds() {
			kept = append(kept, v)
			continue
		}
		v.keep(v.after.created)
		s.end(v)
	}
	s.again = kept
}

// cover says how much has been read after a claim that brought nothing: the
// groups that are in the ring, and whatever the latest reading of everything
// found, because that has put it there.
func (s *tableClaim) cover() {
	t := s.table
	l := adapters.Coverage{Since: s.began, Next: t.round.next(t.share())}
	if len(t.ring) == 0 && t.round.credit > 0 {
		l.Next = s.began
	}
	if t.round.whole.Before(l.Since) {
		l.Since = t.round.whole
	}
	for _, g := range t.ring {
		if !s.eligible(g) || s.allowed(g) == 0 {
			continue
		}
		if g.looked.Before(l.Since) {
			l.Since, l.Next = g.looked, s.began
		}
		l.Due = queue.Sooner(l.Due, g.due)
	}
	if len(t.asleep.order) > 0 {
		l.Due = queue.Sooner(l.Due, t.asleep.order[0].until)
	}
	t.state = l
}

const (
	// roundShare bounds the share of time that goes into reading everything while
	// there is other work: one part of so many.
	roundShare = 20

	// idleShare is what this becomes while many groups wait for a time: one more part for each so many.
	idleShare       = 100
	sleepersOfShare = 1000

	// roundCredit is for how long everything may be read without being rationed when
	// there is nothing else to do. It comes back with the share of the time that was not used.
	roundCredit = 500 * time.Millisecond
)

// round is where the reading of everything unfinished stands. By age it is at a
// position, by name in the walk of one status at a group.
type round struct {
	known    int64     // when the latest row was created that was known as it began; by age only
	began    time.Time // when it began
	whole    time.Time // when the latest one began that has come to its end
	position position
	status   int
	name     string
	midway   bool          // not at the beginning
	read     time.Time     // when the last page was
	took     time.Duration // and how long
	credit   time.Duration // for which nothing is rationed
	rows     int           // of the next page
	warned   bool
}

// due reports whether the next page would keep to its share of the time.
func (s *round) due(share int) bool { return !time.Now().Before(s.next(share)) }

// next is when the next page is due.
func (s *round) next(share int) time.Time { return s.read.Add(time.Duration(share-1) * s.took) }

// restart begins the reading of everything again.
func (s *round) restart() { s.position, s.status, s.name, s.midway = position{}, 0, "", false }

// spent takes note of what a page cost, of which one part of share is free.
func (s *round) spent(began time.Time, share int) {
	earned := min(began.Sub(s.read)/time.Duration(share-1), roundCredit)
	s.read, s.took = time.Now(), time.Since(began)
	s.credit = min(s.credit+earned, roundCredit) - s.took
}

// charge adds time that was spent on rows which a page has found and no route
// matches, too many to be remembered.
func (s *round) charge(took time.Duration) {
	s.took, s.credit = max(s.took, min(s.took+took, slowRound)), max(s.credit-took, -roundCredit)
}

// share is which part of the time goes into reading everything when nothing else
// is to be done.
func (t *queueTable) share() int {
	if !t.aged {
		return 2 // there is no other way to find work
	}
	return min(roundShare+len(t.asleep.groups)/sleepersOfShare, idleShare)
}
