package adaptertest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// queueSettleTests are about what is written, and queueForeignTests about what
// others hold.
var (
	queueSettleTests = map[string]func(*testing.T, *queueSuite){
		"G1_SettleWritesOutcomes":    testQueueOutcomes,
		"SettleWritesAttempts":       testQueueAttempts,
		"ErrorsOfAnyTextAreStored":   testQueueErrors,
		"G1_ARefusedRowIsToldApart":  testQueueRefused,
		"G3_LostClaimsAreLeft":       testQueueLost,
		"UnknownClaimsAreLost":       testQueueUnknownClaims,
		"ExtendKeepsClaims":          testQueueExtend,
		"G1_RecoverPutsBackTheStuck": testQueueRecover,
		"SettleAndClaimConcurrently": testQueueSettleBeside,
		"G13_NothingWaitsForALock":   testQueueLockedSettle,
		"G13_CommandsEndAtALock":     testQueueLockedDead,
		"G13_BackoffIsRedriven":      testQueueBackoff,
	}
	queueForeignTests = map[string]func(*testing.T, *queueSuite){
		"G2_ForeignRowsEndAPrefix":  testQueueForeign,
		"G2_LockedRowsEndAPrefix":   testQueueLocked,
		"G2_OlderForeignRow":        testQueueOlderForeign,
		"G1_RowsPutBackByOthers":    testQueueForeignRetry,
		"G2_OthersClaimEndsAPrefix": testQueueOtherProcess,
	}
)

func testQueueOutcomes(t *testing.T, s *queueSuite) {
	rows := s.insert(t, "a", "b", "c", "d", "e")
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{})
	byKey := map[string]*adapters.Row{}
	for _, row := range claimed {
		byKey[row.ID] = row
	}
	outcomes := []outbox.Outcome{outbox.OutcomeDelivered, outbox.OutcomeSkipped, outbox.OutcomeRetry, outbox.OutcomeDead, outbox.OutcomeReleased}
	var results []adapters.ClaimResult
	for i, outcome := range outcomes {
		r := s.result(byKey[rows[i].Key], outcome)
		if outcome == outbox.OutcomeRetry || outcome == outbox.OutcomeDead {
			r.Attempts, r.Error = 1, "it failed"
		}
		results = append(results, r)
	}
	if lost, err := s.Queue.Settle(t.Context(), results); err != nil || len(lost) > 0 {
		t.Fatalf("settle: %d lost, %v", len(lost), err)
	}
	dead := 1
	if s.RetriesOnly {
		dead = 0
	}
	want := []QueueRow{{Status: QueueDone}, {Status: QueueDone}, {Status: QueueWaiting, Attempts: 1},
		{Status: QueueDead, Attempts: dead, Error: "it failed"}, {Status: QueueWaiting}}
	found := s.Rows(t)
	for i := range want {
		j := slices.IndexFunc(found, func(r QueueRow) bool { return r.Key == rows[i].Key })
		got := found[j]
		if got.Status != want[i].Status || got.Attempts != want[i].Attempts || want[i].Error != "" && got.Error != want[i].Error {
			t.Errorf("%s: the row is %+v, want %+v", outcomes[i], got, want[i])
		}
		if got.Payload != rows[i].Payload || !got.CreatedAt.Equal(rows[i].CreatedAt) {
			t.Errorf("%s: the row was changed: %+v", outcomes[i], got)
		}
	}
	s.want(t, s.claimAll(t, s.Queue, adapters.ClaimRequest{}), rows[2], rows[4])
}

// testQueueAttempts fails a row four times, as a limit of three retries has it.
func testQueueAttempts(t *testing.T, s *queueSuite) {
	row := s.insert(t, "a")[0]
	for attempt := range 4 {
		claimed := s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 1)
		if got := claimed[0].Claim.Attempts; got != attempt {
			t.Fatalf("claimed with %d attempts, want %d", got, attempt)
		}
		outcome := outbox.OutcomeRetry
		if attempt == 3 {
			outcome = outbox.OutcomeDead
		}
		s.settle(t, s.Queue, outcome, claimed...)
	}
	want := 4
	if s.RetriesOnly {
		want = 3
	}
	if got := s.Rows(t)[0]; got.Status != QueueDead || got.Attempts != want || got.Error != "it failed" || got.Key != row.Key {
		t.Errorf("the row is %+v, want it dead with %d", got, want)
	}
	s.want(t, s.claim(t, s.Queue, adapters.ClaimRequest{}))
}

func testQueueErrors(t *testing.T, s *queueSuite) {
	s.insert(t, "a", "b")
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{})
	texts := []string{"a \x00 b \xff \"quoted\" {x,y} NULL \\ é", strings.Repeat("é", 10000)}
	for i, row := range claimed {
		result := s.result(row, outbox.OutcomeDead)
		result.Attempts, result.Error = 1, texts[i]
		if lost, err := s.Queue.Settle(t.Context(), []adapters.ClaimResult{result}); err != nil || len(lost) > 0 {
			t.Fatalf("settle: %d lost, %v", len(lost), err)
		}
	}
	for _, row := range s.Rows(t) {
		if row.Error != "a  b  \"quoted\" {x,y} NULL \\ é" && !strings.HasPrefix(row.Error, strings.Repeat("é", 1000)) {
			t.Errorf("stored %q", row.Error)
		}
	}
}

// testQueueRefused settles rows of which the table refuses one: alone it is refused too, and the others are written.
func testQueueRefused(t *testing.T, s *queueSuite) {
	if s.Refuse == nil {
		t.Skip("nothing refuses rows")
	}
	s.insert(t, "a", "b", "c")
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{})
	mend := s.Refuse(t, claimed[1].ID)
	var results []adapters.ClaimResult
	for _, row := range claimed {
		results = append(results, s.result(row, outbox.OutcomeDelivered))
	}
	if _, err := s.Queue.Settle(t.Context(), results); !errors.Is(err, adapters.ErrRefused) {
		t.Fatalf("the table refuses a row: %v", err)
	}
	for i := range results {
		lost, err := s.Queue.Settle(t.Context(), results[i:i+1])
		if len(lost) > 0 || i == 1 != errors.Is(err, adapters.ErrRefused) || i != 1 && err != nil {
			t.Fatalf("row %d alone: %d lost, %v", i, len(lost), err)
		}
	}
	if more := s.claim(t, s.Queue, adapters.ClaimRequest{}); len(more) > 0 {
		t.Fatalf("%s was claimed again", more[0].ID)
	}
	mend()
	if lost, err := s.Queue.Settle(t.Context(), results[1:2]); len(lost) > 0 || err != nil {
		t.Fatalf("with the table mended: %d lost, %v", len(lost), err)
	}
	if left := s.claim(t, s.Queue, adapters.ClaimRequest{}); len(left) > 0 {
		t.Errorf("%s was claimed again", left[0].ID)
	}
}

func testQueueLost(t *testing.T, s *queueSuite) {
	s.needsClaims(t)
	rows := s.insert(t, "a", "b", "c")
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{})
	// One is put back, one is claimed by another process, one is still ours.
	s.Set(t, QueueWaiting, 0, rows[0].Key, rows[1].Key)
	other := s.Open(t)
	s.closeAfter(t, other)
	<-time.After(2 * time.Millisecond) // a table may know claims by the millisecond in which they were made
	theirs := s.claim(t, other, adapters.ClaimRequest{Except: []string{s.gate(&rows[0])}})
	s.want(t, theirs, rows[1])
	var results []adapters.ClaimResult
	for _, row := range claimed {
		results = append(results, s.result(row, outbox.OutcomeDelivered))
	}
	lost, err := s.Queue.Settle(t.Context(), results)
	if err != nil {
		t.Fatal(err)
	}
	var lostKeys []string
	for _, c := range lost {
		lostKeys = append(lostKeys, c.Key)
	}
	slices.Sort(lostKeys)
	if !slices.Equal(lostKeys, []string{rows[0].Key, rows[1].Key}) {
		t.Errorf("lost are %v", lostKeys)
	}
	s.wantStatus(t, QueueWaiting, rows[0].Key)
	s.wantStatus(t, QueueProcessing, rows[1].Key)
	s.wantStatus(t, QueueDone, rows[2].Key)
	s.settle(t, other, outbox.OutcomeDelivered, theirs...)
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 1), rows[0])
}

func testQueueUnknownClaims(t *testing.T, s *queueSuite) {
	row := s.insert(t, "a")[0]
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{})[0].Claim
	for _, c := range []*adapters.Claim{
		{Table: "elsewhere", Key: row.Key, Token: claimed.Token}, {Table: row.Table, Key: "none", Token: claimed.Token},
		{Table: row.Table, Key: row.Key, Token: "other"},
	} {
		lost, err := s.Queue.Settle(t.Context(), []adapters.ClaimResult{{Claim: c, Outcome: outbox.OutcomeDelivered}})
		if err != nil || len(lost) != 1 || lost[0] != c {
			t.Errorf("settling %+v: lost %v, %v", c, lost, err)
		}
		if lost, err = s.Queue.Extend(t.Context(), []*adapters.Claim{c}); err != nil || len(lost) != 1 {
			t.Errorf("extending %+v: lost %v, %v", c, lost, err)
		}
	}
	s.wantStatus(t, s.claimed(), row.Key)
}

func testQueueExtend(t *testing.T, s *queueSuite) {
	rows := s.insert(t, "a", "b")
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{})
	claims := []*adapters.Claim{claimed[0].Claim, claimed[1].Claim}
	for range 2 {
		if lost, err := s.Queue.Extend(t.Context(), claims); err != nil || len(lost) > 0 {
			t.Fatalf("extend: lost %v, %v", lost, err)
		}
	}
	ends := QueueWaiting
	if s.Claimless {
		ends = QueueDone
	}
	s.Set(t, ends, 0, rows[1].Key)
	lost, err := s.Queue.Extend(t.Context(), claims)
	if err != nil || len(lost) != 1 || lost[0].Key != rows[1].Key {
		t.Errorf("extend: lost %v, %v; want the one that was put back", lost, err)
	}
	for _, row := range claimed {
		if row.ID == rows[0].Key {
			s.settle(t, s.Queue, outbox.OutcomeDelivered, row)
		}
	}
	s.wantStatus(t, QueueDone, rows[0].Key)
}

func testQueueRecover(t *testing.T, s *queueSuite) {
	s.needsClaims(t)
	rows := s.insert(t, "a", "a", "b", "c", "d")
	claimed := s.claim(t, s.Queue, adapters.ClaimRequest{Except: []string{s.gate(&rows[0]), s.gate(&rows[2]), s.gate(&rows[4])}})
	s.want(t, claimed, rows[3])
	old, fresh := s.Timeout+time.Minute, s.Timeout/2
	s.Set(t, QueueProcessing, old, rows[0].Key, rows[3].Key) // the second one is ours
	s.Set(t, QueueProcessing, fresh, rows[2].Key)
	if n, err := s.Queue.Recover(t.Context()); err != nil || n != 1 {
		t.Errorf("recovered %d, %v; want 1", n, err)
	}
	s.wantStatus(t, QueueWaiting, rows[0].Key)
	s.wantStatus(t, QueueProcessing, rows[2].Key, rows[3].Key)
	s.want(t, s.claimAll(t, s.Queue, adapters.ClaimRequest{}), rows[0], rows[1], rows[4])
	// Another process has no part in what this one holds.
	other := s.Open(t)
	s.closeAfter(t, other)
	if n, err := other.Recover(t.Context()); err != nil || n != 1 {
		t.Errorf("another process recovered %d, %v; want 1", n, err)
	}
}

func testQueueSettleBeside(t *testing.T, s *queueSuite) {
	const n = 400
	groups := make([]string, n)
	for i := range groups {
		groups[i] = []string{"a", "b", "c"}[i%3]
	}
	s.insert(t, groups...)
	settle := make(chan []*adapters.Row, n)
	done := make(chan int)
	go func() {
		delivered := 0
		for rows := range settle {
			results := make([]adapters.ClaimResult, len(rows))
			for i, row := range rows {
				results[i] = s.result(row, outbox.OutcomeDelivered)
				if row.Claim.Attempts == 0 && i == len(rows)-1 { // the last one fails once
					results[i].Outcome, results[i].Attempts = outbox.OutcomeRetry, 1
				} else {
					delivered++
				}
			}
			lost, err := s.Queue.Settle(t.Context(), results)
			if err != nil || len(lost) > 0 {
				t.Errorf("settle: %d lost, %v", len(lost), err)
			}
		}
		done <- delivered
	}()
	for end := time.Now().Add(maxWait); time.Now().Before(end); {
		rows := s.claim(t, s.Queue, adapters.ClaimRequest{Limit: 20})
		if len(rows) > 0 {
			settle <- rows
			continue
		}
		if !slices.ContainsFunc(s.Rows(t), func(r QueueRow) bool { return r.Status != QueueDone }) {
			break
		}
	}
	close(settle)
	if delivered := <-done; delivered != n {
		t.Errorf("%d rows were delivered, want %d", delivered, n)
	}
}

func testQueueForeign(t *testing.T, s *queueSuite) {
	s.needsClaims(t)
	rows := s.insert(t, "a", "a", "a", "b")
	s.Set(t, QueueProcessing, 0, rows[1].Key)
	s.want(t, s.claimAll(t, s.Queue, adapters.ClaimRequest{}), rows[0], rows[3])
	s.Set(t, QueueDone, 0, rows[1].Key)
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 1), rows[2])
}

// testQueueOlderForeign: the foreign row is much older than what waits.
func testQueueOlderForeign(t *testing.T, s *queueSuite) {
	s.needsClaims(t)
	old := s.row("a")
	s.born = s.born.Add(time.Hour)
	young := []QueueRow{s.row("a"), s.row("b")}
	s.Insert(t, append(young, old)...)
	s.Set(t, QueueProcessing, 0, old.Key)
	s.want(t, s.claimAll(t, s.Queue, adapters.ClaimRequest{}), young[1])
	s.Set(t, QueueWaiting, 0, old.Key)
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 2), old, young[0])
}

func testQueueForeignRetry(t *testing.T, s *queueSuite) {
	rows := s.insert(t, "a", "b")
	claimed := s.claimAll(t, s.Queue, adapters.ClaimRequest{})
	s.settle(t, s.Queue, outbox.OutcomeDead, claimed...)
	s.want(t, s.claim(t, s.Queue, adapters.ClaimRequest{}))
	s.Set(t, QueueWaiting, 0, rows[0].Key) // an operator wants it again
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 1), rows[0])
}

func testQueueOtherProcess(t *testing.T, s *queueSuite) {
	s.needsClaims(t)
	rows := s.insert(t, "a", "a", "b")
	theirs := s.claim(t, s.Queue, adapters.ClaimRequest{PerGroup: 1})
	s.want(t, theirs, rows[0], rows[2])
	other := s.Open(t)
	s.closeAfter(t, other)
	s.want(t, s.claimAll(t, other, adapters.ClaimRequest{}))
	s.settle(t, s.Queue, outbox.OutcomeDelivered, theirs...)
	s.want(t, s.claimSoon(t, other, adapters.ClaimRequest{}, 1), rows[1])
}
