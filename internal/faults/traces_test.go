package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/faults/model"
	"github.com/outriderhq/outrider/internal/testenv"
)

// traceSQL records what transactions do, in themselves.
const traceSQL = `
CREATE TABLE trace (seq bigserial PRIMARY KEY, xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint, kind text NOT NULL, doc jsonb NOT NULL);
CREATE FUNCTION trace_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.trace (kind, doc) VALUES (TG_ARGV[0], jsonb_build_object('id', NEW.id, 'position', NEW.position, 'group', NEW.message_group, 'slot', NEW.slot));
    RETURN NULL;
END $$;
CREATE TRIGGER trace_insert AFTER INSERT ON outrider_outbox FOR EACH ROW EXECUTE FUNCTION trace_row('insert');
CREATE CONSTRAINT TRIGGER trace_commit AFTER INSERT ON outrider_outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trace_row('commit');
CREATE FUNCTION trace_cursor() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.trace (kind, doc) VALUES ('cursor', to_jsonb(NEW));
    RETURN NULL;
END $$;
CREATE TRIGGER trace_cursor AFTER INSERT OR UPDATE ON outrider_cursor FOR EACH ROW EXECUTE FUNCTION trace_cursor();
CREATE FUNCTION trace_parked() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE p public.outrider_parked := coalesce(NEW, OLD); BEGIN
    INSERT INTO public.trace (kind, doc) VALUES ('parked', jsonb_build_object('op', TG_OP, 'slot', p.slot, 'event_id', p.event_id, 'status', p.status));
    RETURN NULL;
END $$;
CREATE TRIGGER trace_parked AFTER INSERT OR UPDATE OR DELETE ON outrider_parked FOR EACH ROW EXECUTE FUNCTION trace_parked()`

// traced is two relays of one database, whose every step is recorded.
type traced struct {
	t       *testing.T
	db      *database
	to      *receiver
	config  string
	groups  []string
	relays  []*relay
	started int
	begin   int64 // the last record of the traces before

	mu       sync.Mutex
	failures map[string]int // to come, by id
	doomed   int            // messages that are to fail soon
}

// Short runs of two relays that crash, freeze, lose connections and get commands, step by step against the rules of the model.
func TestG1_G2_G3_TracesKeepTheRules(t *testing.T) {
	t.Parallel()
	tr := newTraced(t)
	total := map[string]int{}
	want := []string{"late row below a settled one", "settled above an open transaction", "lane taken from another", "parked", "delivered from parking", "dead", "drop", "redrive"}
	if traces() >= 10*len(disturbances) {
		want = append(want, "lane acquired with parked rows", "delivered twice", "sent by a former owner")
	}
	events, checked, made := 0, 0, 0
	// What is left to chance may need more traces on a machine that is busy.
	for missing := want; made < traces() || len(missing) > 0 && made < 5*traces(); made++ {
		trace := tr.run(made)
		plan, e, err := model.Translate(trace)
		must(t, err)
		if _, err := model.Replay(plan, e); err != nil {
			t.Fatalf("trace %d: %v; the trace is in %s", made, err, keep(t, trace))
		}
		for what, n := range model.Seen(plan, e) {
			total[what] += n
		}
		missing = slices.DeleteFunc(slices.Clone(want), func(what string) bool { return total[what] > 0 })
		events += len(e)
		if made == 0 {
			checked = refusesLess(t, plan, e)
		}
	}
	t.Logf("%d traces, %d events, %d changed ones refused: %v", made, events, checked, total)
	for _, what := range want {
		if total[what] == 0 {
			t.Errorf("%q has not occurred", what)
		}
	}
}

// traces is how many there are at least: OUTRIDER_TEST_TRACES, or a share.
func traces() int {
	if n, err := strconv.Atoi(os.Getenv("OUTRIDER_TEST_TRACES")); err == nil {
		return n
	}
	return testenv.Brief(len(disturbances), 3*len(disturbances))
}

// refusesLess leaves out events of which each is needed, one at a time, and returns how many of such traces were refused: all.
func refusesLess(t *testing.T, plan *model.Plan, events []model.Event) (n int) {
	t.Helper()
	taken := map[int]int{}
	for _, e := range events {
		if e.Kind == model.Send && e.OK {
			taken[e.Row]++
		}
	}
	for i, e := range events {
		needed := e.Kind == model.Commit && taken[e.Row] > 0 || e.Kind == model.Send && e.OK && taken[e.Row] == 1
		if !needed {
			continue
		}
		if _, err := model.Replay(plan, slices.Delete(slices.Clone(events), i, i+1)); err == nil {
			t.Errorf("the rules allow the trace without %+v", e)
		}
		n++
	}
	return n
}

// keep writes a trace as NDJSON.
func keep(t *testing.T, trace []model.Record) string {
	t.Helper()
	var text bytes.Buffer
	for _, r := range trace {
		must(t, json.NewEncoder(&text).Encode(r))
	}
	name := filepath.Join(os.TempDir(), fmt.Sprintf("outrider-trace-%d.ndjson", time.Now().UnixNano()))
	must(t, os.WriteFile(name, text.Bytes(), 0o600))
	return name
}

func newTraced(t *testing.T) *traced {
	t.Helper()
	tr := &traced{t: t, db: newDatabase(t), failures: map[string]int{}}
	tr.to = receiveWith(t, tr.serve)
	tr.config = settings{database: tr.db.url, top: []string{"settle_interval: 20ms", "lease: 1s"}, destination: toHTTP(tr.to.url()+"/${RELAY:-none}") + ", batch: {max_messages: 3}, status: {\"422\": transient}",
		window: killWindow, middleware: "[poison, {retry: {attempts: 2, base: 1200ms, max: 1200ms, jitter: 0}}, timeout]"}.text()
	command(t, "init", "-c", writeConfig(t, tr.config))
	tr.db.exec(traceSQL)
	tr.groups = tr.fewLanes(6, 3)
	return tr
}

// fewLanes returns groups that share lanes: those of each lane are as far apart as there are lanes.
func (tr *traced) fewLanes(groups, lanes int) (out []string) {
	tr.t.Helper()
	rows, err := tr.db.pool.Query(tr.t.Context(), `SELECT g FROM (SELECT g, s, row_number() OVER (PARTITION BY s ORDER BY n) AS place
    FROM (SELECT n, 'g' || n AS g, hashtextextended('g' || n, 0) & 15 AS s FROM generate_series(1, 1000) n) a) b WHERE s < $1 AND place <= $2 ORDER BY place, s`, lanes, groups/lanes)
	must(tr.t, err)
	out, err = pgx.CollectRows(rows, pgx.RowTo[string])
	must(tr.t, err)
	return out
}

// forever is more failures than a message has attempts, whatever crashes forget of them.
const forever = 1 << 30

// serve records what arrives before it answers, so that whatever follows from the answer comes later.
func (tr *traced) serve(_ *receiver, w http.ResponseWriter, req *http.Request) {
	var batch []payload
	if err := json.NewDecoder(req.Body).Decode(&batch); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	status, kind, ids := http.StatusOK, "send", make([]string, len(batch))
	tr.mu.Lock()
	for i, p := range batch {
		ids[i] = p.ID
		if _, known := tr.failures[p.ID]; !known && tr.doomed > 0 {
			tr.doomed--
			tr.failures[p.ID] = 1 + tr.doomed%2*forever // it arrives from its parking, or is dead
		}
		if tr.failures[p.ID] > 0 {
			tr.failures[p.ID]--
			status = http.StatusUnprocessableEntity
		}
	}
	tr.mu.Unlock()
	if status != http.StatusOK && len(batch) > 1 {
		kind = "tried"
	}
	_, err := tr.db.pool.Exec(context.Background(), "INSERT INTO public.trace (kind, doc) VALUES ($4, jsonb_build_object('relay', $1::text, 'ids', $2::text[], 'ok', $3::boolean))",
		strings.TrimPrefix(req.URL.Path, "/"), ids, status == http.StatusOK, kind)
	if err != nil {
		status = http.StatusServiceUnavailable
	}
	w.WriteHeader(status)
}

// disturbances are what happens in a trace while rows come.
var disturbances = []func(tr *traced, ids []string){
	func(*traced, []string) {},
	func(tr *traced, _ []string) { tr.relays[rand.IntN(2)].kill() },
	func(tr *traced, _ []string) { // its lanes are taken by the other one, while it is about to send
		r := tr.relays[rand.IntN(2)]
		_ = r.cmd.Process.Signal(syscall.SIGSTOP) // it may have killed itself
		pause(tr.t.Context(), 1500*time.Millisecond)
		_ = r.cmd.Process.Signal(syscall.SIGCONT)
	},
	func(tr *traced, _ []string) {
		tr.db.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'outrider%'")
	},
	func(tr *traced, ids []string) { tr.command("redrive", ids) },
	func(tr *traced, ids []string) { tr.command("purge", ids) },
}

// command waits for a dead message and gives a command for it.
func (tr *traced) command(what string, ids []string) {
	var dead string
	until(tr.t, "a message is dead", func() bool {
		dead = one[string](tr.db, "SELECT coalesce(min(event_id), '') FROM outrider_parked WHERE status = 'dead' AND event_id = ANY ($1)", ids)
		return dead != ""
	})
	tr.mu.Lock()
	tr.failures[dead] = 0
	tr.mu.Unlock()
	said := command(tr.t, "parked", what, dead, "-c", tr.relays[0].config)
	if n := one[int](tr.db, "SELECT count(*) FROM outrider_parked WHERE status = 'dead' AND event_id = $1", dead); n > 0 {
		tr.t.Fatalf("parked %s %s: %s", what, dead, said)
	}
}

// start has two relays run. Every other new one kills itself at some step.
func (tr *traced) start() {
	tr.relays = slices.DeleteFunc(tr.relays, func(r *relay) bool {
		select {
		case <-r.done:
			if state := r.cmd.ProcessState.Sys().(syscall.WaitStatus); !state.Signaled() {
				tr.t.Fatalf("a relay has ended: %v", r.err)
			}
			return true
		default:
			return false
		}
	})
	points := slices.DeleteFunc(slices.Clone(failpoint.Points), func(p failpoint.Point) bool {
		return slices.Contains(atTheEnd, p) || slices.Contains(failpoint.InTransactions, p)
	})
	for len(tr.relays) < 2 {
		name := fmt.Sprint("r", tr.started)
		env := []string{"RELAY=" + name}
		if tr.started%2 == 1 {
			env = append(env, fmt.Sprintf("%s=%s:%d", failpoint.Env, points[rand.IntN(len(points))], 1+rand.IntN(8)))
		}
		tr.relays = append(tr.relays, startInstance(tr.t, name, tr.config, env...))
		tr.started++
	}
}

// run makes one trace: all of its rows are settled at the end.
func (tr *traced) run(n int) []model.Record {
	tr.t.Helper()
	tr.start()
	tr.db.inTx(func(tx pgx.Tx) { // what the lanes are now
		_, err := tx.Exec(tr.t.Context(), `LOCK TABLE outrider_cursor IN SHARE MODE`)
		must(tr.t, err)
		must(tr.t, tx.QueryRow(tr.t.Context(), "SELECT coalesce(max(seq), 0) FROM trace").Scan(&tr.begin))
		_, err = tx.Exec(tr.t.Context(), "INSERT INTO public.trace (kind, doc) SELECT 'cursor', to_jsonb(c) FROM outrider_cursor c")
		must(tr.t, err)
	})
	tr.mu.Lock()
	tr.doomed = 2
	tr.mu.Unlock()
	var publishers sync.WaitGroup
	var mu sync.Mutex
	var all []string
	for p := range 3 {
		publishers.Go(func() {
			for i := range 4 {
				ids := tr.publish(tr.groups[(3*(p%2)+i)%len(tr.groups)], 1+rand.IntN(3), p == 0 && i == 1, p == 0 && i == 3)
				mu.Lock()
				all = append(all, ids...)
				mu.Unlock()
			}
		})
	}
	if rand.IntN(2) == 0 {
		publishers.Wait()
	} else {
		pause(tr.t.Context(), rand.N(300*time.Millisecond))
	}
	mu.Lock()
	ids := slices.Clone(all)
	mu.Unlock()
	disturb := disturbances[n%len(disturbances)]
	if n%len(disturbances) >= len(disturbances)-2 {
		publishers.Wait()
		ids = all
	}
	disturb(tr, ids)
	publishers.Wait()
	return tr.settled(all)
}

// publish commits rows of a group, perhaps later, and returns their ids; rolledBack: none, but the positions are gone.
func (tr *traced) publish(group string, n int, late, rolledBack bool) (ids []string) {
	tx, err := tr.db.pool.Begin(tr.t.Context())
	must(tr.t, err)
	defer func() { _ = tx.Rollback(context.Background()) }() // a failure leaves the connection to the pool
	must(tr.t, insert(tr.t.Context(), tx, group, n))
	if late {
		pause(tr.t.Context(), 200*time.Millisecond)
	}
	if rolledBack {
		must(tr.t, tx.Rollback(tr.t.Context()))
		return nil
	}
	rows, err := tx.Query(tr.t.Context(), "SELECT id FROM outrider_outbox WHERE xmin = pg_current_xact_id()::xid")
	must(tr.t, err)
	ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	must(tr.t, err)
	must(tr.t, tx.Commit(tr.t.Context()))
	tr.db.exec("INSERT INTO public.trace (kind, doc) VALUES ('committed', jsonb_build_object('ids', $1::text[]))", ids)
	return ids
}

// settled waits until all rows are settled and none is parked, but for dead ones, and returns the trace.
func (tr *traced) settled(ids []string) (trace []model.Record) {
	tr.t.Helper()
	var world *model.Rules
	defer func() {
		if world == nil || world.Settled().Len() < len(ids) {
			tr.t.Logf("%d rows; the trace is in %s", len(ids), keep(tr.t, trace))
		}
	}()
	until(tr.t, "all rows of the trace are settled", func() bool {
		tr.start()
		rows, err := tr.db.pool.Query(tr.t.Context(), "SELECT seq, xid, kind, doc FROM trace WHERE seq > $1 ORDER BY seq", tr.begin)
		must(tr.t, err)
		trace, err = pgx.CollectRows(rows, pgx.RowToStructByPos[model.Record])
		must(tr.t, err)
		plan, events, err := model.Translate(trace)
		must(tr.t, err)
		world, err = model.Replay(plan, events)
		return err != nil && !strings.Contains(err.Error(), "neither delivered nor given") || world.Settled().Len() == len(ids)
	})
	return trace
}
