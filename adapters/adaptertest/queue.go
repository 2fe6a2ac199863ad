package adaptertest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// QueueHarness is a queue under test and the tables that it works on, empty at
// the beginning. Functions that are nil say that the layout has no such thing;
// the tests that need it are skipped.
type QueueHarness struct {
	// Queue works on the tables. The suite closes it.
	Queue adapters.OperatorQueue

	// Open returns another queue on the same tables, as another process has it.
	// The suite closes it.
	Open func(t *testing.T) adapters.OperatorQueue

	// Tables are the names that claims have, and the prefix with which the
	// groups of a table begin ("EVENT:").
	Tables   []string
	Prefixes []string

	// DefaultGroup is the group of rows without one; empty: they want no order.
	DefaultGroup string

	// Claimless: the tables have no status for rows that are being processed. Then Own makes the next owner of
	// lanes of the route "suite" and returns their epoch, as a state store does; nil: settling does not ask for epochs.
	Claimless bool
	Own       func(t *testing.T, slots ...int) (epoch int64)

	// RetriesOnly: the table counts retries, not failed attempts, so that a dead
	// row has one less.
	RetriesOnly bool

	// Insert writes the rows in one transaction, waiting and without attempts.
	Insert func(t *testing.T, rows ...QueueRow)

	// InsertLate writes the rows and returns with the transaction open.
	InsertLate func(t *testing.T, rows ...QueueRow) (commit func())

	// Rows returns the content of the tables, as an independent query of the
	// database finds it.
	Rows func(t *testing.T) []QueueRow

	// Set changes rows as another processor or an operator would: to a status,
	// marked since so long.
	Set func(t *testing.T, status QueueStatus, since time.Duration, keys ...string)

	// Lock locks rows in another transaction.
	Lock func(t *testing.T, keys ...string) (release func())

	// Retaining opens a queue on the tables that removes old delivered rows, for which it makes what is needed. The suite closes it.
	Retaining func(t *testing.T) adapters.OperatorQueue

	// Refuse has the tables refuse that the row of a key is done.
	Refuse func(t *testing.T, key string) (mend func())

	// Timeout is after how long rows are stuck.
	Timeout time.Duration

	// Precision is how exactly a table keeps when rows were created. Default: milliseconds.
	Precision time.Duration
}

// QueueRow is a row of a queue table.
type QueueRow struct {
	Table     string
	Key       string
	Type      string
	Group     string // empty: NULL
	Payload   string
	CreatedAt time.Time
	Status    QueueStatus
	Attempts  int
	Error     string
}

// QueueStatus is the status of a row.
type QueueStatus string

// The statuses that every layout has.
const (
	QueueWaiting    QueueStatus = "waiting"
	QueueProcessing QueueStatus = "processing"
	QueueDone       QueueStatus = "done"
	QueueDead       QueueStatus = "dead"
)

// Queue checks that a queue keeps the contract of [adapters.Queue]. The tests are
// subtests of t and run in parallel, each on tables of its own.
func Queue(t *testing.T, setup func(t *testing.T) QueueHarness) {
	tests := map[string]func(*testing.T, *queueSuite){}
	for _, part := range []map[string]func(*testing.T, *queueSuite){queueClaimTests, queueRequestTests, queueLaneTests, queueSettleTests, queueForeignTests,
		queueClaimlessTests, queueIDTests, queueRetentionTests} {
		maps.Copy(tests, part)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &queueSuite{QueueHarness: setup(t), born: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
			s.closeAfter(t, s.Queue)
			s.own(t, allSlots()...)
			test(t, s)
		})
	}
}

// queueSuite is a harness with what the tests share.
type queueSuite struct {
	QueueHarness
	born time.Time // of the rows that event makes: each a moment after the one before
	made int

	epochs [adapters.Slots]int64 // of lanes, without claims
}

// own makes a next owner of lanes, in tables without claims.
func (s *queueSuite) own(t *testing.T, slots ...int) {
	t.Helper()
	if s.Own == nil {
		return
	}
	epoch := s.Own(t, slots...)
	for _, slot := range slots {
		s.epochs[slot] = epoch
	}
}

// result is the settlement of a row by the owner of its lane.
func (s *queueSuite) result(row *adapters.Row, outcome outbox.Outcome) adapters.ClaimResult {
	return adapters.ClaimResult{Claim: row.Claim, Outcome: outcome, Attempts: row.Claim.Attempts,
		Lane: adapters.LaneRef{Route: "suite", Slot: row.Slot}, Epoch: s.epochs[row.Slot]}
}

// claimed is the status of rows that are held.
func (s *queueSuite) claimed() QueueStatus {
	if s.Claimless {
		return QueueWaiting
	}
	return QueueProcessing
}

// needsClaims skips a test of what tables say about claims.
func (s *queueSuite) needsClaims(t *testing.T) {
	t.Helper()
	if s.Claimless {
		t.Skip("the tables do not say what is being processed")
	}
}

func (s *queueSuite) closeAfter(t *testing.T, q adapters.OperatorQueue) {
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// row makes the next row of a group, in the first table.
func (s *queueSuite) row(group string) QueueRow {
	s.made++
	key := fmt.Sprintf("%013d", s.made)
	return QueueRow{
		Table: s.Tables[0], Key: key, Type: "suite.happened", Group: group, Status: QueueWaiting,
		Payload: fmt.Sprintf(`{"type": "suite.happened", "n":  %d}`, s.made), CreatedAt: s.born.Add(time.Duration(s.made) * cmp.Or(s.Precision, time.Millisecond)),
	}
}

// insert makes and inserts a row for each group given.
func (s *queueSuite) insert(t *testing.T, groups ...string) []QueueRow {
	t.Helper()
	rows := make([]QueueRow, len(groups))
	for i, g := range groups {
		rows[i] = s.row(g)
	}
	s.Insert(t, rows...)
	return rows
}

// gate is the group that the messages of a row have.
func (s *queueSuite) gate(r *QueueRow) string {
	group := cmp.Or(r.Group, s.DefaultGroup)
	if group == "" {
		return ""
	}
	return s.Prefixes[slices.Index(s.Tables, r.Table)] + group
}

// allSlots are all lanes.
func allSlots() []int {
	slots := make([]int, adapters.Slots)
	for i := range slots {
		slots[i] = i
	}
	return slots
}

// claim claims once, and checks what holds for every claim.
func (s *queueSuite) claim(t *testing.T, q adapters.OperatorQueue, r adapters.ClaimRequest) []*adapters.Row {
	t.Helper()
	if r.Slots == nil {
		r.Slots = allSlots()
	}
	if r.Limit == 0 {
		r.Limit = 1000
	}
	rows, err := q.Claim(t.Context(), r)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	groups := map[string]int{}
	for _, row := range rows {
		if row.Claim == nil || row.Claim.Key != row.ID || !slices.Contains(s.Tables, row.Claim.Table) {
			t.Errorf("row %s has the claim %+v", row.ID, row.Claim)
		}
		if row.Slot < 0 || row.Slot >= adapters.Slots || !slices.Contains(r.Slots, row.Slot) {
			t.Errorf("row %s is of slot %d, which was not asked for", row.ID, row.Slot)
		}
		if groups[row.Group]++; row.Group != "" && r.PerGroup > 0 && groups[row.Group] > r.PerGroup {
			t.Errorf("more than %d rows of group %s", r.PerGroup, row.Group)
		}
		if row.Group != "" && slices.Contains(r.Except, row.Group) {
			t.Errorf("row %s is of group %s, which was left out", row.ID, row.Group)
		}
	}
	if len(rows) > r.Limit {
		t.Errorf("%d rows for a limit of %d", len(rows), r.Limit)
	}
	return rows
}

// claimAll claims, without settling, until nothing comes any more.
func (s *queueSuite) claimAll(t *testing.T, q adapters.OperatorQueue, r adapters.ClaimRequest) []*adapters.Row {
	t.Helper()
	var all []*adapters.Row
	for {
		rows := s.claim(t, q, r)
		if len(rows) == 0 {
			return all
		}
		all = append(all, rows...)
	}
}

// claimSoon claims until as many rows have come as are wanted: once a claim has
// found nothing, what comes then need not be found by the very next one.
func (s *queueSuite) claimSoon(t *testing.T, q adapters.OperatorQueue, r adapters.ClaimRequest, want int) []*adapters.Row {
	t.Helper()
	var all []*adapters.Row
	for end := time.Now().Add(maxWait); len(all) < want; {
		all = append(all, s.claim(t, q, r)...)
		if time.Now().After(end) {
			t.Fatalf("%d of %d rows were claimed within %s", len(all), want, maxWait)
		}
	}
	return all
}

// settle writes one outcome for all rows and wants none to be lost.
func (s *queueSuite) settle(t *testing.T, q adapters.OperatorQueue, outcome outbox.Outcome, rows ...*adapters.Row) {
	t.Helper()
	results := make([]adapters.ClaimResult, len(rows))
	for i, row := range rows {
		results[i] = s.result(row, outcome)
		if outcome == outbox.OutcomeRetry || outcome == outbox.OutcomeDead {
			results[i].Attempts, results[i].Error = row.Claim.Attempts+1, "it failed"
		}
	}
	lost, err := q.Settle(t.Context(), results)
	if err != nil || len(lost) > 0 {
		t.Fatalf("settle as %s: %d of %d lost, %v", outcome, len(lost), len(rows), err)
	}
}

// keys returns the keys of rows, by group; rows without one sorted.
func keys(rows []*adapters.Row) map[string][]string {
	byGroup := map[string][]string{}
	for _, row := range rows {
		byGroup[row.Group] = append(byGroup[row.Group], row.ID)
	}
	slices.Sort(byGroup[""])
	return byGroup
}

// want requires just these rows, those of each group in this order.
func (s *queueSuite) want(t *testing.T, got []*adapters.Row, want ...QueueRow) {
	t.Helper()
	wanted := map[string][]string{}
	for i := range want {
		gate := s.gate(&want[i])
		wanted[gate] = append(wanted[gate], want[i].Key)
	}
	slices.Sort(wanted[""])
	if found := keys(got); !maps.EqualFunc(found, wanted, slices.Equal) && (len(got) > 0 || len(want) > 0) {
		t.Fatalf("claimed %v, want %v", found, wanted)
	}
}

// wantStatus requires a status of rows in the database.
func (s *queueSuite) wantStatus(t *testing.T, status QueueStatus, keys ...string) {
	t.Helper()
	found := map[string]QueueStatus{}
	for _, row := range s.Rows(t) {
		found[row.Key] = row.Status
	}
	for _, key := range keys {
		if found[key] != status {
			t.Errorf("row %s is %q, want %q", key, found[key], status)
		}
	}
}
