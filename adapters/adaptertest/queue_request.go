package adaptertest

import (
	"slices"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// queueRequestTests are about what a request leaves out.
var queueRequestTests = map[string]func(*testing.T, *queueSuite){
	"Slots":           testQueueSlots,
	"Except":          testQueueExcept,
	"ExceptRows":      testQueueExceptRows,
	"PerGroup":        testQueuePerGroup,
	"Match":           testQueueMatch,
	"MatchBehindMany": testQueueMatchBehindMany,
	"G7_Bytes":        testQueueBytes,
	"BrokenRows":      testQueueBroken,
}

func testQueueSlots(t *testing.T, s *queueSuite) {
	var groups []string
	for i := range 60 {
		groups = append(groups, []string{"a", "b", "c", "d", "e", "f", "", "g", "h", "i"}[i%10])
	}
	rows := s.insert(t, groups...)
	var mine, others []int
	for slot := range adapters.Slots {
		if slot%2 == 0 {
			mine = append(mine, slot)
		} else {
			others = append(others, slot)
		}
	}
	claimed := s.claimAll(t, s.Queue, adapters.ClaimRequest{Slots: mine, Limit: 7})
	for _, row := range claimed {
		if row.Slot != adapters.SlotOf(row.Group, row.ID) {
			t.Errorf("row %s of group %q is of slot %d", row.ID, row.Group, row.Slot)
		}
	}
	rest := s.claimSoon(t, s.Queue, adapters.ClaimRequest{Slots: others, Limit: 7}, len(rows)-len(claimed))
	s.want(t, append(claimed, rest...), rows...)
	s.want(t, s.claim(t, s.Queue, adapters.ClaimRequest{Slots: []int{}}))
}

func testQueueExcept(t *testing.T, s *queueSuite) {
	rows := s.insert(t, "a", "b", "a", "c")
	request := adapters.ClaimRequest{Except: []string{s.gate(&rows[0])}}
	s.want(t, s.claimAll(t, s.Queue, request), rows[1], rows[3])
	s.want(t, s.claim(t, s.Queue, request))
	s.want(t, s.claimAll(t, s.Queue, adapters.ClaimRequest{}), rows[0], rows[2])
}

func testQueueExceptRows(t *testing.T, s *queueSuite) {
	rows := s.insert(t, "a", "a", "a")
	request := adapters.ClaimRequest{ExceptRows: []*adapters.Claim{
		{Table: rows[0].Table, Key: rows[0].Key}, {Table: "elsewhere", Key: rows[1].Key}}}
	s.want(t, s.claimAll(t, s.Queue, request), rows[1:]...)
	s.want(t, s.claimAll(t, s.Queue, adapters.ClaimRequest{}), rows[0])
}

func testQueuePerGroup(t *testing.T, s *queueSuite) {
	rows := s.insert(t, "a", "a", "a", "b", "a", "a")
	first := s.claim(t, s.Queue, adapters.ClaimRequest{PerGroup: 2})
	s.want(t, first, rows[0], rows[1], rows[3])
	second := s.claim(t, s.Queue, adapters.ClaimRequest{PerGroup: 2}) // what is held does not count
	s.want(t, second, rows[2], rows[4])
}

func testQueueMatch(t *testing.T, s *queueSuite) {
	rows := s.insert(t, "a", "a", "a", "b", "a")
	unwanted := []string{rows[0].Key, rows[2].Key, rows[3].Key}
	request := adapters.ClaimRequest{Limit: 2, Match: func(row *adapters.Row) bool {
		if row.Type == "" || len(row.Payload) == 0 || row.Claim != nil {
			t.Errorf("asked about %+v", row)
		}
		return !slices.Contains(unwanted, row.ID)
	}}
	s.want(t, s.claim(t, s.Queue, request), rows[1], rows[4])
	s.want(t, s.claim(t, s.Queue, request))
	s.wantStatus(t, QueueWaiting, unwanted...)
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 3), rows[0], rows[2], rows[3])
}

func testQueueMatchBehindMany(t *testing.T, s *queueSuite) {
	rows := make([]QueueRow, 700)
	for i := range rows {
		rows[i] = s.row("a")
	}
	s.Insert(t, rows...)
	wanted := rows[len(rows)-1].Key
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{Limit: 3, Bytes: 1000, Match: func(row *adapters.Row) bool { return row.ID == wanted }})
	s.want(t, claimed, rows[len(rows)-1])
}

func testQueueBytes(t *testing.T, s *queueSuite) {
	rows := s.insert(t, "a", "a", "b", "b", "c", "")
	size := int64(len(rows[0].Payload))
	var all []*adapters.Row
	for {
		claimed := s.claim(t, s.Queue, adapters.ClaimRequest{Bytes: 2*size + 5})
		if len(claimed) > 2 {
			t.Errorf("%d rows for the bytes of two", len(claimed))
		}
		if len(claimed) == 0 {
			break
		}
		all = append(all, claimed...)
	}
	s.want(t, all, rows...)
	large := s.insert(t, "a")
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{Bytes: 1}, 1), large...) // the first one fits
}

func testQueueBroken(t *testing.T, s *queueSuite) {
	rows := []QueueRow{s.row("a"), s.row("a"), s.row("a")}
	rows[1].Payload = "{not json"
	s.Insert(t, rows...)
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{})
	s.want(t, claimed, rows...)
	if claimed[0].Err != nil || claimed[1].Err == nil || claimed[2].Err != nil {
		t.Errorf("errors %v, %v, %v; want one for the second row", claimed[0].Err, claimed[1].Err, claimed[2].Err)
	}
}
