package model

import "fmt"

// lane is what the state store has of a lane.
type lane struct {
	Epoch   int64
	Owner   int // a relay; meaningless before the first epoch
	Covered Set // settled, parked or dead
	Parked  Set // waits or is tried again
	Dead    Set
}

// session is what a relay knows of a lane that it has acquired; the zero value: it has not.
type session struct {
	Epoch   int64
	Covered Set // when it was acquired, and by settles since
	Parked  Set // likewise
	Sent    Set // taken by the receiver since
	Tried   Set // given to the receiver since
}

// Rules is what has happened, as far as it decides what may happen. Values are comparable, and a copy is another world.
type Rules struct {
	table
	Lanes             [Lanes]lane
	Sessions          [Relays][Lanes]session
	Delivered         Set
	Dropped, Redriven Set
}

// Do is what an event changes. The error says which rule forbids it.
func (w *Rules) Do(p *Plan, e Event) error {
	if w.publish(p, e) {
		if e.Kind == Commit && w.Lanes[p.Lane[e.Row]].Covered.Has(e.Row) {
			return fmt.Errorf("row %d was settled before its transaction committed", e.Row)
		}
		return nil
	}
	switch e.Kind {
	case Acquire:
		return w.acquire(e)
	case Send:
		return w.send(p, e)
	case Tried:
		w.Sessions[e.Relay][p.Lane[e.Row]].Tried |= Of(e.Row)
	case Settle:
		return w.settle(e)
	case Drop:
		l := &w.Lanes[p.Lane[e.Row]]
		w.Dropped |= Of(e.Row)
		l.Parked, l.Dead = l.Parked&^Of(e.Row), l.Dead&^Of(e.Row)
	case Redrive:
		l := &w.Lanes[p.Lane[e.Row]]
		w.Redriven |= Of(e.Row)
		l.Parked, l.Dead = l.Parked|Of(e.Row), l.Dead&^Of(e.Row)
		for r := range Relays { // its owner loads the row some time later
			if s := &w.Sessions[r][p.Lane[e.Row]]; s.Epoch != 0 {
				s.Parked, s.Sent = s.Parked|Of(e.Row), s.Sent&^Of(e.Row)
			}
		}
	case Gone:
		w.Sessions[e.Relay] = [Lanes]session{}
	default:
		return fmt.Errorf("an event of the unknown kind %q", e.Kind)
	}
	return nil
}

func (w *Rules) acquire(e Event) error {
	l := &w.Lanes[e.Lane]
	if e.Epoch <= l.Epoch {
		return fmt.Errorf("lane %d was acquired with epoch %d after %d", e.Lane, e.Epoch, l.Epoch)
	}
	l.Epoch, l.Owner = e.Epoch, e.Relay
	w.Sessions[e.Relay][e.Lane] = session{Epoch: e.Epoch, Covered: l.Covered, Parked: l.Parked}
	return nil
}

func (w *Rules) send(p *Plan, e Event) error {
	s, row := &w.Sessions[e.Relay][p.Lane[e.Row]], Of(e.Row)
	over := s.Covered &^ s.Parked
	switch before := w.Before[e.Row] &^ (over | s.Sent | w.Dropped | w.Redriven); {
	case s.Epoch == 0:
		return fmt.Errorf("relay %d sent row %d of lane %d, which it has not acquired", e.Relay, e.Row, p.Lane[e.Row])
	case w.Visible&row == 0:
		return fmt.Errorf("row %d was sent before its transaction committed", e.Row)
	case over&row != 0:
		return fmt.Errorf("relay %d sent row %d, which it had settled, or found settled", e.Relay, e.Row)
	case before != 0:
		return fmt.Errorf("relay %d sent row %d before rows %v of its group", e.Relay, e.Row, before.list())
	}
	s.Tried |= row
	if e.OK {
		s.Sent |= row
		w.Delivered |= row
	}
	return nil
}

func (w *Rules) settle(e Event) error {
	l := &w.Lanes[e.Lane]
	s := &w.Sessions[l.Owner][e.Lane]
	fresh := (e.Covered &^ l.Covered) & w.Visible
	ended := l.Parked &^ (e.Parked | e.Dead)
	switch {
	case e.Epoch != l.Epoch:
		return fmt.Errorf("a settle of epoch %d was written into lane %d, which has %d", e.Epoch, e.Lane, l.Epoch)
	case l.Covered&^e.Covered != 0:
		return fmt.Errorf("lane %d went back: rows %v are no longer settled", e.Lane, (l.Covered &^ e.Covered).list())
	case (e.Parked|e.Dead)&^e.Covered != 0:
		return fmt.Errorf("rows %v of lane %d are parked and would be read again", ((e.Parked | e.Dead) &^ e.Covered).list(), e.Lane)
	case fresh&^(s.Sent|e.Parked|e.Dead|w.Dropped) != 0:
		return fmt.Errorf("rows %v of lane %d were settled and neither delivered nor parked", (fresh &^ (s.Sent | e.Parked | e.Dead | w.Dropped)).list(), e.Lane)
	case ended&^s.Sent != 0:
		return fmt.Errorf("rows %v of lane %d were parked, are no longer, and were not delivered", (ended &^ s.Sent).list(), e.Lane)
	case e.Dead&^l.Dead&^s.Tried != 0:
		return fmt.Errorf("rows %v of lane %d are dead and were not tried", (e.Dead &^ l.Dead &^ s.Tried).list(), e.Lane)
	case (e.Parked|e.Dead)&w.Dropped != 0:
		return fmt.Errorf("rows %v of lane %d are parked again after an operator has removed them", ((e.Parked | e.Dead) & w.Dropped).list(), e.Lane)
	}
	l.Covered, l.Parked, l.Dead = e.Covered, e.Parked, e.Dead
	s.Covered, s.Parked = e.Covered, e.Parked
	return nil
}

// Finish says what is lost when nothing more happens.
func (w *Rules) Finish() error {
	var dead Set
	for i := range w.Lanes {
		dead |= w.Lanes[i].Dead
	}
	if lost := w.Visible &^ (w.Delivered | dead | w.Dropped); lost != 0 {
		return fmt.Errorf("rows %v were committed, and neither delivered nor given to operators", lost.list())
	}
	return nil
}

// Settled are the rows that lanes count as settled, and for which nothing remains to be done by relays.
func (w *Rules) Settled() (s Set) {
	for i := range w.Lanes {
		s |= w.Lanes[i].Covered &^ w.Lanes[i].Parked
	}
	return s & w.Visible
}
