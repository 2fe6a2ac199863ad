package queuetable

import (
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

func newFlowCatalystV2(t *testing.T) *queueEnv {
	t.Helper()
	e := newQueueEnv(t).preset(t, layout.FlowCatalystV2())
	_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
	pgtest.Must(t, err)
	return e
}

func (e *queueEnv) message(id, typ string, group any, payload string) {
	e.t.Helper()
	e.exec(e.sql(e.tables[0].Name, `INSERT INTO {t} (id, type, message_group, payload, created_at) VALUES ($1, $2, $3, $4, clock_timestamp())`), id, typ, group, payload)
}

// A dead row has the status of what it died of; all of them are dead rows for operators, and so are those
// that the original gave up.
func TestFlowCatalystV2HasAStatusForEachFailure(t *testing.T) {
	t.Parallel()
	e := newFlowCatalystV2(t)
	causes := map[string]string{"BAD_REQUEST": "2", "permanent": "2", "INTERNAL_ERROR": "3", "UNAUTHORIZED": "4", "FORBIDDEN": "5", "GATEWAY_ERROR": "6",
		"transient": "3", "": "3"}
	for cause := range causes {
		e.message("a"+cause, "EVENT", "g"+cause, `{"type":"t"}`)
	}
	q := opened(t, e)
	for _, row := range claimAll(t, q) {
		settle(t, q, adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDead, Attempts: 3, Error: "no", Cause: row.ID[1:]})
	}
	for cause, want := range causes {
		var status string
		pgtest.Must(t, e.pool.QueryRow(e.ctx, e.sql(e.tables[0].Name, `SELECT {status}::text FROM {t} t WHERE {key} = $1`), "a"+cause).Scan(&status))
		if status != want {
			t.Errorf("died of %q: status %s, want %s", cause, status, want)
		}
	}
	dead, err := q.Dead(e.ctx, adapters.DeadFilter{})
	if err != nil || len(dead) != len(causes) || dead[0].Row.Kind != "EVENT" || dead[0].Row.Type != "t" {
		t.Fatalf("%d dead rows are found, want %d: %v, %+v", len(dead), len(causes), err, dead)
	}
	var keys []adapters.DeadKey
	for _, r := range dead {
		keys = append(keys, r.At)
	}
	if n, err := q.ChangeDead(e.ctx, adapters.ParkedRedrive, keys, unrecorded); n != len(keys) || err != nil {
		t.Errorf("%d were redriven, %v", n, err)
	}
	if rows := claimAll(t, q); len(rows) != len(causes) {
		t.Errorf("%d are claimed again, want %d", len(rows), len(causes))
	}
	if found := findings(t, q); strings.Contains(found, "no index finds them") {
		t.Errorf("the doctor misses the index of dead rows:\n%s", found)
	}
}

// The kind is the row's: types are in one order, the group is the column's, and what has none, or an empty one,
// is in no order.
func TestG2_FlowCatalystV2GroupsHaveRowsOfAllTypes(t *testing.T) {
	t.Parallel()
	e := newFlowCatalystV2(t)
	e.message("1", "DISPATCH_JOB", "order-1", `{}`)
	e.message("2", "EVENT", "order-1", `{"type":"order.created"}`)
	e.message("3", "AUDIT_LOG", "order-1", `{}`)
	e.message("4", "EVENT", nil, `{}`)
	e.message("5", "EVENT", "", `{}`)
	q := opened(t, e)
	got := map[string]*adapters.Row{}
	var inGroup []string
	for _, row := range claimAll(t, q) {
		got[row.ID] = row
		if row.Group == "order-1" {
			inGroup = append(inGroup, row.Kind+"/"+row.Type)
		}
	}
	if want := "DISPATCH_JOB/DISPATCH_JOB, EVENT/order.created, AUDIT_LOG/AUDIT_LOG"; strings.Join(inGroup, ", ") != want {
		t.Errorf("the group has %v, want %s", inGroup, want)
	}
	if len(got) != 5 || got["4"].Group != "" || got["5"].Group != "" {
		t.Errorf("claimed %+v", got)
	}
}

// What was delivered is kept with its status if the user says so.
func TestFlowCatalystV2KeepsWhatWasDelivered(t *testing.T) {
	t.Parallel()
	s := flowCatalystV2System
	e := newQueueEnv(t).preset(t, s.preset())
	e.layout.DoneIsDeleted = false
	_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
	pgtest.Must(t, err)
	s.compareRow(t, e, outbox.OutcomeDelivered, map[string]string{"status": "1", "updated_at": "now"})
}

// A row that somebody moved within the table since it was claimed, or whose claim was extended, is deleted, too; one that
// somebody else has taken is not.
func TestG3_FlowCatalystV2DeletesItsOwn(t *testing.T) {
	t.Parallel()
	e := newFlowCatalystV2(t)
	for _, id := range []string{"moved", "extended", "stolen"} {
		e.message(id, "EVENT", id, `{}`)
	}
	q := opened(t, e)
	claims := map[string]*adapters.Claim{}
	for _, row := range claimAll(t, q) {
		claims[row.ID] = row.Claim
	}
	e.each(`UPDATE {t} t SET headers = '{}' WHERE {key} = 'moved'`)
	if lost, err := q.Extend(e.ctx, []*adapters.Claim{claims["extended"]}); err != nil || len(lost) > 0 {
		t.Fatalf("extend: %v, %v", lost, err)
	}
	e.each(`UPDATE {t} t SET {set_claimed} = {claimed} + make_interval(secs => $1) WHERE {key} = 'stolen'`, time.Second.Seconds())
	var results []adapters.ClaimResult
	for _, c := range claims {
		results = append(results, adapters.ClaimResult{Claim: c, Outcome: outbox.OutcomeDelivered})
	}
	lost, err := q.Settle(e.ctx, results)
	if err != nil || len(lost) != 1 || lost[0] != claims["stolen"] {
		t.Errorf("lost %v, %v; want the stolen one", lost, err)
	}
	if rows := e.rows(); len(rows) != 1 || rows[0].Key != "stolen" {
		t.Errorf("%+v is left, want the stolen row", rows)
	}
}
