package adaptertest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// order writes an operation down that redrives the dead messages of a route.
func order(t *testing.T, s adapters.OperatorStore, id string) adapters.Operation {
	t.Helper()
	o, err := s.CreateOperation(t.Context(), adapters.Operation{ID: id, Kind: adapters.OperationRedrive, By: "alice",
		Filter: adapters.ParkedFilter{Route: "r", Status: adapters.ParkedDead, Group: "\xff\x00"}, Rate: 1.5, Sources: []string{"a", "b"}, Total: 3})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// taken takes an operation that is there to be taken. A lease that is over may still run
// for a tick of the store's clock.
func taken(t *testing.T, s adapters.OperatorStore, worker string) *adapters.Operation {
	t.Helper()
	const id = "1"
	var o *adapters.Operation
	var err error
	for range 1000 {
		if o, err = s.TakeOperation(t.Context(), id, worker, time.Hour); err != nil || o != nil {
			break
		}
		<-time.After(time.Millisecond)
	}
	if err != nil || o == nil {
		t.Fatalf("take %s as %s: %v, %v", id, worker, o, err)
	}
	return o
}

func stepped(t *testing.T, s adapters.OperatorStore, step adapters.OperationStep) adapters.Operation {
	t.Helper()
	o, err := s.StepOperation(t.Context(), step)
	if err != nil {
		t.Fatalf("step %+v: %v", step, err)
	}
	return o
}

func testOperationRoundTrip(t *testing.T, db *stateDB) {
	s := db.store()
	o := order(t, s, "1")
	if o.State != adapters.OperationPlanned || o.CreatedAt.IsZero() || o.Filter.Group != "\xff\x00" || o.Rate != 1.5 || o.Total != 3 ||
		!slices.Equal(o.Sources, []string{"a", "b"}) || o.By != "alice" || o.Worker != "" {
		t.Errorf("ordered %+v", o)
	}
	o = *taken(t, s, "w")
	place := adapters.OperationPlace{Parked: adapters.ParkedKey{LaneRef: adapters.LaneRef{Route: "r/\xff", Slot: 3}, Seq: 9}, ParkedOver: true, Source: 1,
		Dead: adapters.DeadKey{Table: "t", Created: "c", Key: "k\x00"}, Route: 2, Pending: []adapters.DeadKey{{Table: "t", Created: "d", Key: "l"}}}
	o = stepped(t, s, adapters.OperationStep{ID: "1", Epoch: o.Epoch, Lease: time.Hour, Place: &place, Done: 2, Failed: 1, Error: "first"})
	if o.Place.Parked != place.Parked || o.Place.Dead != place.Dead || !o.Place.ParkedOver || o.Place.Source != 1 || o.Place.Route != 2 ||
		!slices.Equal(o.Place.Pending, place.Pending) || o.Done != 2 || o.Failed != 1 || o.Worker != "w" || o.Left < 59*time.Minute || o.StartedAt.IsZero() {
		t.Errorf("after a step: %+v", o)
	}
	o = stepped(t, s, adapters.OperationStep{ID: "1", Epoch: o.Epoch, End: adapters.OperationDone, Error: "second"})
	if o.State != adapters.OperationDone || o.EndedAt.IsZero() || o.Worker != "" || o.Error != "first" || o.Remaining() != 0 {
		t.Errorf("at the end: %+v", o)
	}
	order(t, s, "2")
	all, err := s.ListOperations(t.Context(), adapters.OperationFilter{})
	if err != nil || len(all) != 2 || all[0].ID != "2" || all[1].Done != 2 {
		t.Errorf("operations %+v, %v", all, err)
	}
	if active, err := s.ListOperations(t.Context(), adapters.OperationFilter{Active: true}); err != nil || len(active) != 1 || active[0].ID != "2" {
		t.Errorf("active %+v, %v", active, err)
	}
	if older, err := s.ListOperations(t.Context(), adapters.OperationFilter{Before: "2", Limit: 1}); err != nil || len(older) != 1 || older[0].ID != "1" {
		t.Errorf("below 2: %+v, %v", older, err)
	}
}

// A worker has an operation until its lease is over; a step of a former worker changes
// nothing.
func testOperationHasOneWorker(t *testing.T, db *stateDB) {
	s := db.store()
	order(t, s, "1")
	first := taken(t, s, "one")
	if o, err := s.TakeOperation(t.Context(), "1", "two", time.Hour); err != nil || o != nil {
		t.Fatalf("a second worker took %+v, %v", o, err)
	}
	stepped(t, s, adapters.OperationStep{ID: "1", Epoch: first.Epoch, Lease: time.Microsecond, Done: 1})
	second := taken(t, s, "two")
	if second.Epoch <= first.Epoch || second.Done != 1 || second.TakenDone != 1 {
		t.Errorf("taken over: %+v", second)
	}
	if _, err := s.StepOperation(t.Context(), adapters.OperationStep{ID: "1", Epoch: first.Epoch, Lease: time.Hour, Done: 1}); !errors.Is(err, adapters.ErrOperationLost) {
		t.Errorf("a step of the former worker: %v", err)
	}
	o := stepped(t, s, adapters.OperationStep{ID: "1", Epoch: second.Epoch})
	if o.Done != 1 || o.Worker != "" || o.State != adapters.OperationRunning {
		t.Errorf("given up: %+v", o)
	}
	taken(t, s, "three")
}

func testOperationStopAndResume(t *testing.T, db *stateDB) {
	store := db.store()
	s := store
	order(t, s, "1")
	first := taken(t, s, "w")
	for want := range 2 {
		if changed, err := s.StopOperation(t.Context(), "1", "bob"); err != nil || changed != (want == 0) {
			t.Fatalf("stop: %v, %v", changed, err)
		}
	}
	if _, err := s.StepOperation(t.Context(), adapters.OperationStep{ID: "1", Epoch: first.Epoch, Lease: time.Hour, Done: 1}); !errors.Is(err, adapters.ErrOperationLost) {
		t.Errorf("a step of a stopped operation: %v", err)
	}
	if o, err := s.TakeOperation(t.Context(), "1", "w", time.Hour); err != nil || o != nil {
		t.Errorf("a stopped operation was taken: %+v, %v", o, err)
	}
	for want := range 2 {
		if changed, err := s.ResumeOperation(t.Context(), "1", "bob"); err != nil || changed != (want == 0) {
			t.Fatalf("resume: %v, %v", changed, err)
		}
	}
	if _, err := s.StepOperation(t.Context(), adapters.OperationStep{ID: "1", Epoch: first.Epoch, Lease: time.Hour, Done: 1}); !errors.Is(err, adapters.ErrOperationLost) {
		t.Errorf("a step from before the stop: %v", err)
	}
	o := taken(t, s, "w")
	stepped(t, s, adapters.OperationStep{ID: "1", Epoch: o.Epoch, End: adapters.OperationDone, Done: 2})
	if _, err := s.StopOperation(t.Context(), "none", "bob"); !errors.Is(err, adapters.ErrNoOperation) {
		t.Errorf("stop of none: %v", err)
	}
	// One record for each change of its state, with what was done by then.
	records, err := readAudit(t, store)
	var got []string
	for _, r := range slices.Backward(records) {
		if !strings.Contains(r.Filter, `"operation":`) {
			t.Errorf("record %+v does not name the operation", r)
		}
		got = append(got, r.By+" "+r.Action)
	}
	if want := []string{"alice redrive", "bob stop", "bob resume", "alice redrive"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("audited %v, %v; want %v", got, err, want)
	}
	if len(records) > 0 && records[0].Changed != 2 {
		t.Errorf("the end is audited with %d, want 2", records[0].Changed)
	}
}

func readAudit(t *testing.T, store adapters.OperatorStore) ([]adapters.AuditRecord, error) {
	t.Helper()
	return store.ReadAudit(t.Context(), 0, 100)
}

// Steps change what was parked when the operation was ordered, each message once.
func testOperationInSteps(t *testing.T, db *stateDB) {
	store, lanes := operated(t, db)
	s := store
	_, err := s.CreateOperation(t.Context(), adapters.Operation{ID: "1", Kind: adapters.OperationRedrive, All: true, By: "alice", Total: 4})
	if err != nil {
		t.Fatal(err)
	}
	later := parked(9, "later", adapters.ParkedDead)
	settle(t, store, parking(lanes[0], later))
	before := commands(t, store)
	o := taken(t, s, "w")
	for step := 1; !o.Place.ParkedOver; step++ {
		after := stepped(t, s, adapters.OperationStep{ID: "1", Epoch: o.Epoch, Lease: time.Hour, Parked: 2})
		if o = &after; o.Done > 2*step || step > 3 {
			t.Fatalf("after step %d: %+v", step, o)
		}
	}
	if o.Done != 4 { // retrying, held, two dead
		t.Errorf("%d were redriven, want 4", o.Done)
	}
	if after := commands(t, store); after[0] == before[0] || after[1] == before[1] {
		t.Errorf("owners do not notice: counters %v, then %v", before, after)
	}
	if dead := list(t, store, adapters.ParkedFilter{Status: adapters.ParkedDead}); len(dead) != 1 || dead[0].Seq != 9 {
		t.Errorf("dead afterwards: %v, want what was parked later", seqsOf(dead))
	}
}

func testOperationMoves(t *testing.T, db *stateDB) {
	store, _ := db.acquired(0)
	s := store
	if _, err := s.CreateOperation(t.Context(), adapters.Operation{ID: "1", Kind: adapters.OperationSeek, By: "alice"}); err == nil {
		t.Error("a seek without routes was ordered")
	}
	if _, err := s.CreateOperation(t.Context(), adapters.Operation{ID: "1", Kind: adapters.OperationSeek, Routes: []string{"r"}, To: "end", Total: 1, By: "alice"}); err != nil {
		t.Fatal(err)
	}
	o := taken(t, s, "w")
	move := adapters.Move{Route: "r", Cursors: map[int]adapters.Cursor{0: {Position: 7}}, Table: adapters.Table{Cluster: "c", Name: "t"}, Action: "seek", By: "alice"}
	fenced := adapters.OperationStep{ID: "1", Epoch: o.Epoch - 1, Lease: time.Hour, Move: &move, Done: 1}
	if _, err := s.StepOperation(t.Context(), fenced); !errors.Is(err, adapters.ErrOperationLost) {
		t.Errorf("a fenced move: %v", err)
	}
	if lanes, err := store.Lanes(t.Context()); err != nil || lanes[0].Cursor.Position == 7 {
		t.Errorf("a fenced step moved the route: %+v, %v", lanes, err)
	}
	stepped(t, s, adapters.OperationStep{ID: "1", Epoch: o.Epoch, Lease: time.Hour, Move: &move, Done: 1, Place: &adapters.OperationPlace{Route: 1}})
	if lanes, err := store.Lanes(t.Context()); err != nil || lanes[0].Cursor.Position != 7 || lanes[0].Owner != "" {
		t.Errorf("lanes %+v, %v", lanes, err)
	}
}

// The operation of an instance that died is taken over before its lease is over.
func testOperationOfADeadInstance(t *testing.T, db *stateDB) {
	first := db.joined("a")
	s := first
	order(t, s, "1")
	taken(t, s, "a")
	other := db.joined("b")
	if o, err := other.TakeOperation(t.Context(), "1", "b", time.Hour); err != nil || o != nil {
		t.Fatalf("taken from a living instance: %+v, %v", o, err)
	}
	if err := first.Close(); err != nil { // as a process that is killed does
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		o, err := other.TakeOperation(t.Context(), "1", "b", time.Hour)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("not taken over: %v", err)
		}
		if o != nil {
			return
		}
	}
}
