package adaptertest

import (
	"context"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// StateHarness makes the stores that [StateStore] tests.
type StateHarness struct {
	// New makes an empty database, gone when the test ends, and returns a
	// function that opens another store on it. The store is not migrated; what
	// open returned is closed by the suite.
	New func(tb testing.TB) (open func() adapters.OperatorStore)

	// SingleInstance: a second instance is refused.
	SingleInstance bool

	// Many is how many messages of a lane are parked at once. Default: 3000, for
	// which a statement with a parameter for each of their values has no room;
	// fewer do where each message is a statement of its own.
	Many int
}

// StateStore checks that a store keeps the contract of [adapters.StateStore]. The
// tests are subtests of t and run in parallel, each on a database of its own.
func StateStore(t *testing.T, h StateHarness) {
	tests := map[string]func(*testing.T, *stateDB){
		"MigrateTwice":              testMigrateTwice,
		"G13_MigrateCalledOff":      testMigrateCalledOff,
		"SettleRoundTrip":           testSettleRoundTrip,
		"G3_FenceStaleEpoch":        testFenceStaleEpoch,
		"G1_SettleIsAtomic":         testSettleIsAtomic,
		"SettleRefusesTwins":        testSettleRefusesTwins,
		"FenceWhileSettling":        testFenceWhileSettling,
		"AcquireOnlyGivenSlots":     testAcquireOnlyGivenSlots,
		"JoinFirst":                 testJoinFirst,
		"G3_RenewalsAreOfNow":       testRenewalsAreOfNow,
		"Announce":                  testAnnounce,
		"RemoveInstance":            testRemoveInstance,
		"AcquireAtMost":             testAcquireAtMost,
		"AcquireRoutes":             testAcquireRoutes,
		"LeaveReleases":             testLeaveReleases,
		"ParkReplaceUnpark":         testParkReplaceUnpark,
		"G13_SkippedStaysSkipped":   testSkippedStaysSkipped,
		"G2_ParkedQueueOrder":       testParkedQueueOrder,
		"G7_ParkedPayloadsFit":      testParkedPayloadsFit,
		"G13_RedrivenStaysRedriven": testRedrivenStaysRedriven,
		"ParkedGroups":              testParkedGroups,
		"G1_ParkedKeepsAnyBytes":    testParkedKeepsAnyBytes,
		"ParkMany":                  testParkMany,
		"FailuresAreGrouped":        testFailuresAreGrouped,
		"ListParkedFilters":         testListParkedFilters,
		"Redrive":                   testRedrive,
		"Skip":                      testSkip,
		"Purge":                     testPurge,
		"CommandsInSteps":           testCommandsInSteps,
		"CommandsNeedAFilter":       testCommandsNeedAFilter,
		"CommandsWhileSettling":     testCommandsWhileSettling,
		"LanesStatus":               testLanesStatus,
		"LanesTellWhatTheyRead":     testLanesTellWhatTheyRead,
		"SettleSurvivesCancelled":   testSettleCancelled,
		"PauseAndResume":            testPauseAndResume,
		"PauseOfAnAddress":          testPauseOfAnAddress,
		"PauseOfAGroup":             testPauseOfAGroup,
		"ReleaseSomeLanes":          testReleaseSomeLanes,
		"G3_MoveFencesTheOwner":     testG3MoveFencesTheOwner,
		"G1_OneTableForARoute":      testOneTableForARoute,
		"G1_ARowPutBackIsFenced":    testARowPutBackIsFenced,
		"Forget":                    testForget,
		"OperationRoundTrip":        testOperationRoundTrip,
		"OperationHasOneWorker":     testOperationHasOneWorker,
		"OperationStopAndResume":    testOperationStopAndResume,
		"OperationInSteps":          testOperationInSteps,
		"OperationMoves":            testOperationMoves,
	}
	if h.SingleInstance {
		tests["SecondInstanceRefused"] = testSecondInstanceRefused
		tests["DeadInstanceReplaced"] = testDeadInstanceReplaced
	} else {
		tests["LivingOwnerKeepsLanes"] = testLivingOwnerKeepsLanes
		tests["LeaseExpires"] = testLeaseExpires
		tests["RenewTellsLostLanes"] = testRenewTellsLostLanes
		tests["OperationOfADeadInstance"] = testOperationOfADeadInstance
		tests["AcquireRace"] = testAcquireRace
		tests["InstancesSeeEachOther"] = testInstancesSeeEachOther
		tests["AnInstanceWithoutLeaseIsDead"] = testInstanceWithoutLease
		tests["G3_LanesAreHandedOver"] = testLanesAreHandedOver
		tests["G3_AReturningOwnerIsFenced"] = testReturningOwnerIsFenced
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &stateDB{tb: t, open: h.New(t), many: h.Many})
		})
	}
}

// longLease never ends during a test.
const longLease = time.Hour

// stateDB is the database of one test.
type stateDB struct {
	tb   testing.TB
	open func() adapters.OperatorStore
	many int // see StateHarness
}

// store opens a migrated store.
func (d *stateDB) store() adapters.OperatorStore {
	d.tb.Helper()
	store := d.open()
	d.tb.Cleanup(func() { _ = store.Close() }) // some tests close it themselves
	if err := store.Migrate(d.tb.Context()); err != nil {
		d.tb.Fatalf("migrate: %v", err)
	}
	return store
}

// joined opens a store that joined as the instance.
func (d *stateDB) joined(instance string) adapters.OperatorStore {
	d.tb.Helper()
	store := d.store()
	if err := store.Join(d.tb.Context(), instance, longLease); err != nil {
		d.tb.Fatalf("join as %s: %v", instance, err)
	}
	return store
}

// acquired opens a store that joined as "a" and owns the slots of route "r".
func (d *stateDB) acquired(slots ...int) (adapters.OperatorStore, []adapters.LaneState) {
	d.tb.Helper()
	store := d.joined("a")
	lanes := acquire(d.tb, store, "a", slots...)
	if len(lanes) != len(slots) {
		d.tb.Fatalf("acquired %d lanes of %d", len(lanes), len(slots))
	}
	return store, lanes
}

func acquire(tb testing.TB, store adapters.OperatorStore, instance string, slots ...int) []adapters.LaneState {
	tb.Helper()
	lanes, err := store.Acquire(tb.Context(), instance, "r", slots, adapters.Slots)
	if err != nil {
		tb.Fatalf("acquire as %s: %v", instance, err)
	}
	return sortLanes(lanes)
}

// settle settles and requires that nothing was fenced.
func settle(tb testing.TB, store adapters.OperatorStore, settlements ...adapters.Settlement) {
	tb.Helper()
	fenced, err := store.Settle(tb.Context(), settlements)
	if err != nil || len(fenced) > 0 {
		tb.Fatalf("settle: fenced %v, error %v", fenced, err)
	}
}

// at is a settlement of the lane at a position.
func at(lane adapters.LaneState, position int64) adapters.Settlement {
	return adapters.Settlement{
		LaneRef: lane.LaneRef, Epoch: lane.Epoch, NextSeq: lane.NextSeq,
		Cursor: adapters.Cursor{Position: position},
	}
}

// parking is a settlement of the lane that parks the messages.
func parking(lane adapters.LaneState, parked ...adapters.Parked) adapters.Settlement {
	s := at(lane, 1)
	s.Park = parked
	for i := range parked {
		s.NextSeq = max(s.NextSeq, parked[i].Seq+1)
	}
	return s
}

// parked is a parked message with every field that must be there.
func parked(seq int64, group string, status adapters.ParkedStatus) adapters.Parked {
	return adapters.Parked{
		Seq: seq, Group: group, Status: status, ID: "id", Type: "t",
		Metadata: map[string]string{}, Payload: []byte("{}"),
	}
}

// list returns what the filter selects, all of it.
func list(tb testing.TB, store adapters.OperatorStore, f adapters.ParkedFilter) []adapters.Parked {
	tb.Helper()
	f.Limit = 100_000
	messages, err := store.ListParked(tb.Context(), f, 1<<40)
	if err != nil {
		tb.Fatalf("list parked: %v", err)
	}
	return messages
}

func seqsOf(messages []adapters.Parked) []int64 {
	seqs := make([]int64, len(messages))
	for i := range messages {
		seqs[i] = messages[i].Seq
	}
	return seqs
}

// eventually calls f until it is true; only the test's end bounds it.
func eventually(tb testing.TB, what string, f func(ctx context.Context) bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !f(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("%s: not within a minute", what)
		}
	}
}
