package adaptertest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// queueLaneTests are about lanes that move between processes.
var queueLaneTests = map[string]func(*testing.T, *queueSuite){
	"G1_LanesThatOpenAreRead":             testQueueLanesOpen,
	"G2_LanesComeBackWithTheirOldestRow":  testQueueLaneComesBack,
	"G2_ClaimsOfAFormerOwnerEndAPrefix":   testQueueFormerOwner,
	"G1_G2_G3_LanesMoveBetweenProcesses":  testQueueLanesMove,
	"G2_LanesAreTakenWhileClaimsAreGoing": testQueueLaneTaken,
}

// without are the lanes but for one.
func without(slot int) []int {
	return slices.DeleteFunc(allSlots(), func(s int) bool { return s == slot })
}

// later is a row of a group that was created much later than all rows before: whoever
// begins to read at the newest rows sees it alone.
func (s *queueSuite) later(t *testing.T, group string) QueueRow {
	t.Helper()
	s.born = s.born.Add(time.Minute)
	return s.insert(t, group)[0]
}

// quiet claims several times and wants nothing: a queue may read parts of its tables at
// a time.
func (s *queueSuite) quiet(t *testing.T, q adapters.OperatorQueue, r adapters.ClaimRequest) {
	t.Helper()
	for range 5 {
		s.want(t, s.claim(t, q, r))
	}
}

// testQueueLanesOpen: what was there while a lane was closed comes when it opens.
func testQueueLanesOpen(t *testing.T, s *queueSuite) {
	rows := s.insert(t, "a", "b", "c", "d", "a", "b", "", "e", "f", "g")
	s.quiet(t, s.Queue, adapters.ClaimRequest{Slots: []int{}, Wants: 1})
	var claimed []*adapters.Row
	for slot := range adapters.Slots { // one lane after the other
		claimed = append(claimed, s.claimAll(t, s.Queue, adapters.ClaimRequest{Slots: allSlots()[:slot+1], Wants: uint64(slot + 2)})...)
	}
	claimed = append(claimed, s.claimSoon(t, s.Queue, adapters.ClaimRequest{Wants: adapters.Slots + 2}, len(rows)-len(claimed))...)
	s.want(t, claimed, rows...)
}

// testQueueLaneComesBack: a lane is handed over, with a row that goes back, and comes
// back. A row that the next owner has claimed by then ends the prefix of its group, although the
// queue had read the group beyond that row before.
func testQueueLaneComesBack(t *testing.T, s *queueSuite) {
	other := s.Open(t)
	s.closeAfter(t, other)
	rows := s.insert(t, "a", "a")
	mine := s.claim(t, s.Queue, adapters.ClaimRequest{Wants: 1})
	s.want(t, mine, rows...)
	s.settle(t, s.Queue, outbox.OutcomeDelivered, mine[0])
	lane := mine[0].Slot
	s.quiet(t, s.Queue, adapters.ClaimRequest{Slots: without(lane), Wants: 1})
	s.settle(t, s.Queue, outbox.OutcomeReleased, mine[1])
	theirs := s.claimSoon(t, other, adapters.ClaimRequest{Slots: []int{lane}, Wants: 1}, 1)
	s.want(t, theirs, rows[1])
	newer := s.later(t, "a")
	s.quiet(t, s.Queue, adapters.ClaimRequest{Slots: without(lane), Wants: 1})
	if !s.Claimless {
		s.quiet(t, s.Queue, adapters.ClaimRequest{Wants: 2})
	}
	s.settle(t, other, outbox.OutcomeReleased, theirs...)
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{Wants: 2}, 2), rows[1], newer)
}

// testQueueFormerOwner: a lane's owner is gone without a word. The next one leaves its
// groups alone until its claims end, and claims the others.
func testQueueFormerOwner(t *testing.T, s *queueSuite) {
	s.needsClaims(t)
	other := s.Open(t)
	s.closeAfter(t, other)
	rows := s.insert(t, "a", "a", "a", "b", "c")
	lost := s.claim(t, other, adapters.ClaimRequest{Wants: 1, Limit: 3, PerGroup: 2, Match: func(row *adapters.Row) bool {
		return row.Group == s.gate(&rows[0])
	}})
	s.want(t, lost, rows[:2]...)
	newer := s.later(t, "a")
	request := adapters.ClaimRequest{Wants: 1}
	s.want(t, s.claimSoon(t, s.Queue, request, 2), rows[3:]...)
	s.quiet(t, s.Queue, request)
	s.Set(t, QueueProcessing, 2*s.Timeout, rows[0].Key, rows[1].Key)
	if n, err := s.Queue.Recover(t.Context()); err != nil || n != 2 {
		t.Fatalf("recovered %d rows, %v", n, err)
	}
	s.want(t, s.claimSoon(t, s.Queue, request, 4), append(rows[:3:3], newer)...)
	results := make([]adapters.ClaimResult, len(lost)) // it wakes up
	for i, row := range lost {
		results[i] = s.result(row, outbox.OutcomeDelivered)
	}
	if gone, err := other.Settle(t.Context(), results); err != nil || len(gone) != 2 {
		t.Errorf("the former owner settled rows that were claimed again: %d of 2 were lost, %v", len(gone), err)
	}
	s.wantStatus(t, QueueProcessing, rows[0].Key, rows[1].Key)
}

// testQueueLaneTaken: two processes take each other for gone and claim the same lanes
// at the same time. Claims are the fence: no row behind another one's is claimed.
func testQueueLaneTaken(t *testing.T, s *queueSuite) {
	s.needsClaims(t)
	other := s.Open(t)
	s.closeAfter(t, other)
	rows := s.insert(t, "a", "b", "a", "b", "a", "b")
	request := adapters.ClaimRequest{Wants: 1, Limit: 2, PerGroup: 1}
	first := s.claim(t, s.Queue, request)
	s.want(t, first, rows[:2]...)
	s.quiet(t, other, request)
	s.want(t, s.claim(t, s.Queue, request), rows[2:4]...)
	s.settle(t, s.Queue, outbox.OutcomeDelivered, first...)
	s.quiet(t, other, request) // the second row of each is still held
}

// testQueueLanesMove: lanes move between three processes at random, with or without
// what their owners have claimed.
func testQueueLanesMove(t *testing.T, s *queueSuite) {
	for seed := range uint64(2) {
		m := newQueueMoves(t, s, seed)
		for range 150 {
			m.step()
		}
		m.finish()
	}
}

// queueMoves is processes that own lanes and hold rows, and what was delivered.
type queueMoves struct {
	*queueSuite
	t       *testing.T
	random  *rand.Rand
	queues  []adapters.OperatorQueue
	wants   []uint64
	owner   [adapters.Slots]int
	held    []map[string][]*adapters.Row // by process and group
	left    map[string][]string          // keys that are to be delivered, by group
	waiting int
}

func newQueueMoves(t *testing.T, s *queueSuite, seed uint64) *queueMoves {
	t.Helper()
	m := &queueMoves{queueSuite: s, t: t, left: map[string][]string{},
		random: rand.New(rand.NewPCG(seed, 20))} //nolint:gosec // which step is next is no secret
	for i := range 3 {
		q := s.Open(t)
		s.closeAfter(t, q)
		m.queues, m.wants, m.held = append(m.queues, q), append(m.wants, uint64(i+1)), append(m.held, map[string][]*adapters.Row{})
	}
	return m
}

func (m *queueMoves) step() {
	m.t.Helper()
	i := m.random.IntN(len(m.queues))
	switch m.random.IntN(10) {
	case 0, 1:
		m.write()
	case 2, 3, 4, 5:
		m.claim(i)
	case 6, 7:
		for _, g := range m.groups(i) {
			if m.random.IntN(2) == 0 {
				m.deliver(i, g, 1+m.random.IntN(3))
			}
		}
	case 8:
		if groups := m.groups(i); len(groups) > 0 {
			g := groups[m.random.IntN(len(groups))]
			m.putBack(i, g, m.random.IntN(len(m.held[i][g])))
		}
	case 9:
		m.move(m.random.IntN(adapters.Slots), i, m.random.IntN(3) > 0)
	}
}

// write inserts rows of several groups; from time to time long after the others.
func (m *queueMoves) write() {
	if m.random.IntN(3) == 0 {
		m.born = m.born.Add(time.Minute)
	}
	var groups []string
	for range 1 + m.random.IntN(8) {
		groups = append(groups, string(rune('a'+m.random.IntN(12))))
	}
	rows := m.insert(m.t, groups...)
	for i := range rows {
		g := m.gate(&rows[i])
		m.left[g] = append(m.left[g], rows[i].Key)
	}
	m.waiting += len(rows)
}

// claim has a process claim in its lanes; nothing may come out of its turn.
func (m *queueMoves) claim(i int) {
	m.t.Helper()
	slots, terms := []int{}, []uint64{}
	for slot, owner := range m.owner {
		if owner == i {
			slots, terms = append(slots, slot), append(terms, uint64(m.epochs[slot]))
		}
	}
	for _, row := range m.queueSuite.claim(m.t, m.queues[i], adapters.ClaimRequest{Slots: slots, Terms: terms, Wants: m.wants[i], Limit: 1 + m.random.IntN(20), PerGroup: 4}) {
		for j := range m.queues {
			if other := m.held[j][row.Group]; j != i && len(other) > 0 {
				m.t.Fatalf("process %d claimed %s of group %s, of which process %d holds %s", i, row.ID, row.Group, j, other[0].ID)
			}
		}
		m.held[i][row.Group] = append(m.held[i][row.Group], row)
		if place := len(m.held[i][row.Group]) - 1; m.left[row.Group][place] != row.ID {
			m.t.Fatalf("process %d claimed %s of group %s behind %s, which waits", i, row.ID, row.Group, m.left[row.Group][place])
		}
	}
}

// groups are those of which a process holds rows.
func (m *queueMoves) groups(i int) []string {
	var out []string
	for g, rows := range m.held[i] {
		if len(rows) > 0 {
			out = append(out, g)
		}
	}
	slices.Sort(out)
	return out
}

// deliver settles the first rows of a group.
func (m *queueMoves) deliver(i int, g string, n int) {
	m.t.Helper()
	n = min(n, len(m.held[i][g]))
	m.settle(m.t, m.queues[i], outbox.OutcomeDelivered, m.held[i][g][:n]...)
	m.held[i][g], m.left[g] = m.held[i][g][n:], m.left[g][n:]
	m.waiting -= n
}

// putBack gives the rows of a group back, from one on.
func (m *queueMoves) putBack(i int, g string, from int) {
	m.t.Helper()
	m.settle(m.t, m.queues[i], outbox.OutcomeReleased, m.held[i][g][from:]...)
	m.held[i][g] = m.held[i][g][:from]
}

// move gives a lane to a process. A clean hand-over puts back what the former owner
// holds of it.
func (m *queueMoves) move(slot, to int, clean bool) {
	m.t.Helper()
	from := m.owner[slot]
	if from == to {
		return
	}
	clean = clean || m.Claimless && m.Own == nil
	for _, g := range m.groups(from) {
		if clean && m.held[from][g][0].Slot == slot {
			m.putBack(from, g, 0)
		}
	}
	if m.Claimless {
		m.fenced(slot, from)
	}
	m.owner[slot] = to
	m.wants[to] += uint64(len(m.queues))
}

// fenced makes a next owner of a lane without claims. Rows that the former one still holds are not its own: it
// settles none of them.
func (m *queueMoves) fenced(slot, from int) {
	m.t.Helper()
	var results []adapters.ClaimResult
	for _, g := range m.groups(from) {
		if m.held[from][g][0].Slot == slot {
			for _, row := range m.held[from][g] {
				results = append(results, m.result(row, outbox.OutcomeDelivered))
			}
			m.held[from][g] = nil
		}
	}
	m.own(m.t, slot)
	lost, err := m.queues[from].Settle(m.t.Context(), results)
	if err != nil || len(lost) != len(results) {
		m.t.Fatalf("process %d settled rows of lane %d, which it had lost: %d of %d were lost, %v", from, slot, len(lost), len(results), err)
	}
}

// finish has everything delivered.
func (m *queueMoves) finish() {
	m.t.Helper()
	for end := time.Now().Add(maxWait); m.waiting > 0; {
		if time.Now().After(end) {
			m.t.Fatalf("%d rows were not delivered within %s: %v", m.waiting, maxWait, m.left)
		}
		for i := range m.queues {
			m.claim(i)
			for _, g := range m.groups(i) {
				m.deliver(i, g, len(m.held[i][g]))
			}
		}
	}
}
