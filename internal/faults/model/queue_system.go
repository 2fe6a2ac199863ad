package model

// The faults of relays that claim rows, each of which the rules must notice.
const (
	ClaimsHeld       Fault = "a claim takes rows that others have"
	OvertakesHeld    Fault = "rows that others have do not end what is claimed of a group"
	OvertakesWaiting Fault = "a claim begins behind the first row of a group that waits"
	OvertakesBack    Fault = "a claim goes on behind a row of its own that is to wait again"
	SettlesOthers    Fault = "a settle does not look whose the claims are"
	SettlesClaimed   Fault = "rows are settled when they are claimed"
	NeverRecovers    Fault = "claims of the dead stay"
	RecoversDone     Fault = "rows that are delivered count as stuck"
	KeepsTheRest     Fault = "rows behind one that goes back stay claimed"
	NoQueueGate      Fault = "a claimed row does not wait for those before it in its group"
	OvertakesDying   Fault = "a row does not wait until the death of one before it is written"
	DropsFailed      Fault = "a row that failed is settled as delivered"
	OvertakesLost    Fault = "a row does not go back when the claim of the one before it is lost"
	BuriesUntried    Fault = "a claimed row dies with the one before it"
	RedrivesDone     Fault = "a redrive takes rows that are delivered"
)

// QueueFaults are all of them.
var QueueFaults = []Fault{ClaimsHeld, OvertakesHeld, OvertakesWaiting, OvertakesBack, SettlesOthers, SettlesClaimed, NeverRecovers, RecoversDone, KeepsTheRest, NoQueueGate,
	OvertakesDying, OvertakesLost, DropsFailed, BuriesUntried, RedrivesDone}

// claimed is what a relay has of the rows that it has claimed.
type claimed struct {
	Held  Set // claimed, and not settled
	Done  Set // of Held: delivered
	Back  Set // of Held: to wait again, because they failed or are behind such a row
	Dying Set // of Held: to be dead
}

// without is what is left when rows are settled.
func (m claimed) without(rows Set) claimed {
	return claimed{m.Held &^ rows, m.Done &^ rows, m.Back &^ rows, m.Dying &^ rows}
}

// goBack has rows behind others of their groups wait again.
func (m *claimed) goBack(p *Plan, others Set) {
	for row := range (m.Held &^ (m.Done | m.Dying)).All {
		if p.group(row)&(Of(row)-1)&others != 0 {
			m.Back |= Of(row)
		}
	}
}

// QueueSystem is a state of relays that claim rows of one table, with what their publishers have done.
type QueueSystem struct {
	World      QueueRules
	Publishers publishers
	Relays     [Relays]claimed
	Left       Bounds
}

func (s *QueueSystem) rules() rules { return &s.World }

// next yields all states that follow.
func (s *QueueSystem) next(p *Plan, f Fault, yield func(step[QueueSystem])) {
	s.Publishers.next(s.Left, func(to publishers, left Bounds, events []Event, possible bool) {
		after := *s
		after.Publishers, after.Left = to, left
		yield(step[QueueSystem]{after, events, possible})
	})
	for i := range s.Left.Relays {
		m := &s.Relays[i]
		s.claim(p, i, f, yield)
		for row := range m.Held.All {
			s.attempt(p, i, row, f, yield)
		}
		s.settle(p, i, f, yield)
		s.recover(i, f, yield)
		if s.Left.Crashes > 0 && m.Held != 0 {
			to := *s
			to.Left.Crashes--
			to.Relays[i] = claimed{}
			yield(step[QueueSystem]{to, []Event{{Kind: Gone, Relay: i}}, true})
		}
	}
	s.operate(f, yield)
}

// claim takes, of each group, the rows that wait up to the first that it cannot have.
func (s *QueueSystem) claim(p *Plan, i int, f Fault, yield func(step[QueueSystem])) {
	w, m := &s.World, s.Relays[i]
	var rows, ended Set // ended: nothing behind these
	for row := range (w.Visible &^ (w.Done | w.Dead | w.Dropped)).All {
		before := p.group(row) & (Of(row) - 1)
		free := w.Holder[row] == nobody || f == ClaimsHeld && !m.Held.Has(row)
		switch {
		case before&ended != 0:
		case free && f == OvertakesWaiting && before == 0 && p.group(row)&w.Visible != 0:
		case free:
			rows |= Of(row)
		case w.Holder[row] != relay(i) && f != OvertakesHeld, m.Back.Has(row) && f != OvertakesBack:
			ended |= Of(row)
		}
	}
	if rows == 0 {
		return
	}
	to := *s
	to.Relays[i] = m.without(rows)
	to.Relays[i].Held |= rows
	yield(step[QueueSystem]{to, []Event{{Kind: Claim, Relay: i, Covered: rows}}, false})
}

// attempt gives a row to the receiver.
func (s *QueueSystem) attempt(p *Plan, i, row int, f Fault, yield func(step[QueueSystem])) {
	m, one := &s.Relays[i], Of(row)
	waits := p.group(row) & (one - 1) & m.Held &^ m.Done
	switch f { //nolint:exhaustive // those of this step
	case NoQueueGate:
		waits = 0
	case OvertakesDying:
		waits &^= m.Dying
	}
	if waits != 0 || (m.Done|m.Back|m.Dying)&one != 0 {
		return
	}
	to := *s
	to.Relays[i].Done |= one
	yield(step[QueueSystem]{to, []Event{{Kind: Send, Relay: i, Row: row, OK: true}}, false})
	failed := []Event{{Kind: Send, Relay: i, Row: row}}
	if s.Left.Fails > 0 {
		to := *s
		to.Left.Fails--
		if to.Relays[i].Back |= one; f != KeepsTheRest {
			to.Relays[i].goBack(p, one)
		}
		yield(step[QueueSystem]{to, failed, true})
	}
	if s.Left.Deaths > 0 {
		to := *s
		to.Left.Deaths--
		to.Relays[i].Dying |= one
		if f == BuriesUntried {
			to.Relays[i].Dying |= p.group(row) & m.Held &^ m.Done
		}
		yield(step[QueueSystem]{to, failed, true})
	}
}

// settle writes what is done, perhaps without a row that another session has locked. Claims that it has lost it forgets.
func (s *QueueSystem) settle(p *Plan, i int, f Fault, yield func(step[QueueSystem])) {
	m := s.Relays[i]
	if f == SettlesClaimed {
		m.Done = m.Held &^ (m.Back | m.Dying)
	}
	all := m.Done | m.Back | m.Dying
	s.written(p, i, m, all, f, false, yield)
	if s.Left.Locks == 0 || all.Len() < 2 {
		return
	}
	for row := range all.All {
		s.written(p, i, m, all&^Of(row), f, true, yield)
	}
}

// written is what follows a settle of some rows. What is behind a row whose death was to be written, and whose claim is lost, goes back.
func (s *QueueSystem) written(p *Plan, i int, m claimed, rows Set, f Fault, locked bool, yield func(step[QueueSystem])) {
	if rows == 0 {
		return
	}
	to := *s
	if locked {
		to.Left.Locks--
	}
	var own Set
	for row := range rows.All {
		if by := s.World.Holder[row]; by == relay(i) || f == SettlesOthers && by != nobody {
			own |= Of(row)
		}
	}
	e := Event{Kind: Wrote, Relay: i, Covered: m.Done & own, Parked: m.Back & own, Dead: m.Dying & own}
	if f == DropsFailed {
		e.Covered, e.Parked = e.Covered|e.Parked, 0
	}
	to.Relays[i] = m.without(rows)
	if f != OvertakesLost {
		to.Relays[i].goBack(p, m.Dying&rows&^own)
	}
	events := []Event{e}
	if own == 0 {
		events = nil
	}
	yield(step[QueueSystem]{to, events, locked})
}

// recover has rows wait again whose claims count as stuck: those of the dead sooner or later, and perhaps those of the living.
func (s *QueueSystem) recover(i int, f Fault, yield func(step[QueueSystem])) {
	if f == NeverRecovers {
		return
	}
	var dead Set
	var living [Relays]Set
	for row, by := range s.World.Holder {
		switch {
		case by == nobody:
		case by > nobody && s.Relays[by-1].Held.Has(row):
			living[by-1] |= Of(row) //nolint:gosec // it is a relay
		default:
			dead |= Of(row)
		}
	}
	if f == RecoversDone {
		dead |= s.World.Done
	}
	if dead != 0 {
		yield(step[QueueSystem]{*s, []Event{{Kind: Freed, Relay: i, Parked: dead}}, false})
	}
	for j, rows := range living {
		if rows == 0 || j == i || s.Left.Steals == 0 {
			continue
		}
		to := *s
		to.Left.Steals--
		yield(step[QueueSystem]{to, []Event{{Kind: Freed, Relay: i, Parked: rows}}, true})
	}
}

// operate carries out a command.
func (s *QueueSystem) operate(f Fault, yield func(step[QueueSystem])) {
	if s.Left.Commands == 0 {
		return
	}
	to := *s
	to.Left.Commands--
	rows := s.World.Dead
	for row := range rows.All {
		yield(step[QueueSystem]{to, []Event{{Kind: Drop, Row: row}}, true})
	}
	if f == RedrivesDone {
		rows |= s.World.Done
	}
	for row := range rows.All {
		yield(step[QueueSystem]{to, []Event{{Kind: Redrive, Row: row}}, true})
	}
}
