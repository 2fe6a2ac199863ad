package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// eventPlace begins the place of a row.
func (r *foundRow) eventPlace(where EventWhere, text string) EventPlace {
	return EventPlace{Where: where, Text: text, Route: r.route, Source: r.source, Table: r.Table, Slot: &r.Row.Slot,
		Group: r.Row.Group, Type: r.Row.Type, Position: r.Row.Position, Created: timeOf(r.Row.CreatedAt)}
}

// timeOf is nil for the zero time.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// owned says which instance has the lane.
func (s *search) owned(p *EventPlace, l *adapters.LaneStatus) {
	if l != nil {
		p.Owner, p.OwnerAlive = l.Owner, l.Owner != "" && l.Alive
	}
}

// inLog is the place of a row in a log table on a route.
func (s *search) inLog(ctx context.Context, r *foundRow) EventPlace {
	p := r.eventPlace(EventUnread, "")
	l := s.lanes[adapters.LaneRef{Route: r.route, Slot: r.Row.Slot}]
	s.owned(&p, l)
	if l == nil {
		l = &adapters.LaneStatus{}
	}
	begun := !l.UpdatedAt.IsZero()
	if begun {
		p.Cursor = &l.Cursor.Position
	}
	parked, trace := s.takeParked(r), s.takeTrace(r)
	switch {
	case trace != nil && trace.Stage != adapters.TraceSettled && (parked == nil || trace.Stage == adapters.TraceSending):
		p.traced(trace)
		if parked != nil {
			p.Key, p.Tries, p.Attempts = keyOf(parked), parked.Tries, parked.Attempts
		}
	case parked != nil:
		p.parked(parked)
	case begun && r.Settled(l.Cursor, l.Beyond):
		p.Where, p.Text = EventSettled, "delivered, skipped by middleware, or removed by an operator: the table does not show which"
		if trace != nil {
			p.settled(trace)
		}
	default:
		s.ahead(ctx, &p, r, l)
		p.unread(s.j.Instance, begun)
	}
	return p
}

// unread explains why a row is not settled that this instance does not have in flight.
func (p *EventPlace) unread(here string, begun bool) {
	before := ""
	if p.Ahead != nil {
		before = fmt.Sprintf(", %d rows of its lane are before it", *p.Ahead)
		if p.AheadMore {
			before = fmt.Sprintf(", more than %d rows of its lane are before it", *p.Ahead)
		}
	}
	switch {
	case !begun:
		p.Text, p.Action = "in the table; the route has not begun to read its lane", "start a relay: outrider run"
	case p.Owner == "":
		p.Text, p.Action = "in the table, not settled, and no instance owns its lane"+before, "start a relay: outrider run"
	case here == "":
		p.Text, p.Action = "in the table, not settled: not read yet, or in flight at "+p.Owner+before, "ask that instance: its admin API shows messages in flight"
	case p.Owner != here:
		p.Text, p.Action = "in the table, not settled: not read yet, or in flight at "+p.Owner+", which owns its lane"+before, "ask that instance"
	default:
		p.Text = "in the table, not read yet" + before
	}
}

// parked takes what the state store says of a parked message.
func (p *EventPlace) parked(m *adapters.Parked) {
	p.Where, p.Route, p.Slot, p.Group, p.Type, p.Position = EventParked, m.Route, &m.Slot, m.Group, m.Type, m.Position
	p.Status, p.Key, p.Parked, p.Tries, p.Attempts, p.Error = m.Status, keyOf(m), timeOf(m.ParkedAt), m.Tries, m.Attempts, m.LastError
	switch m.Status {
	case adapters.ParkedRetrying:
		p.Text, p.Next = fmt.Sprintf("parked after %d failed attempts, will be retried", m.Attempts), timeOf(m.NextAttemptAt)
	case adapters.ParkedWaiting:
		p.Text = "parked behind an earlier message of its group, or until its address recovers"
	case adapters.ParkedHeld:
		p.Text, p.Action = "held: its attempts are used up, and its group waits", "redrive it, or skip it to release its group"
	case adapters.ParkedDead:
		p.Where, p.Text, p.Action = EventDead, "dead: its attempts are used up, and its group continued", "redrive or purge it"
	}
}

func keyOf(m *adapters.Parked) string { return fmt.Sprintf("%s/%d/%d", m.Route, m.Slot, m.Seq) }

// traced takes what the memory of an instance says.
func (p *EventPlace) traced(t *adapters.Trace) {
	p.Where, p.Since, p.Attempt, p.Error = EventInFlight, timeOf(t.Since), t.Attempt, t.Error
	attempt := ""
	if t.Attempt > 0 {
		attempt = fmt.Sprintf(", attempt %d", t.Attempt)
	}
	switch t.Stage {
	case adapters.TraceSending:
		p.Text = "in flight at " + t.Instance + ": being delivered" + attempt
	case adapters.TraceWaiting:
		p.Text = "in flight at " + t.Instance + ": waiting for its turn or its next attempt" + attempt
	case adapters.TraceEnded:
		p.Text = "finished at " + t.Instance + ", and about to be settled"
	case adapters.TraceSkipped:
		p.Where, p.Text = EventSkipped, "skipped by middleware at "+t.Instance+": "+t.Reason
		p.By = timeOf(t.By)
	case adapters.TraceSettled:
		p.Where, p.Text = EventSettled, "delivered or skipped"
		p.settled(t)
	}
}

// settled says when.
func (p *EventPlace) settled(t *adapters.Trace) { p.After, p.By = timeOf(t.After), timeOf(t.By) }

// inQueue is the place of a row of a queue's table.
func (s *search) inQueue(r *foundRow) EventPlace {
	p := r.eventPlace(EventWaiting, "in the table, waiting to be claimed")
	p.Attempts, p.Error = r.Attempts, r.Error
	s.owned(&p, s.lanes[adapters.LaneRef{Route: r.route, Slot: r.Row.Slot}])
	trace := s.takeTrace(r)
	switch r.Status {
	case adapters.RowWaiting:
		if r.Due.After(time.Now()) {
			p.Text, p.Next = "in the table, waiting for its next attempt", timeOf(r.Due)
		}
	case adapters.RowProcessing:
		p.Where, p.Since = EventInFlight, timeOf(r.Claimed)
		p.Text = "in flight: marked as being processed, by another instance or processor, or left so by a crash"
		if trace != nil {
			p.traced(trace)
		}
	case adapters.RowDone:
		p.Where, p.Text, p.By = EventSettled, "delivered, or skipped by middleware: the table does not show which", timeOf(r.Done)
	case adapters.RowDead:
		p.Where, p.Text, p.Action = EventDead, "dead: its attempts are used up", "redrive or purge it"
		p.Status, p.Parked = adapters.ParkedDead, timeOf(r.Changed)
		p.Attempts = config.DeadAttempts(s.op.build.Config.Sources[r.source], r.Attempts)
	case adapters.RowOther:
		p.Where, p.Text = EventForeign, "the layout does not know its status: no relay processes it"
	}
	return p
}
