package adaptertest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// queueIDTests are about what operators name.
var queueIDTests = map[string]func(*testing.T, *queueSuite){
	"IDs":      testQueueIDs,
	"Groups":   testQueueGroups,
	"EmptyKey": testQueueEmptyKey,
}

// QueueIDs checks that an id names one row or none. The tables of the queue have dead rows with these ids, and no others; others are ids that
// a database may take for one of them. All rows are purged.
func QueueIDs(t *testing.T, q adapters.OperatorQueue, ids []string, others ...string) {
	t.Helper()
	slices.Sort(ids)
	var listed []string
	for f := (adapters.DeadFilter{Limit: 1}); len(listed) <= len(ids); {
		page, err := q.Dead(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		listed, f.After = append(listed, page[0].Row.ID), page[0].At
	}
	if slices.Sort(listed); !slices.Equal(listed, ids) {
		t.Fatalf("the dead rows are listed as %q, want %q", listed, ids)
	}
	for _, id := range others {
		if got := idsOf(t, q, id); len(got) > 0 {
			t.Errorf("id %q names %q", id, got)
		}
	}
	for i, id := range ids {
		if got := idsOf(t, q, id); !slices.Equal(got, []string{id}) {
			t.Errorf("id %q names %q", id, got)
		}
		page, err := q.Dead(t.Context(), adapters.DeadFilter{ID: id})
		if err != nil || len(page) != 1 {
			t.Fatalf("id %q names %d rows, %v", id, len(page), err)
		}
		action := []adapters.ParkedAction{adapters.ParkedPurge, adapters.ParkedRedrive}[i%2]
		n, err := q.ChangeDead(t.Context(), action, []adapters.DeadKey{page[0].At}, func(context.Context, int) error { return nil })
		if err != nil || n != 1 {
			t.Errorf("%s of %q changes %d rows, %v", action, id, n, err)
		}
		left, err := q.Dead(t.Context(), adapters.DeadFilter{})
		if err != nil || len(left) != len(ids)-1-i || slices.ContainsFunc(left, func(r adapters.DeadRow) bool { return r.Row.ID == id }) {
			t.Errorf("after %s of %q there are %d rows, %v", action, id, len(left), err)
		}
	}
}

// idsOf are the ids of the dead rows that an id names, which have to be those of the rows that are found.
func idsOf(t *testing.T, q adapters.OperatorQueue, id string) (ids []string) {
	t.Helper()
	page, err := q.Dead(t.Context(), adapters.DeadFilter{ID: id})
	if err != nil {
		t.Fatalf("id %q: %v", id, err)
	}
	all, err := q.Find(t.Context(), id, 10)
	if err != nil {
		t.Fatalf("find %q: %v", id, err)
	}
	for i := range page {
		ids = append(ids, page[i].Row.ID)
	}
	if len(all.Rows) != len(ids) {
		t.Errorf("id %q names %d dead rows, and finds %d", id, len(ids), len(all.Rows))
	}
	return ids
}

func testQueueIDs(t *testing.T, s *queueSuite) {
	rows := []QueueRow{s.row("a"), s.row("a"), s.row("a"), s.row("")}
	ids := make([]string, len(rows))
	for i := range rows {
		if rows[i].Status = QueueDead; i == 0 {
			rows[i].Key = "Row-a"
		}
		ids[i] = rows[i].Key
	}
	s.Insert(t, rows...)
	id, text := ids[1], ids[0]
	QueueIDs(t, s.Queue, ids, strings.TrimLeft(id, "0"), "0"+id, id[:len(id)-1], id+"x", id+" ", " "+id, id+".0", id+"e0", "1", "7f3c9a1e-1111-4222-8333-444455556666",
		strings.ToUpper(text), strings.ToLower(text), text+" ", "Row-á", "Row-%", "Row_a", "{}", "'"+text+"'", `"`+text+`"`)
}

// testQueueGroups: the groups that a filter selects are those of its name, with the table's prefix or without.
func testQueueGroups(t *testing.T, s *queueSuite) {
	groups := []string{"x", ":x", "X", "x ", "y:x", s.Prefixes[0] + "x"}
	want := map[string]int{}
	for _, g := range groups {
		row := s.row(g)
		row.Status = QueueDead
		s.Insert(t, row)
		for _, name := range slices.Compact([]string{g, s.Prefixes[0] + g}) {
			want[name]++
		}
	}
	all, err := s.Queue.Dead(t.Context(), adapters.DeadFilter{})
	if err != nil || len(all) != len(groups) {
		t.Fatalf("listed %d rows, %v", len(all), err)
	}
	for name, n := range want {
		page, err := s.Queue.Dead(t.Context(), adapters.DeadFilter{Group: name})
		if err != nil || len(page) != n {
			t.Errorf("group %q has %d rows, want %d, %v", name, len(page), n, err)
		}
		for i := range page {
			if g := page[i].Row.Group; g != name && g != s.Prefixes[0]+name {
				t.Errorf("group %q has a row of %q", name, cmp.Or(g, "none"))
			}
		}
	}
}

// testQueueEmptyKey: a list ends behind a row whose key is the empty text.
func testQueueEmptyKey(t *testing.T, s *queueSuite) {
	row := s.row("a")
	row.Key = ""
	s.Insert(t, row)
	page, err := s.Queue.WaitingByAge(t.Context(), adapters.DeadKey{}, 1)
	switch {
	case errors.Is(err, errors.ErrUnsupported): // the table has no index for it
	case err != nil || len(page) != 1:
		t.Fatalf("%d rows wait, %v", len(page), err)
	default:
		if page, err = s.Queue.WaitingByAge(t.Context(), page[0].At, 1); err != nil || len(page) > 0 {
			t.Errorf("then %d rows wait, %v", len(page), err)
		}
	}
	s.Set(t, QueueDead, 0, "")
	list, err := s.Queue.Dead(t.Context(), adapters.DeadFilter{Limit: 1})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d rows are dead, %v", len(list), err)
	}
	if list, err = s.Queue.Dead(t.Context(), adapters.DeadFilter{Limit: 1, After: list[0].At}); err != nil || len(list) > 0 {
		t.Errorf("then %d rows are dead, %v", len(list), err)
	}
}
