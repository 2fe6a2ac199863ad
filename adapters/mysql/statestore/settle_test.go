package statestore_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

// A connection that is cut at the COMMIT leaves open whether a settle is written. The owner settles again, and finds out by
// that: it is written once, whatever came of the first.
func TestG1_ASettleWhoseAnswerIsLostIsRepeated(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	through, db := newCutter(t, url), connect(t, url)
	owner := joinedState(t, through.url, "a")
	lanes := acquireAll(t, owner, "a")[:2]
	for i, test := range []struct {
		statement string
		before    bool // the statement does not reach the server
		parks     bool
	}{
		{"UPDATE (SELECT", true, false}, {"UPDATE (SELECT", false, false}, {"COMMIT", true, true}, {"COMMIT", false, true}, {"INSERT INTO outrider_parked", false, true},
	} {
		position := int64(10 * (i + 1))
		settle := settlements(lanes, position)
		if test.parks {
			settle[0].Park = []adapters.Parked{{Seq: position, Group: "g", Status: adapters.ParkedWaiting, ID: strconv.Itoa(i)}}
		}
		cut := through.cutAt(test.statement, test.before)
		if _, err := owner.Settle(t.Context(), settle); err == nil {
			t.Fatalf("cut %d: settled without an answer", i)
		}
		<-cut
		if fenced, err := owner.Settle(t.Context(), settle); err != nil || len(fenced) != 0 {
			t.Fatalf("cut %d: settling again: fenced %v, %v", i, fenced, err)
		}
		if n := value[int](t, db, `SELECT count(*) FROM outrider_cursor WHERE position = ? AND revision = ?`, position, position); n != 2 {
			t.Errorf("cut %d: %d lanes are settled", i, n)
		}
		if n := value[int](t, db, `SELECT count(*) FROM outrider_parked WHERE seq = ?`, position); test.parks && n != 1 {
			t.Errorf("cut %d: %d rows are parked", i, n)
		}
	}
	if owned, err := owner.Renew(t.Context(), "a", time.Hour); err != nil || len(owned) != adapters.Slots {
		t.Errorf("renewed %d lanes, %v", len(owned), err)
	}
}

// At READ COMMITTED a settle that waits for the row compares the epoch that its new owner has committed meanwhile.
func TestG3_ASettleThatWaitsForTheRowIsFencedByWhoTakesIt(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	owner, db := joinedState(t, url, "a"), connect(t, url)
	lanes := acquireAll(t, owner, "a")
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `UPDATE outrider_cursor SET owner = 'b', epoch = epoch + 1 WHERE slot < 3`); err != nil {
		t.Fatal(err)
	}
	fencedBy := make(chan []adapters.LaneRef, 2)
	for _, parks := range []bool{false, true} {
		settle := settlements(lanes, 7)
		if parks {
			settle[0].Park = []adapters.Parked{{Seq: 1, Group: "g", Status: adapters.ParkedDead, ID: "lost"}}
		}
		go func() {
			fenced, err := owner.Settle(t.Context(), settle)
			if err != nil {
				t.Error(err)
			}
			fencedBy <- fenced
		}()
	}
	for value[int](t, db, `SELECT count(*) FROM information_schema.processlist WHERE db = database() AND info LIKE 'UPDATE (SELECT%'`) < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if fenced := <-fencedBy; len(fenced) != 3 {
			t.Errorf("fenced %v, want the three lanes that were taken", fenced)
		}
	}
	if n := value[int](t, db, `SELECT count(*) FROM outrider_parked`); n != 0 {
		t.Errorf("%d rows of a fenced lane are parked", n)
	}
	if n := value[int](t, db, `SELECT count(*) FROM outrider_cursor WHERE slot < 3 AND position <> 0`); n != 0 {
		t.Errorf("%d lanes of another owner were settled", n)
	}
}

// Names that a collation takes for one are four routes and four groups.
func TestG2_NamesAreComparedByTheirBytes(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	owner := joinedState(t, url, "a")
	names := []string{"a", "A", "a ", "á"}
	for i, route := range names {
		lanes, err := owner.Acquire(t.Context(), "a", route, []int{0}, 1)
		if err != nil || len(lanes) != 1 || !lanes[0].New {
			t.Fatalf("route %q: %+v, %v", route, lanes, err)
		}
		s := settlements(lanes, int64(i+1))
		for seq, group := range names {
			s[0].Park = append(s[0].Park, adapters.Parked{Seq: int64(seq + 1), Group: group, Status: adapters.ParkedWaiting, ID: group})
		}
		if fenced, err := owner.Settle(t.Context(), s); err != nil || len(fenced) != 0 {
			t.Fatal(fenced, err)
		}
	}
	for _, route := range names {
		if groups, err := owner.ParkedGroups(t.Context(), route, []int{0}); err != nil || len(groups) != len(names) {
			t.Errorf("route %q has the groups %+v, %v", route, groups, err)
		}
		for _, group := range names {
			queue, err := owner.ParkedQueue(t.Context(), adapters.LaneRef{Route: route}, group, 0, 10, 1<<20)
			if err != nil || len(queue) != 1 || queue[0].Group != group {
				t.Errorf("group %q of route %q: %+v, %v", group, route, queue, err)
			}
		}
	}
}

// Lanes go to and fro among instances while others settle, pause and forget: conflicts cost a repetition, and no error.
func TestG3_LanesMoveUnderLoad(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	operator := joinedState(t, url, "operator")
	var all sync.WaitGroup
	for i := range 3 {
		name := fmt.Sprintf("i%d", i)
		state := joinedState(t, url, name)
		all.Go(func() {
			for round := range 15 {
				lanes, err := state.Acquire(t.Context(), name, "r", allSlots(), 6)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				s := settlements(lanes, int64(100*i+round+1))
				for j := range s {
					s[j].Revision, s[j].Confirmed = lanes[j].Revision+1, lanes[j].Revision
					s[j].Park = []adapters.Parked{{Seq: lanes[j].NextSeq, Group: "g", Status: adapters.ParkedDead, ID: "e"}}
					s[j].NextSeq = lanes[j].NextSeq + 1
				}
				if fenced, err := state.Settle(t.Context(), s); err != nil || len(fenced) != 0 {
					t.Errorf("%s: fenced %v of its own, %v", name, fenced, err)
				}
				refs := make([]adapters.LaneRef, len(lanes))
				for j := range lanes {
					refs[j] = lanes[j].LaneRef
				}
				if err := state.Release(t.Context(), name, refs); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	all.Go(func() {
		for range 15 {
			if _, err := operator.ChangeParked(t.Context(), adapters.ParkedCommand{Action: adapters.ParkedSkip, All: true}); err != nil {
				t.Error(err)
			}
			if _, err := operator.Lanes(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
}
