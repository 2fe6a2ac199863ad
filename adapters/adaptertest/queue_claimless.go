package adaptertest

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// queueClaimlessTests are about tables that do not say what is being processed.
var queueClaimlessTests = map[string]func(*testing.T, *queueSuite){
	"G3_ClaimlessForeignEndsStay":         testClaimlessForeignEnds,
	"G2_G3_ClaimlessFormerOwner":          testClaimlessFormerOwner,
	"G2_ClaimlessOldTermEndsAPrefix":      testClaimlessOldTerm,
	"G1_ClaimlessPutBackAttemptsCount":    testClaimlessAttempts,
	"G1_ClaimlessNothingWaitsForATimeout": testClaimlessKill,
	"ErrorsAreCutByCharacters":            testQueueErrorLength,
}

// claimless skips a test that needs tables without claims.
func (s *queueSuite) claimless(t *testing.T) {
	t.Helper()
	if !s.Claimless {
		t.Skip("the tables say what is being processed")
	}
}

// testClaimlessForeignEnds: a row that another process has made final stays as it is, whatever its outcome here.
func testClaimlessForeignEnds(t *testing.T, s *queueSuite) {
	s.claimless(t)
	for _, outcome := range []outbox.Outcome{outbox.OutcomeDelivered, outbox.OutcomeRetry, outbox.OutcomeDead} {
		rows := s.insert(t, "a", "b", "c")
		claimed := s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 3)
		s.Set(t, QueueDone, 0, rows[0].Key)
		s.Set(t, QueueDead, 0, rows[1].Key)
		var results []adapters.ClaimResult
		for _, row := range claimed {
			results = append(results, s.result(row, outcome))
		}
		lost, err := s.Queue.Settle(t.Context(), results)
		var lostKeys []string
		for _, c := range lost {
			lostKeys = append(lostKeys, c.Key)
		}
		slices.Sort(lostKeys)
		if err != nil || !slices.Equal(lostKeys, []string{rows[0].Key, rows[1].Key}) {
			t.Errorf("%v: lost are %v, %v", outcome, lostKeys, err)
		}
		s.wantStatus(t, QueueDone, rows[0].Key)
		s.wantStatus(t, QueueDead, rows[1].Key)
		s.Set(t, QueueDone, 0, rows[2].Key)
	}
}

// testClaimlessFormerOwner: a lane's owner freezes with rows in its memory. The next one begins with them at once, and the
// former one settles nothing when it wakes, before the next one has settled them and after.
func testClaimlessFormerOwner(t *testing.T, s *queueSuite) {
	s.claimless(t)
	if s.Own == nil {
		t.Skip("settling does not ask for epochs")
	}
	other := s.Open(t)
	s.closeAfter(t, other)
	rows := s.insert(t, "a", "a", "a", "b")
	frozen := s.claimSoon(t, other, adapters.ClaimRequest{Wants: 1, PerGroup: 2}, 3)
	var results []adapters.ClaimResult
	for i, row := range frozen {
		results = append(results, s.result(row, []outbox.Outcome{outbox.OutcomeDelivered, outbox.OutcomeRetry, outbox.OutcomeDead}[i]))
	}
	s.own(t, allSlots()...)
	claimed := s.claimSoon(t, s.Queue, adapters.ClaimRequest{Wants: 1}, 4)
	s.want(t, claimed, rows...)
	before := s.Rows(t)
	lost, err := other.Settle(t.Context(), results)
	if err != nil || len(lost) != len(results) {
		t.Errorf("the former owner settled: %d of %d were lost, %v", len(lost), len(results), err)
	}
	if after := s.Rows(t); !slices.Equal(before, after) {
		t.Errorf("the former owner changed rows: %+v, before %+v", after, before)
	}
	s.settle(t, s.Queue, outbox.OutcomeDelivered, claimed...)
	if lost, err := other.Settle(t.Context(), results); err != nil || len(lost) != len(results) {
		t.Errorf("the former owner settled again: %d of %d were lost, %v", len(lost), len(results), err)
	}
}

// testClaimlessOldTerm: the lane was lost and taken again. Until the outcome is known of the rows of the
// session before, nothing behind them is claimed.
func testClaimlessOldTerm(t *testing.T, s *queueSuite) {
	s.claimless(t)
	terms := func(n uint64) []uint64 { return slices.Repeat([]uint64{n}, adapters.Slots) }
	rows := s.insert(t, "a", "a", "b")
	claimed := s.claimSoon(t, s.Queue, adapters.ClaimRequest{Wants: 1, Terms: terms(1), PerGroup: 1}, 2)
	s.want(t, claimed, rows[0], rows[2])
	results := []adapters.ClaimResult{s.result(claimed[0], outbox.OutcomeDelivered), s.result(claimed[1], outbox.OutcomeDelivered)}
	s.own(t, allSlots()...)
	s.quiet(t, s.Queue, adapters.ClaimRequest{Wants: 2, Terms: terms(2)})
	lost, err := s.Queue.Settle(t.Context(), results)
	if err != nil || len(lost) != 0 && len(lost) != 2 {
		t.Fatalf("%d of 2 were lost, %v", len(lost), err)
	}
	want := rows
	if len(lost) == 0 { // no epochs are checked
		want = rows[1:2]
	}
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{Wants: 2, Terms: terms(2)}, len(want)), want...)
}

// testClaimlessAttempts: a row that is put back with fewer attempts than it had, because its address was at
// fault, has fewer.
func testClaimlessAttempts(t *testing.T, s *queueSuite) {
	s.claimless(t)
	s.insert(t, "a")
	for range 2 {
		s.settle(t, s.Queue, outbox.OutcomeRetry, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 1)...)
	}
	row := s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 1)[0]
	back := s.result(row, outbox.OutcomeReleased)
	back.Attempts = 1
	if lost, err := s.Queue.Settle(t.Context(), []adapters.ClaimResult{back}); err != nil || len(lost) > 0 {
		t.Fatalf("%d lost, %v", len(lost), err)
	}
	if row := s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 1)[0]; row.Claim.Attempts != 1 {
		t.Errorf("the row has %d attempts, want 1", row.Claim.Attempts)
	}
}

// testClaimlessKill: what a killed process had taken is claimed by the next owner at once, in order.
func testClaimlessKill(t *testing.T, s *queueSuite) {
	s.claimless(t)
	killed := s.Open(t)
	rows := s.insert(t, "a", "b", "a", "")
	s.want(t, s.claimSoon(t, killed, adapters.ClaimRequest{}, 4), rows...)
	if err := killed.Close(); err != nil {
		t.Fatal(err)
	}
	s.own(t, allSlots()...)
	if n, err := s.Queue.Recover(t.Context()); n != 0 || err != nil {
		t.Errorf("recovered %d rows, %v", n, err)
	}
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 4), rows...)
}

// testQueueErrorLength: an error is cut after 4,000 characters, and never within one.
func testQueueErrorLength(t *testing.T, s *queueSuite) {
	s.insert(t, "a")
	result := s.result(s.claim(t, s.Queue, adapters.ClaimRequest{})[0], outbox.OutcomeDead)
	result.Attempts, result.Error = 1, strings.Repeat("語", 5000)
	if lost, err := s.Queue.Settle(t.Context(), []adapters.ClaimResult{result}); err != nil || len(lost) > 0 {
		t.Fatalf("%d lost, %v", len(lost), err)
	}
	if got := s.Rows(t)[0].Error; got != strings.Repeat("語", 4000) {
		t.Errorf("%d characters are stored, want 4000", utf8.RuneCountInString(got))
	}
}
