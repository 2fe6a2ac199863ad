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
		states[i].Unwanted = t.passed.never
	}
	return queue.Looked(states...)
}

// again notes when something in the group may be claimed that cannot be now.
func (g *queueGroup) again(pause time.Duration) {
	g.due = queue.Sooner(g.due, time.Now().Add(pause))
}

// end says whether a group stays in the ring.
func (s *service) end(v *visit) {
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
func (s *service) suspend() {
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

// looked says how much has been looked at after a claim that brought nothing: the
// groups that are in the ring, and whatever the latest reading of everything
// found, because that has put it there.
func (s *service) looked() {
	t := s.table
	l := adapters.Coverage{Since: s.began, Next: t.sweep.next(t.share())}
	if len(t.ring) == 0 && t.sweep.credit > 0 {
		l.Next = s.began
	}
	if t.sweep.whole.Before(l.Since) {
		l.Since = t.sweep.whole
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
