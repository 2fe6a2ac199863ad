package adaptertest

import (
	"slices"
	"sync"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// queueClaimTests are about what a claim takes.
var queueClaimTests = map[string]func(*testing.T, *queueSuite){
	"RowsAreWhole":                testQueueRowsAreWhole,
	"CheckPasses":                 testQueueCheck,
	"EmptyTables":                 testQueueEmpty,
	"G2_OrderWithinGroups":        testQueueOrder,
	"G2_EqualTimesGoByKey":        testQueueEqualTimes,
	"G2_HeldRowsEndNoPrefix":      testQueueHeldRows,
	"G2_RowsPutBackAreNext":       testQueuePutBack,
	"G3_ClaimedOnce":              testQueueClaimedOnce,
	"G6_LongGroupStarvesNobody":   testQueueLongGroup,
	"G6_LongTableStarvesNobody":   testQueueLongTable,
	"G6_LongDefaultGroup":         testQueueLongDefaultGroup,
	"RowsWithoutGroup":            testQueueWithoutGroup,
	"G1_LateCommitsAreFound":      testQueueLateCommit,
	"G1_RowsRolledBackAreNothing": testQueueRollback,
}

func testQueueRowsAreWhole(t *testing.T, s *queueSuite) {
	r := s.row("order-1")
	r.Payload = "{ \"type\":\t\"suite.happened\", \"n\": 1.50, \"s\": \"\\u00e9 é <&> \\\\ \\\"\" }"
	s.Insert(t, r)
	rows := s.claim(t, s.Queue, adapters.ClaimRequest{})
	s.want(t, rows, r)
	row := rows[0]
	if string(row.Payload) != r.Payload || row.Binary || row.Err != nil {
		t.Errorf("payload %q, binary %t, error %v", row.Payload, row.Binary, row.Err)
	}
	if row.Type != r.Type || !row.CreatedAt.Equal(r.CreatedAt) || row.Position != r.CreatedAt.UnixMicro() || row.Slot != adapters.SlotOf(s.gate(&r), r.Key) {
		t.Errorf("got %+v", row)
	}
	if row.Claim.Attempts != 0 || row.Claim.Token == "" {
		t.Errorf("claim %+v", row.Claim)
	}
	s.wantStatus(t, s.claimed(), r.Key)
}

func testQueueCheck(t *testing.T, s *queueSuite) {
	if err := s.Queue.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func testQueueEmpty(t *testing.T, s *queueSuite) {
	for range 2 {
		s.want(t, s.claim(t, s.Queue, adapters.ClaimRequest{}))
	}
	rows := s.insert(t, "a", "b")
	claimed := s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 2)
	s.want(t, claimed, rows...)
	s.settle(t, s.Queue, outbox.OutcomeDelivered, claimed...)
	s.want(t, s.claim(t, s.Queue, adapters.ClaimRequest{}))
	if lost, err := s.Queue.Settle(t.Context(), nil); err != nil || len(lost) > 0 {
		t.Errorf("settling nothing: %v %v", lost, err)
	}
}

func testQueueOrder(t *testing.T, s *queueSuite) {
	for _, limit := range []int{1, 7, 1000} {
		var rows []QueueRow
		for i := range 120 {
			rows = append(rows, s.row([]string{"a", "b", "c", "", "d"}[i*i%5]))
		}
		shuffled := slices.Clone(rows)
		slices.Reverse(shuffled) // the order of insertion says nothing
		s.Insert(t, shuffled...)
		claimed := s.claimSoon(t, s.Queue, adapters.ClaimRequest{Limit: limit}, len(rows))
		s.want(t, claimed, rows...)
		s.settle(t, s.Queue, outbox.OutcomeDelivered, claimed...)
	}
}

func testQueueEqualTimes(t *testing.T, s *queueSuite) {
	rows := make([]QueueRow, 30)
	for i := range rows {
		rows[i] = s.row("a")
		rows[i].CreatedAt = rows[0].CreatedAt
	}
	shuffled := slices.Clone(rows)
	slices.Reverse(shuffled)
	s.Insert(t, shuffled...)
	s.want(t, s.claimAll(t, s.Queue, adapters.ClaimRequest{Limit: 7}), rows...)
}

func testQueueHeldRows(t *testing.T, s *queueSuite) {
	first := s.insert(t, "a", "a")
	s.want(t, s.claim(t, s.Queue, adapters.ClaimRequest{}), first...)
	second := s.insert(t, "a", "b")
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 2), second...)
}

func testQueuePutBack(t *testing.T, s *queueSuite) {
	rows := s.insert(t, "a", "a", "a", "a", "b")
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{Limit: 4, PerGroup: 2})
	for _, row := range claimed {
		if row.Group == s.gate(&rows[0]) {
			s.settle(t, s.Queue, outbox.OutcomeReleased, row)
		}
	}
	s.wantStatus(t, QueueWaiting, rows[0].Key, rows[1].Key, rows[2].Key)
	again := s.claimAll(t, s.Queue, adapters.ClaimRequest{})
	s.want(t, again, rows[:4]...)
	for _, row := range again {
		if row.Claim.Attempts != 0 {
			t.Errorf("row %s has %d attempts after it was put back", row.ID, row.Claim.Attempts)
		}
	}
}

func testQueueClaimedOnce(t *testing.T, s *queueSuite) {
	const processes, n = 3, 300
	var groups []string
	for i := range n {
		groups = append(groups, []string{"a", "b", "c", "d", "e", "f", "g"}[i%7])
	}
	rows := s.insert(t, groups...)
	seen := &arrivals{count: map[string]int{}, last: map[string]string{}}
	var wg sync.WaitGroup
	for i := range processes {
		q, slots := s.Queue, allSlots()
		if s.Claimless { // a lane has one owner
			slots = slots[i*adapters.Slots/processes : (i+1)*adapters.Slots/processes]
		}
		if i > 0 {
			q = s.Open(t)
			s.closeAfter(t, q)
		}
		wg.Go(func() {
			for seen.rows() < n {
				if !seen.take(t, s, q, slots) {
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range rows {
		if c := seen.count[rows[i].Key]; c != 1 {
			t.Errorf("row %s was claimed %d times", rows[i].Key, c)
		}
	}
}

// arrivals are the claims of several processes, whose keys ascend in
// each group.
type arrivals struct {
	mu    sync.Mutex
	count map[string]int
	last  map[string]string
}

func (a *arrivals) rows() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.count)
}

// take claims a few rows, notes them, and settles them.
func (a *arrivals) take(t *testing.T, s *queueSuite, q adapters.OperatorQueue, slots []int) (ok bool) {
	claimed, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: slots, Limit: 20})
	if err != nil {
		t.Error(err)
		return false
	}
	results := make([]adapters.ClaimResult, len(claimed))
	a.mu.Lock()
	for i, row := range claimed {
		if a.count[row.ID]++; row.ID < a.last[row.Group] {
			t.Errorf("row %s of group %s was claimed after %s", row.ID, row.Group, a.last[row.Group])
		}
		a.last[row.Group] = row.ID
		results[i] = s.result(row, outbox.OutcomeDelivered)
	}
	a.mu.Unlock()
	lost, err := q.Settle(t.Context(), results)
	if err != nil || len(lost) > 0 {
		t.Errorf("settle: %d lost, %v", len(lost), err)
	}
	return err == nil && len(lost) == 0
}

func testQueueLongGroup(t *testing.T, s *queueSuite) {
	rows := make([]QueueRow, 3000)
	for i := range rows {
		rows[i] = s.row("long")
	}
	s.Insert(t, rows...)
	short := s.insert(t, "x", "y", "z")
	found := map[string]bool{}
	for range 3 { // of some 30
		for _, row := range s.claim(t, s.Queue, adapters.ClaimRequest{Limit: 100}) {
			found[row.ID] = true
		}
	}
	for i := range short {
		if !found[short[i].Key] {
			t.Errorf("row %s of a short group waits behind a long one", short[i].Key)
		}
	}
}

func testQueueLongTable(t *testing.T, s *queueSuite) {
	if len(s.Tables) < 2 {
		t.Skip("the layout has one table")
	}
	rows := make([]QueueRow, 1000)
	for i := range rows {
		rows[i] = s.row("long")
	}
	other := s.row("long")
	other.Table = s.Tables[1]
	s.Insert(t, slices.Concat(rows, []QueueRow{other})...)
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{Limit: 100})
	if len(claimed) < 50 || !slices.Contains(keys(claimed)[s.gate(&other)], other.Key) {
		t.Errorf("%d rows were claimed, and the one of the other table is not among them: %v", len(claimed), keys(claimed))
	}
}

func testQueueWithoutGroup(t *testing.T, s *queueSuite) {
	rows := s.insert(t, "", s.DefaultGroup, "", s.DefaultGroup, "")
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{Limit: 3})
	if s.DefaultGroup != "" {
		s.want(t, claimed, rows[:3]...)
		claimed = append(claimed, s.claimAll(t, s.Queue, adapters.ClaimRequest{})...)
		s.want(t, claimed, rows...)
		return
	}
	s.want(t, append(claimed, s.claimAll(t, s.Queue, adapters.ClaimRequest{})...), rows...)
}

// testQueueLongDefaultGroup has a backlog in the group of rows without one, by its name: the others are claimed beside it.
func testQueueLongDefaultGroup(t *testing.T, s *queueSuite) {
	if s.DefaultGroup == "" {
		t.Skip("rows without a group have none")
	}
	rows := []QueueRow{s.row("A"), s.row("zz")}
	for range 1000 {
		rows = append(rows, s.row(s.DefaultGroup))
	}
	s.Insert(t, rows...)
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{PerGroup: 1})
	for range 3 {
		claimed = append(claimed, s.claim(t, s.Queue, adapters.ClaimRequest{PerGroup: 1, Except: []string{s.gate(&rows[2])}})...)
	}
	s.want(t, claimed, rows[:3]...)
}

func testQueueLateCommit(t *testing.T, s *queueSuite) {
	if s.InsertLate == nil {
		t.Skip("no transaction can stay open")
	}
	late := []QueueRow{s.row("a"), s.row("late")}
	commit := s.InsertLate(t, late...)
	early := s.insert(t, "a", "b")
	claimed := s.claimAll(t, s.Queue, adapters.ClaimRequest{})
	s.want(t, claimed, early...)
	s.settle(t, s.Queue, outbox.OutcomeDelivered, claimed...)
	s.want(t, s.claim(t, s.Queue, adapters.ClaimRequest{}))
	commit()
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 2), late...)
}

func testQueueRollback(t *testing.T, s *queueSuite) {
	if s.InsertLate == nil {
		t.Skip("no transaction can stay open")
	}
	_ = s.InsertLate(t, s.row("a"), s.row("gone")) // never committed
	rows := s.insert(t, "a", "b")
	s.want(t, s.claimAll(t, s.Queue, adapters.ClaimRequest{}), rows...)
}
