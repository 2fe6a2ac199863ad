package model

import "fmt"

// QueueRules are the rules for a table whose rows have a status: relays claim them, and a claim that takes too long counts as stuck.
type QueueRules struct {
	table
	Holder            [Rows]int8 // whose claim the table shows: a relay, nobody or gone
	Done, Dead        Set
	Held              [Relays]Set // claimed by the relay, for all that it knows
	Sent, Tried       [Relays]Set // of Held: taken by the receiver, given to it
	Delivered         Set
	Dropped, Redriven Set
}

// Who has claimed a row, besides relays.
const (
	nobody int8 = 0
	gone   int8 = -1 // a relay that has crashed
)

// relay is how a relay is written in a table.
func relay(i int) int8 { return int8(i + 1) }

// Do is what an event changes. The error says which rule forbids it.
func (w *QueueRules) Do(p *Plan, e Event) error {
	if w.publish(p, e) {
		return nil
	}
	switch e.Kind {
	case Claim:
		return w.claim(e)
	case Send:
		return w.send(e)
	case Tried:
		w.Tried[e.Relay] |= Of(e.Row)
	case Wrote:
		return w.wrote(e)
	case Freed:
		return w.freed(e)
	case Drop:
		w.Dropped, w.Dead = w.Dropped|Of(e.Row), w.Dead&^Of(e.Row)
	case Redrive:
		if !w.Dead.Has(e.Row) {
			return fmt.Errorf("row %d was redriven, and is not dead", e.Row)
		}
		w.Redriven, w.Dead = w.Redriven|Of(e.Row), w.Dead&^Of(e.Row)
	case Gone:
		w.Held[e.Relay], w.Sent[e.Relay], w.Tried[e.Relay] = 0, 0, 0
		for row, by := range w.Holder {
			if by == relay(e.Relay) {
				w.Holder[row] = gone
			}
		}
	default:
		return fmt.Errorf("an event of the unknown kind %q", e.Kind)
	}
	return nil
}

// over are the rows that hold nothing up.
func (w *QueueRules) over() Set { return w.Done | w.Dead | w.Dropped | w.Redriven }

func (w *QueueRules) claim(e Event) error {
	for row := range e.Covered.All {
		var others Set // before the row, and not the relay's
		for r := range (w.Before[row] &^ (w.over() | e.Covered)).All {
			if w.Holder[r] != relay(e.Relay) {
				others |= Of(r)
			}
		}
		switch {
		case !w.Visible.Has(row):
			return fmt.Errorf("row %d was claimed before its transaction committed", row)
		case (w.Done | w.Dead | w.Dropped).Has(row):
			return fmt.Errorf("row %d was claimed, and is final", row)
		case w.Holder[row] != nobody:
			return fmt.Errorf("relay %d claimed row %d, which another has claimed", e.Relay, row)
		case others != 0:
			return fmt.Errorf("relay %d claimed row %d, and rows %v before it are not its own", e.Relay, row, others.list())
		}
	}
	for row := range e.Covered.All {
		w.Holder[row] = int8(e.Relay + 1)
	}
	w.Held[e.Relay] |= e.Covered
	w.Sent[e.Relay], w.Tried[e.Relay] = w.Sent[e.Relay]&^e.Covered, w.Tried[e.Relay]&^e.Covered
	return nil
}

func (w *QueueRules) send(e Event) error {
	before := w.Before[e.Row] &^ (w.over() | w.Sent[e.Relay])
	switch {
	case !w.Held[e.Relay].Has(e.Row):
		return fmt.Errorf("relay %d sent row %d, which it has not claimed, or has settled", e.Relay, e.Row)
	case before != 0:
		return fmt.Errorf("relay %d sent row %d before rows %v of its group", e.Relay, e.Row, before.list())
	}
	w.Tried[e.Relay] |= Of(e.Row)
	if e.OK {
		w.Sent[e.Relay] |= Of(e.Row)
		w.Delivered |= Of(e.Row)
	}
	return nil
}

func (w *QueueRules) wrote(e Event) error {
	for row := range (e.Covered | e.Parked | e.Dead).All {
		if w.Holder[row] != relay(e.Relay) {
			return fmt.Errorf("relay %d settled row %d, which it does not have", e.Relay, row)
		}
	}
	if unsent := e.Covered &^ w.Sent[e.Relay]; unsent != 0 {
		return fmt.Errorf("relay %d wrote that rows %v are delivered, and has not delivered them", e.Relay, unsent.list())
	}
	if untried := e.Dead &^ w.Tried[e.Relay]; untried != 0 {
		return fmt.Errorf("rows %v are dead, and relay %d has not tried them", untried.list(), e.Relay)
	}
	w.Done, w.Dead = w.Done|e.Covered, w.Dead|e.Dead
	w.free(e.Covered | e.Parked | e.Dead)
	w.Held[e.Relay] &^= e.Covered | e.Parked | e.Dead
	return nil
}

func (w *QueueRules) freed(e Event) error {
	for row := range e.Parked.All {
		if w.Holder[row] == nobody {
			return fmt.Errorf("relay %d had row %d wait again, which nobody has claimed", e.Relay, row)
		}
	}
	w.free(e.Parked)
	return nil
}

// free takes rows from whoever has them, which may not know it.
func (w *QueueRules) free(rows Set) {
	for row := range rows.All {
		w.Holder[row] = nobody
	}
}

// Finish says what is lost when nothing more happens.
func (w *QueueRules) Finish() error {
	if lost := w.Visible &^ (w.Delivered | w.Dead | w.Dropped); lost != 0 {
		return fmt.Errorf("rows %v were committed, and neither delivered nor given to operators", lost.list())
	}
	return nil
}

// Settled are the rows for which nothing remains to be done.
func (w *QueueRules) Settled() Set { return w.Done | w.Dead | w.Dropped }
