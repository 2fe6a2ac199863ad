package adaptertest

import (
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// queueRetentionTests are about [adapters.OperatorQueue].
var queueRetentionTests = map[string]func(*testing.T, *queueSuite){
	"G1_OldDeliveredRowsAreRemoved": testQueueRetention,
	"G13_RetentionSkipsLockedRows":  testQueueRetentionLocked,
	"G1_G2_RetentionBesideClaims":   testQueueRetentionBeside,
}

// retainer opens a queue whose delivered rows are removed.
func (s *queueSuite) retainer(t *testing.T) adapters.OperatorQueue {
	t.Helper()
	if s.Retaining == nil {
		t.Skip("delivered rows are not removed by age")
	}
	q := s.Retaining(t)
	s.closeAfter(t, q)
	if err := q.CheckRetention(t.Context(), adapters.Retention{Mode: adapters.RetainRows}); err != nil {
		t.Fatal(err)
	}
	return q
}

// remove takes a step.
func remove(t *testing.T, q adapters.OperatorQueue, r adapters.Retention) adapters.Retained {
	t.Helper()
	step, err := q.RetainDelivered(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// left are the keys of the rows that are there.
func (s *queueSuite) left(t *testing.T) (keys []string) {
	t.Helper()
	for _, row := range s.Rows(t) {
		keys = append(keys, row.Key)
	}
	slices.Sort(keys)
	return keys
}

// testQueueRetention: of old rows those that are delivered go, the oldest first, in batches. Rows that wait, are being processed or are dead stay
// at any age, and so does a young one.
func testQueueRetention(t *testing.T, s *queueSuite) {
	q := s.retainer(t)
	young := s.row("e")
	young.CreatedAt = time.Now().Add(-time.Minute).Truncate(time.Second)
	rows := append(s.insert(t, "a", "a", "b", "c", "d"), young)
	s.Insert(t, young)
	byKey := map[string]*adapters.Row{}
	for _, row := range s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, len(rows)) {
		byKey[row.ID] = row
	}
	for i, outcome := range []outbox.Outcome{outbox.OutcomeDelivered, 0, outbox.OutcomeSkipped, outbox.OutcomeDead, outbox.OutcomeRetry, outbox.OutcomeDelivered} {
		if i != 1 {
			s.settle(t, s.Queue, outcome, byKey[rows[i].Key])
		}
	}
	keep := adapters.Retention{Keep: time.Hour, Batch: 1}
	dry := keep
	if dry.DryRun = true; remove(t, q, dry).Rows != 2 || len(s.left(t)) != len(rows) {
		t.Errorf("a dry run counts %d rows and leaves %d, want 2 and %d", remove(t, q, dry).Rows, len(s.left(t)), len(rows))
	}
	if step := remove(t, q, keep); step.Rows != 1 || !step.More || slices.Contains(s.left(t), rows[0].Key) {
		t.Errorf("the first step removed %d rows, more: %t; left are %v", step.Rows, step.More, s.left(t))
	}
	keep.Batch = 10
	if step := remove(t, q, keep); step.Rows != 1 || step.More || step.Oldest < time.Minute || step.Oldest > 10*time.Minute {
		t.Errorf("the second step: %+v", step)
	}
	want := []string{rows[1].Key, rows[3].Key, rows[4].Key, young.Key}
	slices.Sort(want)
	if got := s.left(t); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	s.settle(t, s.Queue, outbox.OutcomeDelivered, byKey[rows[1].Key])
	if step := remove(t, q, adapters.Retention{}); step.Rows != 2 || step.Oldest != 0 {
		t.Errorf("without an age: %+v", step)
	}
}

// testQueueRetentionLocked: a row that another session has locked is neither waited for nor in the way of others.
func testQueueRetentionLocked(t *testing.T, s *queueSuite) {
	q := s.retainer(t)
	if s.Lock == nil {
		t.Skip("rows cannot be locked")
	}
	rows := s.insert(t, "a", "b", "c")
	s.settle(t, s.Queue, outbox.OutcomeDelivered, s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, len(rows))...)
	release := s.Lock(t, rows[0].Key)
	if step := remove(t, q, adapters.Retention{Keep: time.Hour, Batch: 1}); step.Rows != 1 {
		t.Errorf("beside a lock: %+v", step)
	}
	if step := remove(t, q, adapters.Retention{Keep: time.Hour}); step.Rows != 1 || !slices.Equal(s.left(t), []string{rows[0].Key}) {
		t.Errorf("beside a lock: %+v, left are %v", step, s.left(t))
	}
	release()
	if step := remove(t, q, adapters.Retention{Keep: time.Hour}); step.Rows != 1 || len(s.left(t)) != 0 {
		t.Errorf("after the lock: %+v, left are %v", step, s.left(t))
	}
}

// testQueueRetentionBeside: rows are claimed and settled while delivered ones are removed at any age. None is lost, and groups keep their order.
func testQueueRetentionBeside(t *testing.T, s *queueSuite) {
	q := s.retainer(t)
	const rounds, groups = 20, 5
	stop, ended := make(chan struct{}), make(chan error)
	go func() {
		for {
			if _, err := q.RetainDelivered(t.Context(), adapters.Retention{Batch: 3}); err != nil {
				ended <- err
				return
			}
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
		}
	}()
	want, got := map[string][]string{}, map[string][]string{}
	for range rounds {
		rows := s.insert(t, "a", "b", "c", "d", "e")
		for i := range rows {
			gate := s.gate(&rows[i])
			want[gate] = append(want[gate], rows[i].Key)
		}
		claimed := s.claimSoon(t, s.Queue, adapters.ClaimRequest{}, groups)
		for _, row := range claimed {
			got[row.Group] = append(got[row.Group], row.ID)
		}
		s.settle(t, s.Queue, outbox.OutcomeDelivered, claimed...)
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		more = remove(t, q, adapters.Retention{}).More
	}
	for gate := range want {
		if !slices.Equal(got[gate], want[gate]) {
			t.Errorf("group %s was claimed as %v, want %v", gate, got[gate], want[gate])
		}
	}
	if left := s.left(t); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
