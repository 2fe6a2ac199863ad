package parkedgroup

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Groups come in the order in which they are due, each once, by its latest plan.
func TestGroupsAreDueInOrder(t *testing.T) {
	t.Parallel()
	woken := 0
	s := New(func() { woken++ })
	for i, name := range []string{"third", "first", "second", "gone", "held"} {
		s.Add(adapters.ParkedGroup{Slot: 3, Group: name, Count: i + 1, Due: soon.Add(time.Duration(10-i) * time.Second), Held: name == "held"}, false)
	}
	s.Again(s.All()[Key{Group: "first"}], time.Time{})
	s.Again(s.All()[Key{Group: "third"}], soon.Add(time.Minute))
	gone := s.All()[Key{Group: "gone"}]
	gone.Recount(0)
	if !s.Changed(gone) || len(s.All()) != 4 {
		t.Errorf("a group without rows is still known: %d groups", len(s.All()))
	}
	var got []string
	for {
		g, due, ok := s.Next()
		if !ok {
			break
		}
		got = append(got, g.Key.Group)
		if !due.Equal(g.Due()) {
			t.Errorf("%s is due at %v, not at %v", g.Key.Group, g.Due(), due)
		}
		if most := s.Load(g, 2); most > 2 || g.Limit() != 2 || g.State() != Loading {
			t.Errorf("%s: %d rows, limit %d, state %d", g.Key.Group, most, g.Limit(), g.State())
		}
	}
	if want := []string{"first", "second", "third"}; !slices.Equal(got, want) || woken != 6 {
		t.Errorf("due were %v after %d signals, want %v after 6", got, woken, want)
	}
}

// After an operator's command the counts are those that were read, with what is in the lane or being sent; groups that were not
// read have nothing else, and groups that are being read are left alone.
func TestReconcile(t *testing.T) {
	t.Parallel()
	f := newFixture(2)
	f.enterBoth()
	loading := f.Add(adapters.ParkedGroup{Slot: 3, Group: "loading", Count: 1}, false)
	if g, _, _ := f.Next(); g != loading {
		t.Fatal("the group that was added is not due")
	}
	f.Load(loading, 1)
	alone := f.Add(adapters.ParkedGroup{Slot: 3, FirstSeq: 9, Count: 1}, false)

	added, gone := f.Reconcile([]adapters.ParkedGroup{{Slot: 3, Group: "a", Count: 1, Due: soon}, {Slot: 3, Group: "b", Count: 5, Since: soon}},
		func(group string) bool { return group == "b" })
	if !slices.Equal(added, []string{"b"}) || !gone {
		t.Errorf("added %v, gone %v; want b, and the message without a group gone", added, gone)
	}
	if f.g.count != 3 || !f.g.Due().Equal(soon) {
		t.Errorf("%d rows, due %v; want one more than the two in the lane", f.g.count, f.g.Due())
	}
	want := map[Key]bool{f.g.Key: true, {Group: "b"}: true, loading.Key: true}
	for k := range maps.Keys(f.All()) {
		if !want[k] {
			t.Errorf("group %+v is still known", k)
		}
	}
	if b := f.All()[Key{Group: "b"}]; !b.Paused() || len(f.All()) != 3 || alone.State() != Empty {
		t.Errorf("b is paused: %v; %d groups, want 3", b.Paused(), len(f.All()))
	}
	if _, gone := f.Reconcile([]adapters.ParkedGroup{{Slot: 3, Group: "b", Count: 5}}, notPaused); gone || f.g.count != 2 {
		t.Errorf("gone %v, %d rows; want the two in the lane to be counted until they end", gone, f.g.count)
	}
}

func TestTheOldestWaitsForNoOperator(t *testing.T) {
	t.Parallel()
	s := New(func() {})
	if !s.Oldest().IsZero() {
		t.Error("there is an oldest message of no groups")
	}
	s.Add(adapters.ParkedGroup{Group: "held", Since: soon, Held: true, Count: 1}, false)
	s.Add(adapters.ParkedGroup{Group: "paused", Since: soon, Count: 1}, true)
	s.Add(adapters.ParkedGroup{Group: "unknown", Count: 1}, false)
	for i := range 3 {
		s.Add(adapters.ParkedGroup{Slot: 3, FirstSeq: int64(i + 1), Since: soon.Add(time.Duration(5-i) * time.Second), Count: 1}, false)
	}
	if got := s.Oldest(); !got.Equal(soon.Add(3 * time.Second)) {
		t.Errorf("the oldest is of %v, want %v", got, soon.Add(3*time.Second))
	}
}

// What could not be written is written with the next settle, under what came since.
func TestWritesAreRestored(t *testing.T) {
	t.Parallel()
	row := func(seq int64, attempts, was int) adapters.Parked {
		return adapters.Parked{LaneRef: adapters.LaneRef{Slot: 3}, Seq: seq, Attempts: attempts, Was: was}
	}
	var w Writes
	w.Put(row(1, 1, 0))
	w.Put(row(2, 1, 0))
	w.Remove(Row{3, 3})
	w.Remove(Row{4, 3})
	w.Acks, w.Memory, w.Published = []any{"a"}, 10, true
	failed := w.Take()
	if !w.Empty() || w.Published || w.Memory != 0 || w.Changes() != 4 || failed.Empty() {
		t.Fatalf("after Take %+v is left of %+v", w, failed)
	}
	w.Put(row(1, 2, 1)) // the table does not have attempt 1 yet
	w.Remove(Row{3, 2})
	w.Put(row(3, 5, 4)) // its row is there again
	w.Acks, w.Memory = []any{"b"}, 5
	w.Restore(failed)

	park, unpark := w.Of(3)
	got := map[int64][2]int{}
	for _, p := range park {
		got[p.Seq] = [2]int{p.Attempts, p.Was}
	}
	if want := map[int64][2]int{1: {2, 0}, 3: {5, 4}}; !maps.Equal(got, want) || !slices.Equal(unpark, []int64{2}) {
		t.Errorf("rows %v and removals %v, want %v and row 2", got, unpark, want)
	}
	if park, unpark = w.Of(4); len(park) != 0 || !slices.Equal(unpark, []int64{3}) {
		t.Errorf("slot 4: rows %v, removals %v", park, unpark)
	}
	if !slices.Equal(w.Acks, []any{"a", "b"}) || w.Memory != 15 || !w.Published {
		t.Errorf("acks %v, memory %d, published %v", w.Acks, w.Memory, w.Published)
	}
}

func TestCredits(t *testing.T) {
	t.Parallel()
	var c Credits[int64]
	if c.Take(7) != 0 {
		t.Error("the zero value has credits")
	}
	c.Give(7, 2)
	c.Give(7, 1)
	if n := c.Take(7); n != 3 || len(c) != 0 || c.Take(7) != 0 {
		t.Errorf("took %d, %d rows are left", n, len(c))
	}
}
