package adaptertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// testQueueLockedSettle: another session has locked a row and does not let go. The results of other rows are written, the claim stays, and
// the row is settled when it is free.
func testQueueLockedSettle(t *testing.T, s *queueSuite) {
	if s.Lock == nil {
		t.Skip("rows cannot be locked")
	}
	outcomes := []outbox.Outcome{outbox.OutcomeDelivered, outbox.OutcomeRetry, outbox.OutcomeDead, outbox.OutcomeReleased}
	want := []QueueStatus{QueueDone, QueueWaiting, QueueDead, QueueWaiting}
	for i, outcome := range outcomes {
		s.settleBesideALock(t, outcome, want[i], outcomes, want)
	}
}

// settleBesideALock settles four rows as outcomes say, and one as outcome says, which is locked.
func (s *queueSuite) settleBesideALock(t *testing.T, outcome outbox.Outcome, end QueueStatus, outcomes []outbox.Outcome, want []QueueStatus) {
	t.Helper()
	rows := s.insert(t, "a", "b", "c", "d", "e")
	claimed := s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, len(rows))
	slices.SortFunc(claimed, func(a, b *adapters.Row) int { return a.CreatedAt.Compare(b.CreatedAt) })
	results := make([]adapters.ClaimResult, len(rows))
	for j, row := range claimed {
		results[j] = s.result(row, append(slices.Clone(outcomes), outcome)[j])
		if r := &results[j]; r.Outcome == outbox.OutcomeRetry || r.Outcome == outbox.OutcomeDead {
			r.Attempts, r.Error = r.Attempts+1, "it failed"
		}
	}
	release := s.Lock(t, rows[4].Key)
	lost, err := s.Queue.Settle(t.Context(), results)
	if back := outcome == outbox.OutcomeRetry || outcome == outbox.OutcomeReleased; s.Claimless && back && err == nil {
		release() // it waits as it is, and nothing was written into it
		s.Set(t, QueueDone, 0, rows[0].Key, rows[1].Key, rows[2].Key, rows[3].Key, rows[4].Key)
		return
	}
	locked, ok := errors.AsType[*adapters.LockedError](err)
	if len(lost) > 0 || !ok || len(locked.Claims) != 1 || locked.Claims[0] != claimed[4].Claim {
		t.Fatalf("%s: %d lost, %v; want the row that is locked", outcome, len(lost), err)
	}
	for j, status := range want {
		s.wantStatus(t, status, rows[j].Key)
	}
	if lost, err := s.Queue.Extend(t.Context(), []*adapters.Claim{claimed[4].Claim}); err != nil || len(lost) > 0 {
		t.Errorf("extend: %d lost, %v", len(lost), err)
	}
	if _, err := s.Queue.Recover(t.Context()); err != nil {
		t.Error(err)
	}
	s.wantStatus(t, s.claimed(), rows[4].Key)
	release()
	if lost, err := s.Queue.Settle(t.Context(), results[4:]); err != nil || len(lost) > 0 {
		t.Errorf("%s: settled again: %d lost, %v", outcome, len(lost), err)
	}
	s.wantStatus(t, end, rows[4].Key)
	s.Set(t, QueueDone, 0, rows[0].Key, rows[1].Key, rows[2].Key, rows[3].Key, rows[4].Key)
}

// testQueueLockedDead: a command on dead rows does not wait long for a row that another session has locked, and changes nothing then.
func testQueueLockedDead(t *testing.T, s *queueSuite) {
	if s.Lock == nil {
		t.Skip("rows cannot be locked")
	}
	rows := s.insert(t, "a", "b")
	s.settle(t, s.Queue, outbox.OutcomeDead, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, len(rows))...)
	found, err := s.Queue.Dead(t.Context(), adapters.DeadFilter{})
	if err != nil || len(found) != len(rows) {
		t.Fatalf("%d rows are dead, %v", len(found), err)
	}
	keys := []adapters.DeadKey{found[0].At, found[1].At}
	record := func(context.Context, int) error { return nil }
	release := s.Lock(t, keys[1].Key)
	if changed, err := s.Queue.ChangeDead(t.Context(), adapters.ParkedRedrive, keys, record); changed != 0 || err == nil {
		t.Errorf("changed %d of 2 rows, of which one is locked: %v", changed, err)
	}
	release()
	if changed, err := s.Queue.ChangeDead(t.Context(), adapters.ParkedRedrive, keys, record); changed != 2 || err != nil {
		t.Errorf("changed %d rows after the lock, %v", changed, err)
	}
}

// testQueueBackoff: rows in backoff are listed behind dead ones when they are asked for, and can be redriven, not purged.
func testQueueBackoff(t *testing.T, s *queueSuite) {
	if !s.Queue.KeepsDue() {
		t.Skip("the tables do not say when a row is due again")
	}
	rows := s.insert(t, "a", "b", "a", "c")
	due := time.Now().Add(time.Hour)
	var results []adapters.ClaimResult
	for _, row := range s.claimSoon(t, s.Queue, adapters.ClaimRequest{PerGroup: 1}, 3) {
		r := s.result(row, outbox.OutcomeRetry)
		if r.Attempts, r.Error, r.At = 1, "it failed", due; row.ID == rows[1].Key {
			r.Outcome = outbox.OutcomeDead
		}
		results = append(results, r)
	}
	if lost, err := s.Queue.Settle(t.Context(), results); err != nil || len(lost) > 0 {
		t.Fatalf("%d lost, %v", len(lost), err)
	}
	s.quiet(t, s.Queue, adapters.ClaimRequest{})
	var found []adapters.DeadRow
	f := adapters.DeadFilter{Retrying: true, Limit: 1}
	for {
		page, err := s.Queue.Dead(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		found, f.After = append(found, page...), page[len(page)-1].At
	}
	if len(found) != 3 || found[0].At.Key != rows[1].Key || found[0].At.Retrying || found[1].At.Key != rows[0].Key || found[2].At.Key != rows[3].Key {
		t.Fatalf("found %+v, want the dead row and those in backoff", found)
	}
	if r := found[1]; !r.At.Retrying || r.Attempts != 1 || r.Due.Sub(due).Abs() > time.Second {
		t.Errorf("the row in backoff is %+v", r)
	}
	if only, err := s.Queue.Dead(t.Context(), adapters.DeadFilter{}); err != nil || len(only) != 1 {
		t.Errorf("%d rows are dead, %v", len(only), err)
	}
	record := func(context.Context, int) error { return nil }
	if n, err := s.Queue.ChangeDead(t.Context(), adapters.ParkedRedrive, []adapters.DeadKey{found[1].At}, record); n != 1 || err != nil {
		t.Errorf("redriven: %d, %v", n, err)
	}
	claimed := s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 2)
	s.want(t, claimed, rows[0], rows[2])
	for _, row := range claimed {
		if row.Claim.Attempts != 0 {
			t.Errorf("row %s has %d attempts", row.ID, row.Claim.Attempts)
		}
	}
}

func testQueueLocked(t *testing.T, s *queueSuite) {
	s.needsClaims(t)
	if s.Lock == nil {
		t.Skip("rows cannot be locked")
	}
	rows := s.insert(t, "a", "a", "a", "b", "b")
	release := s.Lock(t, rows[1].Key, rows[3].Key)
	s.want(t, s.claimAll(t, s.Queue, adapters.ClaimRequest{}), rows[0])
	release()
	s.want(t, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, 4), rows[1], rows[2], rows[3], rows[4])
}
