package statestore_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

// The store keeps its contract when settles go aside.
func TestStateConformanceAside(t *testing.T) {
	t.Parallel()
	adaptertest.StateStore(t, adaptertest.StateHarness{New: func(tb testing.TB) func() adapters.OperatorStore {
		url := testenv.Postgres(tb)
		return func() adapters.OperatorStore {
			s := openState(tb, statestore.Config{URL: url})
			s.SettleAside()
			return s
		}
	}})
}

// advance settles lanes at a position; its number is the revision.
func advance(lanes []adapters.LaneState, revision int64) []adapters.Settlement {
	all := settlements(lanes, 10*revision)
	for i := range all {
		all[i].NextSeq = 2
		all[i].Revision, all[i].Confirmed = revision, max(revision-1, 0)
	}
	return all
}

// settle settles, and fails if a lane is fenced.
func settle(t *testing.T, state *statestore.Store, all []adapters.Settlement) {
	t.Helper()
	if fenced, err := state.Settle(t.Context(), all); err != nil || len(fenced) > 0 {
		t.Fatalf("fenced %v, %v", fenced, err)
	}
}

// TestG8_SettlesAreFlatUnderAnOldSnapshot: dead versions of the rows cannot be removed, and are not walked over.
func TestG8_SettlesAreFlatUnderAnOldSnapshot(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	state := joinedState(t, statestore.Config{URL: dsn}, "a")
	lanes := acquireAll(t, state, "a")
	conn, held := connect(t, dsn), connect(t, dsn)
	old, err := held.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback(t.Context()) }()
	value[string](t, held, "SELECT pg_current_xact_id()::text")
	settles := int64(testenv.Size(1500, 20_000))
	for n := int64(1); n <= settles; n++ {
		settle(t, state, advance(lanes, n))
	}
	if _, err := conn.Exec(t.Context(), "ANALYZE outrider_settled, outrider_cursor"); err != nil { // as autovacuum does: there are few rows, and many dead versions
		t.Fatal(err)
	}
	// What is read to settle all lanes and to renew the lease, whatever has been settled before.
	const most = 40 * adapters.Slots
	for name, explain := range map[string]func() (string, error){
		"settle": func() (string, error) { return state.ExplainSettle(t.Context(), advance(lanes, settles+1)) },
		"renew":  func() (string, error) { return state.ExplainRenew(t.Context(), "a") },
	} {
		text, err := explain()
		if err != nil {
			t.Fatal(err)
		}
		var plans []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			} `json:"Plan"`
		}
		if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 {
			t.Fatalf("%s: %v", text, err)
		}
		if n := plans[0].Plan.Hit + plans[0].Plan.Read; n > most {
			t.Errorf("%s reads %d pages after %d settles, want at most %d", name, n, settles, most)
		} else {
			t.Logf("%s reads %d pages", name, n)
		}
	}
	if dead := value[int64](t, conn, "SELECT pg_relation_size('outrider_settled') / 8192"); dead < settles/4 {
		t.Errorf("outrider_settled has %d pages: nothing was settled aside, or dead versions were removed", dead)
	}
	for i, lane := range acquireAll(t, state, "a") {
		if lane.Cursor.Position != 10*settles || lane.Revision != settles {
			t.Errorf("lane %d came back as %+v", i, lane)
		}
	}
}

// Where progress was written last, it is found: by operators, by renewals, by the next owner, and by settles that go to the cursor row again.
func TestG1_ProgressAsideIsFound(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	state := joinedState(t, statestore.Config{URL: dsn}, "a")
	conn := connect(t, dsn)
	lanes := acquireAll(t, state, "a")
	check := func(when string, revision int64, aside int64) {
		t.Helper()
		status, err := state.Lanes(t.Context())
		marks, renewErr := state.Renew(t.Context(), "a", time.Hour)
		if err != nil || renewErr != nil || len(status) != len(lanes) {
			t.Fatalf("%s: %d lanes, %v, %v", when, len(status), err, renewErr)
		}
		for _, lane := range status {
			if lane.Cursor.Position != 10*revision || len(lane.Beyond) != lane.Slot || lane.UpdatedAt.IsZero() || marks[lane.LaneRef].Revision != revision {
				t.Errorf("%s: %+v, %+v", when, lane, marks[lane.LaneRef])
			}
		}
		if n := value[int64](t, conn, "SELECT count(*) FROM outrider_settled"); n != aside {
			t.Errorf("%s: %d rows aside, want %d", when, n, aside)
		}
	}
	state.SettleAside()
	settle(t, state, advance(lanes, 1)) // the first settle of a lane is in its cursor row
	check("never settled before", 1, 0)
	for n := int64(2); n <= 40; n++ {
		settle(t, state, advance(lanes, n))
	}
	check("aside", 40, adapters.Slots)
	all := advance(lanes, 41)
	all[3].Park = []adapters.Parked{{LaneRef: all[3].LaneRef, Seq: 1, Status: adapters.ParkedDead, ID: "e"}}
	all[3].Stored = 1
	settle(t, state, all)
	check("with a parked row", 41, adapters.Slots-1)
	state.SettleInPlace()
	settle(t, state, advance(lanes, 42))
	check("in place again", 42, 0)
	state.SettleAside()
	settle(t, state, advance(lanes, 43))
	check("aside again", 43, adapters.Slots)
	again := acquireAll(t, state, "a")
	check("acquired", 43, 0)
	for i, lane := range again {
		if lane.New || lane.Cursor.Position != 430 || lane.Revision != 43 || len(lane.Beyond) != lane.Slot || lane.NextSeq != 2 {
			t.Errorf("lane %d came back as %+v", i, lane)
		}
	}
}

// A lane that is lost is lost aside too, by whichever statement it was taken, also one of a build that knows no rows aside.
func TestG2_G3_SettlesAsideAreFenced(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]string{
		"acquired": `UPDATE outrider_cursor AS c SET owner = 'b', epoch = c.epoch + 1`,
		"moved":    `UPDATE outrider_cursor AS c SET position = 7, epoch = c.epoch + 1, commands = c.commands + 1, owner = NULL`,
		"deleted":  `DELETE FROM outrider_cursor`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.Postgres(t)
			state := joinedState(t, statestore.Config{URL: dsn}, "a")
			lanes := acquireAll(t, state, "a")
			settle(t, state, advance(lanes, 1))
			state.SettleAside()
			settle(t, state, advance(lanes, 2))
			conn := connect(t, dsn)
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), take); err != nil {
				t.Fatal(err)
			}
			answer := make(chan []adapters.LaneRef, 1)
			go func() { // waits for the lock of the one that takes the lanes
				fenced, err := state.Settle(t.Context(), advance(lanes, 3))
				if err != nil {
					t.Error(err)
				}
				answer <- fenced
			}()
			awaitLockWait(t, dsn)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if fenced := <-answer; len(fenced) != len(lanes) {
				t.Errorf("%d lanes fenced", len(fenced))
			}
			rows, err := conn.Query(t.Context(), "SELECT DISTINCT position FROM outrider_cursor")
			if err != nil {
				t.Fatal(err)
			}
			positions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if want := map[string][]int64{"acquired": {20}, "moved": {7}}[name]; err != nil || !slices.Equal(positions, want) {
				t.Errorf("positions %v, want %v, %v", positions, want, err)
			}
			if n := value[int64](t, conn, "SELECT count(*) FROM outrider_settled"); n > 0 {
				t.Errorf("%d rows are left", n)
			}
		})
	}
}

// A settle whose answer did not come may still be under way. The next one waits for it, and is not fenced.
func TestG3_ASettleAsideWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	state := joinedState(t, statestore.Config{URL: dsn}, "a")
	lanes := acquireAll(t, state, "a")
	settle(t, state, advance(lanes, 1))
	state.SettleAside()
	settle(t, state, advance(lanes, 2))
	conn := connect(t, dsn)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE outrider_settled SET revision = 16, part = 1"); err != nil {
		t.Fatal(err)
	}
	answer := make(chan []adapters.LaneRef, 1)
	go func() {
		all := advance(lanes, 17)
		for i := range all {
			all[i].Confirmed = 2
		}
		fenced, err := state.Settle(t.Context(), all)
		if err != nil {
			t.Error(err)
		}
		answer <- fenced
	}()
	awaitLockWait(t, dsn)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if fenced := <-answer; len(fenced) > 0 {
		t.Errorf("fenced %v", fenced)
	}
	for _, lane := range acquireAll(t, state, "a") {
		if lane.Cursor.Position != 170 || lane.Revision != 17 {
			t.Errorf("came back as %+v", lane)
		}
	}
}

// awaitLockWait waits until a session waits for another's lock.
func awaitLockWait(t *testing.T, dsn string) {
	t.Helper()
	conn := connect(t, dsn)
	for !value[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())") {
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("nothing waits")
		}
	}
}

// A row that was restored to an earlier state is not the one that its owner knows, also if it is aside.
func TestG1_ARestoredRowAsideIsFenced(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	state := joinedState(t, statestore.Config{URL: dsn}, "a")
	lanes := acquireAll(t, state, "a")
	settle(t, state, advance(lanes, 1))
	state.SettleAside()
	for n := int64(2); n <= 5; n++ {
		settle(t, state, advance(lanes, n))
	}
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), "UPDATE outrider_settled SET revision = 3, position = 30 WHERE slot = 2"); err != nil {
		t.Fatal(err)
	}
	fenced, err := state.Settle(t.Context(), advance(lanes, 6))
	if err != nil || len(fenced) != 1 || fenced[0].Slot != 2 {
		t.Errorf("fenced %v, %v", fenced, err)
	}
	if position := acquireAll(t, state, "a")[2].Cursor.Position; position != 30 {
		t.Errorf("the lane continues at %d", position)
	}
}
