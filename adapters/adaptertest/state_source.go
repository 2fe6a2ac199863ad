package adaptertest

import (
	"errors"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// testLanesTellWhatTheyRead: retention judges by these whose cursors count.
func testLanesTellWhatTheyRead(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1, 2)
	settled := at(lanes[0], 9)
	settled.Table = adapters.Table{Cluster: "c-1", Name: "postgresql/app/public.outbox"}
	settled.Cursor = adapters.Cursor{Position: 9, Snapshot: "5:7:5", Window: "8:8:", Paged: 3, Base: 2}
	settle(t, store, settled, at(lanes[1], 1))
	status, err := store.Lanes(t.Context())
	if err != nil || len(status) != 3 {
		t.Fatalf("%d lanes, %v", len(status), err)
	}
	if got := status[0]; got.Table != settled.Table || got.Cursor != settled.Cursor {
		t.Errorf("got %+v", got)
	}
	if status[1].Table.Name != "" || status[1].UpdatedAt.IsZero() {
		t.Errorf("a lane whose source is not known: %+v", status[1])
	}
	if !status[2].UpdatedAt.IsZero() {
		t.Errorf("a lane that was never settled: %+v", status[2])
	}
	settled.Table.Name = "postgresql/app/public.other"
	settle(t, store, settled)
	if status, err = store.Lanes(t.Context()); err != nil || status[0].Table.Name != settled.Table.Name {
		t.Errorf("after a settle from elsewhere: %+v, %v", status, err)
	}
}

// A route belongs to one table: of two services that share a store the second one
// gets an error that names both tables, and nothing of the first's is changed.
func testOneTableForARoute(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1)
	mine, theirs := adapters.Table{Cluster: "c", Name: "mine"}, adapters.Table{Cluster: "c", Name: "theirs"}
	for range 2 {
		if err := store.Bind(t.Context(), "r", mine); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(table adapters.Table) {
		t.Helper()
		other, ok := errors.AsType[*adapters.OtherTable](store.Bind(t.Context(), "r", table))
		if !ok || other.Cursor != mine || other.Source != table {
			t.Errorf("as %v: %+v", table, other)
		}
	}
	refused(theirs) // before the first settle, too
	refused(adapters.Table{Cluster: "d", Name: "mine"})
	for _, l := range acquire(t, store, "a", 0, 1) {
		if l.Table != mine || !l.New {
			t.Errorf("got %+v", l)
		}
		lanes[l.Slot] = l
	}
	acquire(t, store, "a", 2) // a row of which it is not known
	if err := store.Bind(t.Context(), "r", adapters.Table{Cluster: "c"}); err != nil {
		t.Errorf("a source without a name: %v", err)
	}
	settled := at(lanes[0], 5)
	settled.Table = mine
	settle(t, store, settled)
	refused(theirs)
	move := adapters.Move{Route: "r", Cursors: map[int]adapters.Cursor{0: {}, 1: {}, 2: {}}, Table: theirs}
	if err := store.Move(t.Context(), move); err != nil {
		t.Fatal(err)
	}
	if err := store.Bind(t.Context(), "r", theirs); err != nil {
		t.Errorf("after a move: %v", err)
	}
	moved := adapters.Table{Cluster: "e", Name: "theirs"}
	move.Table, move.Same = moved, true
	if err := store.Move(t.Context(), move); err != nil {
		t.Fatal(err)
	}
	status, err := store.Lanes(t.Context())
	if err != nil || status[0].Table != moved || status[0].Former != "c" {
		t.Errorf("after it was moved with its data: %+v, %v", status, err)
	}
}

// A cursor row that is not as its owner left it, because the store was put back to an
// earlier state, is not overwritten: the owner's cursor does not follow from it.
func testARowPutBackIsFenced(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0)
	write := func(confirmed, revision, position int64) (fenced int) {
		t.Helper()
		s := at(lanes[0], position)
		s.Confirmed, s.Revision = confirmed, revision
		refs, err := store.Settle(t.Context(), []adapters.Settlement{s})
		if err != nil {
			t.Fatal(err)
		}
		return len(refs)
	}
	if n := write(0, 1, 10) + write(1, 2, 20) + write(1, 3, 30); n != 0 { // the answer to the second was lost
		t.Fatalf("%d settles were fenced", n)
	}
	if n := write(2, 2, 20); n != 0 { // puts it back
		t.Fatal("fenced")
	}
	if write(3, 4, 40) != 1 {
		t.Error("a settle overwrote a row that was put back")
	}
	owned, err := store.Renew(t.Context(), "a", longLease)
	if mark := owned[lanes[0].LaneRef]; err != nil || mark.Revision != 2 || mark.Epoch != lanes[0].Epoch {
		t.Errorf("a renewal says %+v, %v", mark, err)
	}
	if now := acquire(t, store, "a", 0)[0]; now.Cursor.Position != 20 || now.Revision != 2 {
		t.Errorf("durable is %+v", now)
	}
}
