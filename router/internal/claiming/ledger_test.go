package claiming

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// ledgerModel is a queue's table and its lanes as a ledger sees them: claims are
// asked for, answered and handed out one after the other, and meanwhile rows end
// or go back. What the ledger has to see to is that a row enters its lane behind
// those before it.
type ledgerModel struct {
	*ledger
	now     time.Time
	table   map[string][]*modelRow // by group, in order
	number  uint64                 // of the last claim
	asked   *exclusions            // a claim under way
	brought []*modelClaim          // claims to be handed out
	lanes   map[string][]*modelRow
}

type modelRow struct {
	name, group string
	claimed     bool // in the table
	done        bool // in the table
	delivered   bool
	placing     routed
}

// modelClaim is what a claim brought and is not in its lane yet.
type modelClaim struct {
	number uint64
	rows   []*modelRow
}

func newLedgerModel(groups, rows int) *ledgerModel {
	m := &ledgerModel{ledger: newLedger(1, func(bool) {}), now: time.Now(), table: map[string][]*modelRow{}, lanes: map[string][]*modelRow{}}
	for g := range groups {
		group := fmt.Sprint("g", g)
		for i := range rows {
			m.table[group] = append(m.table[group], &modelRow{name: fmt.Sprintf("%s-%d", group, i), group: group})
		}
	}
	return m
}

// ask begins a claim. The one before the last has been handed out by then.
func (m *ledgerModel) ask() {
	if m.asked == nil && len(m.brought) < 2 {
		m.number = m.begin()
		asked := m.exclusions(m.now, 1000)
		m.asked = &asked
	}
}

// answer is the table's: so many rows of each group that is not left out. What we
// hold already ends no prefix.
func (m *ledgerModel) answer(most int) {
	if m.asked == nil {
		return
	}
	c := &modelClaim{number: m.number}
	var placings []routed
	for group, rows := range m.table {
		n := 0
		for _, r := range rows {
			if r.done || r.claimed || n == most || slices.Contains(m.asked.groups, group) {
				continue
			}
			n++
			r.claimed = true
			c.rows = append(c.rows, r)
			placings = append(placings, routed{key: exclusionKey{group: group},
				row: &adapters.Row{ID: r.name, Group: group, Claim: &adapters.Claim{Key: r.name}}})
		}
	}
	m.expect(placings)
	for i, r := range c.rows {
		r.placing = placings[i]
	}
	if m.asked, m.brought = nil, append(m.brought, c); len(m.brought) == 1 {
		m.ledger.asked(true)
	}
}

// place hands out one row, or with turned sends it back. It tells which row entered
// its lane before one that should have come first.
func (m *ledgerModel) place(turned bool) error {
	if len(m.brought) == 0 {
		return nil
	}
	c := m.brought[0]
	if len(c.rows) == 0 {
		m.handedOut(c.number)
		if m.brought = m.brought[1:]; len(m.brought) > 0 {
			m.ledger.asked(true)
		}
		return nil
	}
	r := c.rows[0]
	c.rows = c.rows[1:]
	if !turned {
		if _, ok := m.enter(r.placing.claimed, &lane.Item{}); ok {
			return m.enters(r)
		}
	}
	m.refuse(r.placing.claimed, m.now.Add(time.Millisecond))
	return nil
}

// placeAll takes so many steps of handing out, none of which may break the order.
func (m *ledgerModel) placeAll(t *testing.T, steps int) {
	t.Helper()
	for range steps {
		if err := m.place(false); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *ledgerModel) enters(r *modelRow) error {
	for _, before := range m.table[r.group] {
		if before == r {
			break
		}
		if !before.delivered && !slices.Contains(m.lanes[r.group], before) {
			return fmt.Errorf("%s is in its lane before %s", r.name, before.name)
		}
	}
	m.lanes[r.group] = append(m.lanes[r.group], r)
	return nil
}

// finish ends the first row in a group's lane; when it fails all of them go back.
func (m *ledgerModel) finish(group string, fails bool, pause time.Duration) {
	lane := m.lanes[group]
	if len(lane) == 0 {
		return
	}
	first := lane[0]
	if !fails {
		first.delivered = true
		m.conclude(ending{h: first.placing.claimed, outcome: outbox.OutcomeDelivered})
		m.lanes[group] = lane[1:]
		return
	}
	ends := []ending{{h: first.placing.claimed, outcome: outbox.OutcomeRetry, attempts: 1, at: m.now.Add(pause)}}
	for _, r := range lane[1:] {
		ends = append(ends, ending{h: r.placing.claimed, outcome: outbox.OutcomeReleased})
	}
	m.conclude(ends...)
	delete(m.lanes, group)
}

// write settles what has ended.
func (m *ledgerModel) write() {
	taken, results := m.take()
	for _, r := range results {
		for _, rows := range m.table {
			for _, row := range rows {
				if row.claimed && row.placing.row.Claim == r.Claim {
					row.claimed, row.done = false, r.Outcome == outbox.OutcomeDelivered
				}
			}
		}
	}
	m.written(taken, nil, nil)
}

// drain plays on without failures until all is done.
func (m *ledgerModel) drain() error {
	for range 1000 {
		m.ask()
		m.answer(1000)
		for len(m.brought) > 0 {
			if err := m.place(false); err != nil {
				return err
			}
		}
		for group := range m.table {
			for len(m.lanes[group]) > 0 {
				m.finish(group, false, 0)
			}
		}
		m.write()
		m.now = m.now.Add(time.Second)
		if m.size() == 0 && !slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(m.table))...), func(r *modelRow) bool { return !r.done }) {
			return nil
		}
	}
	return fmt.Errorf("there are rows that are never claimed again: %v", m.excluded)
}

// Whatever goes back while claims are under way and on their way to the lanes,
// nothing overtakes it, and it comes again.
func TestG2_ClaimsThatAreHandedOutDuringTheNextKeepOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newLedgerModel(rapid.IntRange(1, 3).Draw(t, "groups"), 12)
		group := rapid.SampledFrom([]string{"g0", "g1", "g2"})
		for range rapid.IntRange(10, 300).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"ask", "answer", "place", "place", "place", "turn", "deliver", "fail", "write", "wait"}).Draw(t, "step") {
			case "ask":
				m.ask()
			case "answer":
				m.answer(rapid.IntRange(1, 4).Draw(t, "most"))
			case "place":
				if err := m.place(false); err != nil {
					t.Fatal(err)
				}
			case "turn":
				if err := m.place(true); err != nil {
					t.Fatal(err)
				}
			case "deliver":
				m.finish(group.Draw(t, "group"), false, 0)
			case "fail":
				m.finish(group.Draw(t, "group"), true, time.Duration(rapid.IntRange(0, 2).Draw(t, "pause"))*time.Millisecond)
			case "write":
				m.write()
			case "wait":
				m.now = m.now.Add(time.Millisecond)
			}
		}
		if err := m.drain(); err != nil {
			t.Fatal(err)
		}
	})
}

// A group that went back while the next claim was under way is left out until what
// that claim brought has been handed out, and no longer.
func TestG2_AGroupThatWentBackWaitsForTheClaimUnderWay(t *testing.T) {
	m := newLedgerModel(1, 2)
	m.ask()
	m.answer(1)
	m.placeAll(t, 2)
	m.ask() // knows nothing of what follows
	m.finish("g0", true, 0)
	m.answer(1) // the second row, before which the first has gone back
	m.write()
	m.now = m.now.Add(time.Second)
	m.ask()
	if !slices.Contains(m.asked.groups, "g0") {
		t.Error("a group is claimed from whose next row is on its way to its lane")
	}
	m.placeAll(t, 1)
	if err := m.drain(); err != nil {
		t.Error(err)
	}
}

// A row that somebody takes for stuck while it is on its way to its lane enters
// none, and what is behind it does not overtake it.
func TestG2_ARowThatIsLostOnItsWayEntersNoLane(t *testing.T) {
	m := newLedgerModel(1, 2)
	m.ask()
	m.answer(2)
	lost := m.table["g0"][0]
	if items := m.extended([]*adapters.Claim{lost.placing.row.Claim}, []*adapters.Claim{lost.placing.row.Claim}, m.now); len(items) > 0 {
		t.Errorf("%d items are lost, of a row that is in no lane", len(items))
	}
	m.placeAll(t, 3)
	if len(m.lanes["g0"]) > 0 {
		t.Error("a row entered its lane before one that was lost")
	}
	lost.claimed = false // recovered
	m.write()
	if err := m.drain(); err != nil {
		t.Error(err)
	}
}
