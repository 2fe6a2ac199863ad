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
	"github.com/outriderhq/outrider/outbox"
)

// tracing is what a trace is of.
type tracing struct {
	config  func(tr *traced) string
	tables  string // creates them, "": the program does
	sql     string // records what transactions do, in themselves
	stands  string // records how things stand
	insert  func(tr *traced, tx pgx.Tx, group string, n int) error
	inserts string // the ids of rows that the transaction has inserted
	dead    string // one of the messages $1 that is dead, or ''

	translate func([]model.Record) (*model.Plan, []model.Event, error)
	replay    func(*model.Plan, []model.Event) (settled, error)
	seen      func(*model.Plan, []model.Event) map[string]int
	want      []string // what has to be seen, and in longer runs
	longer    []string
}

type settled interface{ Settled() model.Set }

const traceTable = `CREATE TABLE trace (seq bigserial PRIMARY KEY, xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint, kind text NOT NULL, doc jsonb NOT NULL);`

// logTracing is of Outrider's own table.
var logTracing = tracing{
	config: func(tr *traced) string {
		return settings{database: tr.db.url, top: []string{"settle_interval: 20ms", "lease: 1s"}, destination: tr.receiver(), window: killWindow, middleware: tracedMiddleware}.text()
	},
	sql: `
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
CREATE TRIGGER trace_parked AFTER INSERT OR UPDATE OR DELETE ON outrider_parked FOR EACH ROW EXECUTE FUNCTION trace_parked()`,
	stands:    "LOCK TABLE outrider_cursor IN SHARE MODE; INSERT INTO public.trace (kind, doc) SELECT 'cursor', to_jsonb(c) FROM outrider_cursor c",
	insert:    func(tr *traced, tx pgx.Tx, group string, n int) error { return insert(tr.t.Context(), tx, group, n) },
	inserts:   "SELECT id FROM outrider_outbox WHERE xmin = pg_current_xact_id()::xid",
	dead:      "SELECT coalesce(min(event_id), '') FROM outrider_parked WHERE status = 'dead' AND event_id = ANY ($1)",
	translate: model.Translate,
	replay:    func(p *model.Plan, events []model.Event) (settled, error) { return model.Replay(p, events) },
	seen:      model.Seen,
	want:      []string{"late row below a settled one", "settled above an open transaction", "lane taken from another", "parked", "delivered from parking", "dead", "drop", "redrive"},
	longer:    []string{"lane acquired with parked rows", "delivered twice", "sent by a former owner"},
}

// queueTracing is of a table whose rows have a status.
var queueTracing = tracing{
	config: func(tr *traced) string {
		return fmt.Sprintf(`admin: {listen: off}
settle_interval: 20ms
lease: 1s
sources:
  app: {type: postgres, layout: flowcatalyst, url: "%s&application_name=${RELAY:-none}", poll: {max: 50ms}, claims: {timeout: 1s, recover: 1s}}
destinations:
  there: {%s}
routes:
  orders0: {from: app, to: there, window: %d, middleware: %s}
`, tr.db.url, tr.receiver(), killWindow, tracedMiddleware)
	},
	tables: flowCatalystTables,
	sql: `
CREATE FUNCTION trace_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.trace (kind, doc) VALUES (TG_ARGV[0], jsonb_build_object('id', NEW.id, 'group', NEW.message_group));
    RETURN NULL;
END $$;
CREATE TRIGGER trace_insert AFTER INSERT ON outbox_events FOR EACH ROW EXECUTE FUNCTION trace_row('insert');
CREATE CONSTRAINT TRIGGER trace_commit AFTER INSERT ON outbox_events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trace_row('commit');
CREATE FUNCTION trace_status() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE
    names constant jsonb := '{"PENDING": "waiting", "PROCESSING": "claimed", "COMPLETED": "done", "FAILED": "dead"}';
BEGIN
    IF TG_OP = 'DELETE' OR NEW.status <> OLD.status THEN
        INSERT INTO public.trace (kind, doc) VALUES ('status', jsonb_build_object('id', OLD.id, 'relay', current_setting('application_name'),
            'from', names->OLD.status, 'to', CASE TG_OP WHEN 'DELETE' THEN '"gone"' ELSE names->NEW.status END));
    END IF;
    RETURN NULL;
END $$;
CREATE SEQUENCE trace_ids;
CREATE TRIGGER trace_status AFTER UPDATE OR DELETE ON outbox_events FOR EACH ROW EXECUTE FUNCTION trace_status()`,
	insert: func(tr *traced, tx pgx.Tx, group string, n int) error {
		if err := outbox.Lock(tr.t.Context(), tx, group); err != nil {
			return err
		}
		_, err := tx.Exec(tr.t.Context(), `INSERT INTO outbox_events (id, type, message_group, payload, status, created_at)
			SELECT id, 'EVENT', $1::text, jsonb_build_object('id', id, 'group', $1::text), 'PENDING', clock_timestamp() AT TIME ZONE 'UTC'
			FROM (SELECT 'm' || lpad(nextval('trace_ids')::text, 9, '0') AS id FROM generate_series(1, $2::int)) n`, group, n)
		return err
	},
	inserts:   "SELECT id FROM outbox_events WHERE xmin = pg_current_xact_id()::xid",
	dead:      "SELECT coalesce(min(id), '') FROM outbox_events WHERE status = 'FAILED' AND id = ANY ($1)",
	translate: model.TranslateQueue,
	replay:    func(p *model.Plan, events []model.Event) (settled, error) { return model.ReplayQueue(p, events) },
	seen:      model.SeenInQueue,
	want:      []string{"freed", "put back", "claimed again", "dead", "drop", "redrive"},
	longer:    []string{"delivered twice"},
}

// traceLanes is how many lanes a trace has rows in.
const traceLanes = 3

const tracedMiddleware = "[poison, {retry: {attempts: 2, base: 1200ms, max: 1200ms, jitter: 0}}, timeout]"

// traced is two relays of one database, whose every step is recorded.
type traced struct {
	tracing
	t       *testing.T
	db      *database
	to      *receiver
	file    string // the configuration
	groups  []string
	relays  []*relay
	started int
	begin   int64 // the last record of the traces before

	mu       sync.Mutex
	failures map[string]int // to come, by id
	doomed   int            // messages that are to fail soon
	senders  map[string]*relay
	injected *injection // to come, nil: none
}

// injection is a fault of a relay whose request has arrived and is not yet answered, so that it holds messages.
type injection struct {
	after int // requests
	do    func(*relay)
	done  chan struct{}
}

// Short runs of two relays that crash, freeze, lose connections and get commands, step by step against the rules of the model.
func TestG1_G2_G3_TracesKeepTheRules(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]tracing{"a log": logTracing, "a queue": queueTracing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newTraced(t, of).keepTheRules()
		})
	}
}

func (tr *traced) keepTheRules() {
	t := tr.t
	total := map[string]int{}
	want := tr.want
	if traces() >= 10*len(disturbances) {
		want = append(slices.Clone(want), tr.longer...)
	}
	events, checked, made := 0, 0, 0
	// What is left to chance may need more traces on a machine that is busy.
	for missing := want; made < traces() || len(missing) > 0 && made < 5*traces(); made++ {
		trace := tr.run(made)
		plan, e, err := tr.translate(trace)
		must(t, err)
		if _, err := tr.replay(plan, e); err != nil {
			t.Fatalf("trace %d: %v; the trace is in %s", made, err, keep(t, trace))
		}
		for what, n := range tr.seen(plan, e) {
			total[what] += n
		}
		missing = slices.DeleteFunc(slices.Clone(want), func(what string) bool { return total[what] > 0 })
		events += len(e)
		if made == 0 {
			checked = tr.refusesLess(plan, e)
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
func (tr *traced) refusesLess(plan *model.Plan, events []model.Event) (n int) {
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
		if _, err := tr.replay(plan, slices.Delete(slices.Clone(events), i, i+1)); err == nil {
			tr.t.Errorf("the rules allow the trace without %+v", e)
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

func newTraced(t *testing.T, of tracing) *traced {
	t.Helper()
	tr := &traced{tracing: of, t: t, db: newDatabase(t), failures: map[string]int{}, senders: map[string]*relay{}}
	tr.to = receiveWith(t, tr.serve)
	tr.file = tr.config(tr)
	tr.db.exec(traceTable + tr.tables)
	command(t, "init", "-c", writeConfig(t, tr.file))
	tr.db.exec(tr.sql)
	tr.groups = tr.fewLanes(2*traceLanes, traceLanes)
	return tr
}

// receiver is the destination, which is told which relay sends.
func (tr *traced) receiver() string {
	return toHTTP(tr.to.url()+"/${RELAY:-none}") + `, batch: {max_messages: 3}, status: {"422": transient}`
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
	sender := strings.TrimPrefix(req.URL.Path, "/")
	_, err := tr.db.pool.Exec(context.Background(), "INSERT INTO public.trace (kind, doc) VALUES ($4, jsonb_build_object('relay', $1::text, 'ids', $2::text[], 'ok', $3::boolean))",
		sender, ids, status == http.StatusOK, kind)
	if err != nil {
		status = http.StatusServiceUnavailable
	}
	tr.inject(sender)
	w.WriteHeader(status)
}

// inject has the fault that is to come happen to the sender of a request, if it is its turn.
func (tr *traced) inject(sender string) {
	tr.mu.Lock()
	r, s := tr.senders[sender], tr.injected
	if s != nil {
		s.after--
		if s.after > 0 {
			s = nil
		} else {
			tr.injected = nil
		}
	}
	tr.mu.Unlock()
	if s != nil {
		s.do(r)
		close(s.done)
	}
}

// disturbance is what happens in a trace: to the relay that sends, or else while rows come.
type disturbance struct {
	sender func(*relay)
	do     func(tr *traced, ids []string)
	after  bool // all rows have come
}

var disturbances = []disturbance{
	{},
	{sender: func(r *relay) { r.kill() }},
	{sender: func(r *relay) { // its lanes are taken by the other one
		_ = r.cmd.Process.Signal(syscall.SIGSTOP) // it may have killed itself
		pause(r.t.Context(), 2500*time.Millisecond)
		_ = r.cmd.Process.Signal(syscall.SIGCONT)
	}},
	{do: func(tr *traced, _ []string) {
		tr.db.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND (application_name LIKE 'outrider%' OR application_name ~ '^r[0-9]+$')")
	}},
	{do: func(tr *traced, ids []string) { tr.command("redrive", ids) }, after: true},
	{do: func(tr *traced, ids []string) { tr.command("purge", ids) }, after: true},
}

// command waits for a dead message and gives a command for it.
func (tr *traced) command(what string, ids []string) {
	var dead string
	until(tr.t, "a message is dead", func() bool {
		dead = one[string](tr.db, tr.dead, ids)
		return dead != ""
	})
	tr.mu.Lock()
	tr.failures[dead] = 0
	tr.mu.Unlock()
	said := command(tr.t, "parked", what, dead, "-c", tr.relays[0].config)
	if one[string](tr.db, tr.dead, []string{dead}) != "" {
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
		r := startInstance(tr.t, name, tr.file, env...)
		tr.relays = append(tr.relays, r)
		tr.mu.Lock()
		tr.senders[name] = r
		tr.mu.Unlock()
		tr.started++
	}
}

// run makes one trace: all of its rows are settled at the end.
func (tr *traced) run(n int) []model.Record {
	tr.t.Helper()
	tr.start()
	tr.db.inTx(func(tx pgx.Tx) { // what the lanes are now
		_, err := tx.Exec(tr.t.Context(), tr.stands)
		must(tr.t, err)
		must(tr.t, tx.QueryRow(tr.t.Context(), "SELECT coalesce(max(seq), 0) FROM trace WHERE xid <> pg_current_xact_id()::text::bigint").Scan(&tr.begin))
	})
	disturb := disturbances[n%len(disturbances)]
	fault := &injection{after: 1 + rand.IntN(4), do: disturb.sender, done: make(chan struct{})}
	tr.mu.Lock()
	tr.doomed = 2
	if disturb.sender != nil {
		tr.injected = fault // the rows, 11 at least, are four requests at least
	}
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
	if disturb.after || rand.IntN(2) == 0 {
		publishers.Wait()
	} else {
		pause(tr.t.Context(), rand.N(300*time.Millisecond))
	}
	mu.Lock()
	ids := slices.Clone(all)
	mu.Unlock()
	if disturb.do != nil {
		disturb.do(tr, ids)
	}
	publishers.Wait()
	if disturb.sender != nil {
		until(tr.t, "the relay that sends has had its fault", func() bool {
			tr.start()
			select {
			case <-fault.done:
				return true
			default:
				return false
			}
		})
	}
	return tr.settled(all)
}

// publish commits rows of a group, and returns their ids; late: after a row of another group of the lane; rolledBack: none, but the positions are gone.
func (tr *traced) publish(group string, n int, late, rolledBack bool) (ids []string) {
	tx, err := tr.db.pool.Begin(tr.t.Context())
	must(tr.t, err)
	defer func() { _ = tx.Rollback(context.Background()) }() // a failure leaves the connection to the pool
	must(tr.t, tr.insert(tr, tx, group, n))
	if late {
		ids = tr.publish(tr.groups[(slices.Index(tr.groups, group)+traceLanes)%len(tr.groups)], 1, false, false)
		pause(tr.t.Context(), 200*time.Millisecond)
	}
	if rolledBack {
		must(tr.t, tx.Rollback(tr.t.Context()))
		return nil
	}
	rows, err := tx.Query(tr.t.Context(), tr.inserts)
	must(tr.t, err)
	own, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(tr.t, err)
	must(tr.t, tx.Commit(tr.t.Context()))
	tr.db.exec("INSERT INTO public.trace (kind, doc) VALUES ('committed', jsonb_build_object('ids', $1::text[]))", own)
	return append(ids, own...)
}

// settled waits until all rows are settled and none is parked, but for dead ones, and returns the trace.
func (tr *traced) settled(ids []string) (trace []model.Record) {
	tr.t.Helper()
	var world settled
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
		plan, events, err := tr.translate(trace)
		must(tr.t, err)
		world, err = tr.replay(plan, events)
		return err != nil && !strings.Contains(err.Error(), "neither delivered nor given") || world.Settled().Len() == len(ids)
	})
	return trace
}
