package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/testenv"
)

// operations lists operations, the newest first.
func (s *site) operations() []operate.OperationView {
	s.t.Helper()
	var list struct {
		Operations []operate.OperationView `json:"operations"`
	}
	r := s.call("operations", "list", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &list); err != nil {
		s.t.Fatalf("%v: %v", err, r)
	}
	return list.Operations
}

// An operation is left to a relay, stopped and resumed; a command without a relay works it itself.
func TestOperationsByCommand(t *testing.T) {
	t.Parallel()
	var accept atomic.Bool
	s := parkedSite(t, &accept)
	step{args: "operations", out: []string{"there are no operations"}}.run(t, s)
	step{args: "parked redrive a --detach", code: 2, err: []string{"--detach goes with a filter"}}.run(t, s)
	step{args: "parked redrive --all --limit 2 --yes --detach --by alice", out: []string{"2 messages to go", "outrider operations show "},
		err: []string{"no relay is running", "after the messages of its group"}}.run(t, s)
	id := s.operations()[0].ID
	for _, st := range []step{
		{args: "operations", out: []string{"ID", "LEFT", id + "  redrive  planned  0     0       2      -     alice"}},
		{args: "operations show " + id, out: []string{"about      all", "state      planned", "progress   0 of 2 messages", "by         alice"}},
		{args: "operations stop " + id + " --by bob", out: []string{"stopped: 0 of 2 messages redriven"}},
		{args: "operations stop " + id, out: []string{"is not running: it is stopped"}},
		{args: "operations list --active", out: []string{"there are no operations"}},
		{args: "operations resume " + id + " --detach", out: []string{"2 messages to go"}, err: []string{"no relay is running"}},
		{args: "operations stop none", code: 2, err: []string{"there is no such operation"}},
		{args: "operations show none", code: 2, err: []string{"there is no such operation"}},
		{args: "operations list --limit 0", code: 2, err: []string{"--limit must be at least 1"}},
	} {
		st.run(t, s)
	}
	accept.Store(true)
	s.runUntil(func() bool { return len(s.parked()) == 1 && s.operations()[0].State == "done" })
	for _, st := range []step{
		{args: "operations show " + id + " -o json", out: []string{`"done": 2`, `"remaining": 0`, `"all": true`}},
		{args: "operations resume " + id, code: 1, err: []string{"cannot be resumed: it is done"}},
		{args: "parked purge --error thanks --yes", out: []string{"1 message purged (operation "}},
	} {
		st.run(t, s)
	}
	if all := s.operations(); len(all) != 2 || all[0].Kind != "purge" || all[0].Done != 1 || all[0].State != "done" {
		t.Errorf("operations %+v", all)
	}
}

// killedSite is a relay's configuration on PostgreSQL whose route is paused, with so many dead
// messages, and a table that notes each row which an operation changes.
func killedSite(t *testing.T, source, dead, table string, n int) (s *site, conn *pgx.Conn) {
	t.Helper()
	address := testenv.Postgres(t)
	s = newSite(t, "")
	s.write(fmt.Sprintf(`
admin: {listen: off}
sources: {app: {type: postgres, url: %q, %s}}
destinations: {nowhere: {type: discard}}
routes: {orders: {from: app, to: nowhere}}
`, address, source))
	s.must("init")
	s.must("pause", "orders")
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{
		fmt.Sprintf(dead, n),
		`CREATE TABLE changed (key text)`,
		`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO public.changed SELECT coalesce(to_jsonb(r)->>'id', concat(to_jsonb(r)->>'slot', '/', to_jsonb(r)->>'seq')) FROM rows r; RETURN NULL; END $$`,
		`CREATE TRIGGER note AFTER UPDATE ON ` + table + ` REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION note()`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return s, conn
}

// A redrive whose relay is killed in the middle goes on with the next relay, and changes each
// message once: those in the state store, and dead rows of a queue's table, which commit on
// their own.
func TestG3_G13_AKilledOperationGoesOn(t *testing.T) {
	t.Parallel()
	const parked = `INSERT INTO outrider_parked (route, slot, seq, message_group, status, attempts, last_error, event_id, event_type, position, metadata, payload)
		SELECT 'orders', i %% 16, i, 'g-' || i, 'dead', 5, 'answers 422', 'e-' || i, 't', i, '{}', '{}' FROM generate_series(1, %d) i`
	const rows = `INSERT INTO outbox_events (id, type, message_group, payload, status, retry_count, created_at, error_message)
		SELECT 'e' || i, 'EVENT', 'g' || i, '{}', 'FAILED', 3, timestamp '2026-01-01' + i * interval '1 ms', 'answers 422' FROM generate_series(1, %d) i`
	for name, tt := range map[string]struct {
		source, dead, table, settled string
		n                            int
		kills                        []string
	}{
		"in the state store": {"layout: outrider", parked, "outrider_parked", "status = 'retrying' AND attempts = 0", testenv.Size(20_000, 1_000_000),
			[]string{"operation-step:1", "operation-step:7", fmt.Sprint("operation-step:", testenv.Size(20_000, 1_000_000)/adapters.DefaultParkedStep/2)}},
		"in a queue's table": {"layout: flowcatalyst", rows, "outbox_events", "status = 'PENDING' AND retry_count = 0", testenv.Size(5_000, 50_000),
			[]string{"operation-pending:1", "operation-changed:1", "operation-changed:2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, conn := killedSite(t, tt.source, tt.dead, tt.table, tt.n)
			s.must("parked", "redrive", "--all", "--yes", "--detach")
			for _, at := range tt.kills {
				p := s.startWith(failpoint.Env+"="+at, "run")
				select {
				case <-p.ended:
				case <-time.After(5 * time.Minute):
					t.Fatalf("not killed at %s: %+v\n%s", at, s.operations()[0], p.all())
				}
				o := s.operations()[0]
				if o.State != "running" || o.Done >= tt.n || o.Total != tt.n {
					t.Fatalf("after the kill at %s: %+v", at, o)
				}
				t.Logf("killed at %s: %d of %d", at, o.Done, o.Total)
			}
			begun := time.Now()
			s.runUntil(func() bool { return s.operations()[0].EndedAt != nil })
			t.Logf("the rest took %v", time.Since(begun).Round(time.Millisecond))
			var once, twice, settled int
			if err := conn.QueryRow(t.Context(), fmt.Sprintf(`SELECT (SELECT count(*) FROM (SELECT FROM changed GROUP BY key HAVING count(*) = 1) c),
				(SELECT count(*) FROM (SELECT FROM changed GROUP BY key HAVING count(*) > 1) c), (SELECT count(*) FROM %s WHERE %s)`, tt.table, tt.settled)).Scan(&once, &twice, &settled); err != nil {
				t.Fatal(err)
			}
			if o := s.operations()[0]; once != tt.n || twice != 0 || settled != tt.n || o.Done != tt.n || o.Failed != 0 {
				t.Errorf("of %d messages %d were redriven once, %d more often, %d are due: %+v", tt.n, once, twice, settled, o)
			}
		})
	}
}
