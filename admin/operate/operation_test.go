package operate_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// order plans and starts an operation, and returns its id.
func (s *site) order(o operate.OperationOrder) string {
	s.t.Helper()
	o.By = "me"
	plan, err := s.op.PlanOperation(s.t.Context(), o)
	must(s.t, err)
	started, err := s.op.StartOperation(s.t.Context(), plan)
	must(s.t, err)
	if len(started) != 1 || started[0].State != adapters.OperationPlanned {
		s.t.Fatalf("started %+v, want one planned operation", started)
	}
	return started[0].ID
}

// A plan counts parked messages and dead rows of queues, and changes nothing; the operation then changes just these.
func TestAnOperationChangesWhatItsPlanCounts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		order               operate.OperationOrder
		total               int
		dead, rows, cursors int // what is left: dead messages and rows, cursors at 2
	}{
		"redrive":          {operate.OperationOrder{Kind: adapters.OperationRedrive, Filter: adapters.ParkedFilter{Status: adapters.ParkedDead}}, 5, 0, 0, 16},
		"redrive a route":  {operate.OperationOrder{Kind: adapters.OperationRedrive, Filter: adapters.ParkedFilter{Route: "orders", Status: adapters.ParkedDead}}, 3, 0, 2, 16},
		"redrive a queue":  {operate.OperationOrder{Kind: adapters.OperationRedrive, Filter: adapters.ParkedFilter{Route: "work", Status: adapters.ParkedDead}}, 2, 3, 0, 16},
		"redrive an event": {operate.OperationOrder{Kind: adapters.OperationRedrive, Filter: adapters.ParkedFilter{ID: "p2"}}, 1, 2, 2, 16},
		"redrive two":      {operate.OperationOrder{Kind: adapters.OperationRedrive, Filter: adapters.ParkedFilter{Route: "orders", Status: adapters.ParkedDead, Limit: 2}}, 2, 1, 2, 16},
		"purge all":        {operate.OperationOrder{Kind: adapters.OperationPurge, All: true}, 5, 0, 0, 16},
		"purge a group":    {operate.OperationOrder{Kind: adapters.OperationPurge, Filter: adapters.ParkedFilter{Group: "g3"}}, 1, 2, 2, 16},
		"skip":             {operate.OperationOrder{Kind: adapters.OperationSkip, Filter: adapters.ParkedFilter{Group: "g4"}}, 1, 3, 2, 16},
		"seek": {operate.OperationOrder{Kind: adapters.OperationSeek, Routes: []string{"ord*"},
			To: operate.Target{Start: adapters.Start{Kind: adapters.StartBeginning}}}, 1, 3, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			id := s.order(test.order)
			o, err := s.op.Operation(t.Context(), id)
			must(t, err)
			if o.Total != test.total || s.count("SELECT count(*) FROM outrider_parked") != 4 {
				t.Fatalf("planned %d, want %d and nothing changed", o.Total, test.total)
			}
			o, err = s.op.WorkOperation(t.Context(), id, "worker", nil)
			if err != nil || o.State != adapters.OperationDone || o.Done != test.total || o.Failed != 0 {
				t.Errorf("ended as %s with %d done and %d failed (%s), %v", o.State, o.Done, o.Failed, o.Error, err)
			}
			dead, rows := s.count("SELECT count(*) FROM outrider_parked WHERE status = 'dead'"), s.count("SELECT count(*) FROM outbox WHERE status = 'dead_lettered'")
			if cursors := s.count("SELECT count(*) FROM outrider_cursor WHERE route = 'orders' AND position = 2"); dead != test.dead || rows != test.rows || cursors != test.cursors {
				t.Errorf("left %d dead messages, %d dead rows, %d cursors; want %d, %d, %d", dead, rows, cursors, test.dead, test.rows, test.cursors)
			}
			if view := operate.ViewOperation(&o); view.ID != id || view.State != string(adapters.OperationDone) {
				t.Errorf("shown as %+v", view)
			}
		})
	}
}

// Rows of a queue that wait for their next attempt are redriven at once.
func TestAnOperationRedrivesRowsInBackoff(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.exec("UPDATE outbox SET status = 'failed', retry_count = 1, next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 hour') WHERE status = 'pending'")
	id := s.order(operate.OperationOrder{Kind: adapters.OperationRedrive, Filter: adapters.ParkedFilter{Route: "work", Status: adapters.ParkedRetrying}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	o, err := s.op.WorkOperation(ctx, id, "worker", nil)
	if err != nil || o.State != adapters.OperationDone || o.Total != 1 || o.Done != 1 {
		t.Errorf("ended as %s with %d of %d done, %v", o.State, o.Done, o.Total, err)
	}
	if n := s.count("SELECT count(*) FROM outbox WHERE status <> 'dead_lettered' AND retry_count = 0 AND coalesce(next_attempt_at, '') <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"); n != 1 {
		t.Errorf("%d rows are ready, want 1", n)
	}
}

// Of two workers each message is changed by one.
func TestTwoWorkersOfAnOperation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.order(operate.OperationOrder{Kind: adapters.OperationPurge, All: true})
	var wg sync.WaitGroup
	for _, worker := range []string{"one", "two"} {
		wg.Go(func() {
			if o, err := s.op.WorkOperation(t.Context(), id, worker, nil); err != nil || o.State != adapters.OperationDone || o.Done != 5 {
				t.Errorf("%s: %s with %d done, %v", worker, o.State, o.Done, err)
			}
		})
	}
	wg.Wait()
}

// A stopped operation is not worked until it is resumed; one that has ended is neither stopped nor resumed.
func TestOperationsAreStoppedAndResumed(t *testing.T) {
	t.Parallel()
	s, ctx := newSite(t), t.Context()
	id := s.order(operate.OperationOrder{Kind: adapters.OperationRedrive, Filter: adapters.ParkedFilter{Status: adapters.ParkedDead}})
	changes := func(name string, call func(context.Context, string, string) (bool, error), want ...bool) {
		t.Helper()
		for i, want := range want {
			if changed, err := call(ctx, id, "me"); err != nil || changed != want {
				t.Errorf("%s, call %d: %v, %v; want %v", name, i+1, changed, err, want)
			}
		}
	}
	changes("stop", s.op.StopOperation, true, false)
	if o, err := s.op.WorkOperation(ctx, id, "worker", nil); err != nil || o.State != adapters.OperationStopped || o.Done != 0 {
		t.Errorf("a stopped operation was worked: %+v, %v", o, err)
	}
	changes("resume", s.op.ResumeOperation, true, false)
	if o, err := s.op.WorkOperation(ctx, id, "worker", nil); err != nil || o.Done != 5 {
		t.Errorf("resumed: %+v, %v", o, err)
	}
	changes("stop of what has ended", s.op.StopOperation, false)
	changes("resume of what has ended", s.op.ResumeOperation, false)
	for name, call := range map[string]func(context.Context, string, string) (bool, error){"stop": s.op.StopOperation, "resume": s.op.ResumeOperation} {
		if _, err := call(ctx, "none", "me"); !errors.Is(err, adapters.ErrNoOperation) {
			t.Errorf("%s of one that is not there: %v", name, err)
		}
	}
	for _, id := range []string{"none", ""} {
		if _, err := s.op.Operation(ctx, id); !errors.Is(err, adapters.ErrNoOperation) {
			t.Errorf("operation %q: %v", id, err)
		}
	}
	if _, err := s.op.WorkOperation(ctx, "none", "worker", nil); !errors.Is(err, adapters.ErrNoOperation) {
		t.Errorf("work of one that is not there: %v", err)
	}
	refuses[*operate.UnknownRoute](t, "a seek of no route", second(s.op.PlanOperation(ctx, operate.OperationOrder{Kind: adapters.OperationSeek, Routes: []string{"eu-*"}})), "eu-*")
	refuses[error](t, "a pattern", second(s.op.PlanOperation(ctx, operate.OperationOrder{Kind: adapters.OperationSeek, Routes: []string{"[a"}})), `pattern "[a" of routes`)
}

// A command called off gives up after its step; the operation stays, for another worker to go on with.
func TestAnInterruptedOperationGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.order(operate.OperationOrder{Kind: adapters.OperationPurge, Filter: adapters.ParkedFilter{Route: "orders", Status: adapters.ParkedDead}, Rate: 1})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.op.WorkOperation(ctx, id, "one", func(o adapters.Operation) {
		if o.Done > 0 {
			cancel()
		}
	})
	left := s.count("SELECT count(*) FROM outrider_parked WHERE status = 'dead'")
	if !errors.Is(err, context.Canceled) || left == 0 || left == 3 {
		t.Fatalf("called off: %v with %d of 3 left", err, left)
	}
	o, err := s.op.WorkOperation(t.Context(), id, "two", nil)
	if err != nil || o.State != adapters.OperationDone || o.Done != 3 {
		t.Errorf("the second worker: %+v, %v", o, err)
	}
	list, err := s.op.Operations(t.Context(), adapters.OperationFilter{})
	if err != nil || len(list) != 1 || list[0].StartedAt.IsZero() || list[0].CreatedAt.After(time.Now().Add(time.Minute)) {
		t.Errorf("operations %+v, %v", list, err)
	}
}
