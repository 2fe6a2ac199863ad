package model

// Fault is a mistake in how relays work, for [System].
type Fault string

// The faults, each of which the rules must notice.
const (
	NoFault       Fault = ""
	NoFence       Fault = "a settle does not compare epochs"
	SameEpoch     Fault = "a lane is acquired without another epoch"
	ByPosition    Fault = "a cursor passes positions of open transactions"
	SkipsLate     Fault = "rows below the highest position are not looked for"
	SettlesRead   Fault = "rows are settled when they are read"
	SettlesFailed Fault = "rows that failed are settled and parked later"
	ForgetsBeyond Fault = "what is settled beyond the first open row is forgotten by the next owner"
	ForgetsParked Fault = "parked rows are forgotten by the next owner"
	NoGate        Fault = "a row does not wait for those before it in its group"
	PassesParked  Fault = "a row does not wait for parked ones of its group" //nolint:gosec // no password
	ParksAlone    Fault = "rows behind a parked one are settled with it"
	EndsEarly     Fault = "a parked row is removed before its attempt"
	Resurrects    Fault = "a settle writes parked rows again that an operator has removed"
	DiesUntried   Fault = "a row dies with the one before it"
	FencesOne     Fault = "a settle of several lanes compares the epoch of one"
	ReadsOthers   Fault = "rows of lanes that others have are read"
)

// Faults are all of them.
var Faults = []Fault{NoFence, SameEpoch, ByPosition, SkipsLate, SettlesRead, SettlesFailed, ForgetsBeyond, ForgetsParked, NoGate, PassesParked,
	ParksAlone, EndsEarly, Resurrects, DiesUntried, FencesOne, ReadsOthers}

// Bounds are how often what nobody wishes for happens, and how much there is to do.
type Bounds struct {
	Rows, Relays                                     int
	Lanes                                            int // at most workedLanes, 0: one
	Aborts, Crashes, Steals, Fails, Deaths, Commands int8
	Locks                                            int8 // settles of a queue that leave out a row, which another session has locked
}

// workedLanes is how many lanes relays work, at most.
const workedLanes = 2

// memory is what a relay has of a lane.
type memory struct {
	Epoch   int64 // 0: it has no session
	Covered Set   // settled
	Parked  Set
	Read    Set // and not covered
	Done    Set // of Read and Parked: delivered, and not settled
	Failed  Set // of Read: to be parked
	Dead    Set // of Parked: to be dead
}

// System is a state of relays that work lanes, with what their publishers have done.
type System struct {
	World      Rules
	Publishers publishers
	Relays     [Relays][workedLanes]memory
	Left       Bounds
}

func (s *System) rules() rules { return &s.World }

// next yields all states that follow.
func (s *System) next(p *Plan, f Fault, yield func(step[System])) {
	s.Publishers.next(s.Left, func(to publishers, left Bounds, events []Event, possible bool) {
		after := *s
		after.Publishers, after.Left = to, left
		yield(step[System]{after, events, possible})
	})
	for i := range s.Left.Relays {
		for lane := range max(s.Left.Lanes, 1) {
			m := &s.Relays[i][lane]
			if m.Epoch == 0 {
				s.acquire(i, lane, f, yield)
				continue
			}
			s.read(p, i, lane, f, yield)
			for row := range (m.Read | m.Parked).All {
				s.attempt(p, i, lane, row, f, yield)
			}
			s.settle(p, i, lane, f, yield)
		}
		if s.Left.Crashes > 0 && s.Relays[i] != [workedLanes]memory{} {
			to := *s
			to.Left.Crashes--
			to.Relays[i] = [workedLanes]memory{}
			yield(step[System]{to, []Event{{Kind: Gone, Relay: i}}, true})
		}
	}
	s.operate(yield)
}

// acquire takes a lane from nobody, or from a living owner that is taken for dead.
func (s *System) acquire(i, lane int, f Fault, yield func(step[System])) {
	l := &s.World.Lanes[lane]
	to := *s
	alive := l.Epoch != 0 && s.Relays[l.Owner][lane].Epoch == l.Epoch
	if alive {
		if to.Left.Steals--; to.Left.Steals < 0 {
			return
		}
	}
	m := memory{Epoch: l.Epoch + 1, Covered: l.Covered, Parked: l.Parked}
	switch f { //nolint:exhaustive // those of this step
	case SameEpoch:
		m.Epoch = max(l.Epoch, 1)
	case ForgetsBeyond:
		m.Covered = 0
		for r := 0; l.Covered.Has(r); r++ {
			m.Covered |= Of(r)
		}
	case ForgetsParked:
		m.Parked = 0
	}
	to.Relays[i][lane] = m
	yield(step[System]{to, []Event{{Kind: Acquire, Relay: i, Lane: lane, Epoch: m.Epoch}}, alive})
}

// read takes all visible rows of a lane that are not settled, and what an operator has changed.
func (s *System) read(p *Plan, i, lane int, f Fault, yield func(step[System])) {
	to := *s
	m := &to.Relays[i][lane]
	fresh := s.World.Visible &^ (m.Covered | m.Read)
	for row := range fresh.All {
		if p.Lane[row] != lane && f != ReadsOthers {
			fresh &^= Of(row)
		}
	}
	if f == SkipsLate {
		for r := range Rows {
			if (m.Covered | m.Read).Has(r) {
				fresh &^= Of(r)<<1 - 1
			}
		}
	}
	m.Read |= fresh
	if l := &s.World.Lanes[lane]; l.Epoch == m.Epoch && f != ForgetsParked && f != Resurrects {
		m.Parked = l.Parked
		m.Done, m.Dead = m.Done&(m.Parked|m.Read), m.Dead&m.Parked
	}
	if *m != s.Relays[i][lane] {
		yield(step[System]{to, nil, false})
	}
}

// attempt gives a row to the receiver.
func (s *System) attempt(p *Plan, i, lane, row int, f Fault, yield func(step[System])) {
	m, one := &s.Relays[i][lane], Of(row)
	before := p.group(row) & (one - 1)
	waits := before & (m.Read | m.Parked) &^ m.Done // what dies does so with the settle: before it, another owner would deliver it
	switch f {                                      //nolint:exhaustive // those of this step
	case NoGate:
		waits = 0
	case PassesParked:
		waits &^= m.Parked
	}
	if waits != 0 || (m.Done|m.Failed|m.Dead)&one != 0 {
		return
	}
	to := *s
	to.Relays[i][lane].Done |= one
	events := []Event{{Kind: Send, Relay: i, Row: row, OK: true}}
	if f == EndsEarly && m.Parked&one != 0 && s.World.Lanes[lane].Epoch == m.Epoch {
		l := &s.World.Lanes[lane]
		events = append([]Event{{Kind: Settle, Lane: lane, Epoch: m.Epoch, Covered: l.Covered, Parked: l.Parked &^ one, Dead: l.Dead}}, events...)
	}
	yield(step[System]{to, events, false})
	failed := []Event{{Kind: Send, Relay: i, Row: row}}
	if m.Read&one != 0 && s.Left.Fails > 0 {
		to := *s
		to.Left.Fails--
		to.Relays[i][lane].Failed |= one
		yield(step[System]{to, failed, true})
	}
	if m.Parked&one != 0 && s.Left.Deaths > 0 {
		to := *s
		to.Left.Deaths--
		to.Relays[i][lane].Dead |= one
		if f == DiesUntried {
			to.Relays[i][lane].Dead |= m.Parked & p.group(row)
		}
		yield(step[System]{to, failed, true})
	}
}

// settle writes what is done. Rows that failed are parked with it, and those behind them.
func (s *System) settle(p *Plan, i, lane int, f Fault, yield func(step[System])) {
	m, l := &s.Relays[i][lane], &s.World.Lanes[lane]
	to := *s
	first := s.Relays[i][0].Epoch
	if m.Epoch != l.Epoch && f != NoFence && (f != FencesOne || first == 0 || first != s.World.Lanes[0].Epoch) {
		to.Relays[i][lane] = memory{} // fenced
		yield(step[System]{to, nil, false})
		return
	}
	park := m.Failed
	for row := range (m.Read &^ m.Done).All {
		if p.group(row)&(Of(row)-1)&(m.Failed|m.Parked&^m.Done&^m.Dead) != 0 {
			park |= Of(row)
		}
	}
	e := Event{Kind: Settle, Lane: lane, Epoch: m.Epoch, Covered: l.Covered | m.Done | park, Parked: (l.Parked | park) &^ (m.Done | m.Dead), Dead: l.Dead | m.Dead&l.Parked}
	switch f { //nolint:exhaustive // those of this step
	case ByPosition:
		for r := 0; r < Rows && Of(r) <= m.Done && !(m.Read &^ m.Done).Has(r); r++ {
			e.Covered |= Of(r)
		}
	case SettlesRead:
		e.Covered |= m.Read
	case SettlesFailed:
		e.Parked &^= m.Failed
	case ParksAlone:
		e.Parked &^= park &^ m.Failed
	case Resurrects:
		e.Parked |= m.Parked &^ (m.Done | m.Dead)
	}
	if e.Covered == l.Covered && e.Parked == l.Parked && e.Dead == l.Dead {
		return
	}
	to.Relays[i][lane] = memory{Epoch: m.Epoch, Covered: e.Covered, Parked: e.Parked, Read: m.Read &^ e.Covered}
	yield(step[System]{to, []Event{e}, false})
}

// operate carries out a command.
func (s *System) operate(yield func(step[System])) {
	if s.Left.Commands == 0 {
		return
	}
	to := *s
	to.Left.Commands--
	for lane := range max(s.Left.Lanes, 1) {
		l := &s.World.Lanes[lane]
		for row := range (l.Parked | l.Dead).All {
			yield(step[System]{to, []Event{{Kind: Drop, Row: row}}, true})
		}
		for row := range l.Dead.All {
			yield(step[System]{to, []Event{{Kind: Redrive, Row: row}}, true})
		}
	}
}
