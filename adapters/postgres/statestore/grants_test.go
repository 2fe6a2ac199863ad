package statestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// grantedSchema has a name that needs quotes.
const grantedSchema = `My "State`

// grantedState is a database whose owner has made the state tables, with a role for
// the relay and one for operators that have the printed grants and nothing else.
type grantedState struct {
	*pgtest.Env
	relay, operator     string // roles
	asRelay, asOperator string // their URLs
}

func newGrantedState(t testing.TB) *grantedState {
	t.Helper()
	e := pgtest.New(t)
	owner, asOwner := e.Role()
	e.Exec("GRANT CREATE ON DATABASE " + e.Pool.Config().ConnConfig.Database + " TO " + owner)
	s := openStateAs(t, asOwner)
	pgtest.Must(t, s.Migrate(e.Ctx))
	g := &grantedState{Env: e}
	g.relay, g.asRelay = e.Role()
	g.operator, g.asOperator = e.Role()
	for line := range strings.Lines(Grants(grantedSchema).SQL(pg.Grantees{Relay: g.relay, Operator: g.operator})) {
		e.Exec(line)
	}
	return g
}

func openStateAs(t testing.TB, url string) *Store {
	t.Helper()
	s, err := New(context.Background(), Config{URL: url, Schema: grantedSchema})
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, s.Close()) })
	return s
}

// byTask is a store whose methods are called by the role that calls them in life.
type byTask struct {
	*Store   // the relay's
	operator *Store
}

func (b byTask) ListParked(ctx context.Context, f adapters.ParkedFilter, bytes int64) ([]adapters.Parked, error) {
	return b.operator.ListParked(ctx, f, bytes)
}

func (b byTask) CountParked(ctx context.Context, c adapters.ParkedCommand) ([]adapters.ParkedCount, error) {
	return b.operator.CountParked(ctx, c)
}

func (b byTask) ChangeParked(ctx context.Context, c adapters.ParkedCommand) (adapters.ParkedStep, error) {
	return b.operator.ChangeParked(ctx, c)
}

func (b byTask) Pause(ctx context.Context, p adapters.Pause) (bool, error) {
	return b.operator.Pause(ctx, p)
}

func (b byTask) Resume(ctx context.Context, p adapters.Pause) (bool, error) {
	return b.operator.Resume(ctx, p)
}

func (b byTask) ReadAudit(ctx context.Context, before int64, limit int) ([]adapters.AuditRecord, error) {
	return b.operator.ReadAudit(ctx, before, limit)
}

func (b byTask) CreateOperation(ctx context.Context, o adapters.Operation) (adapters.Operation, error) {
	return b.operator.CreateOperation(ctx, o)
}

func (b byTask) StopOperation(ctx context.Context, id, by string) (bool, error) {
	return b.operator.StopOperation(ctx, id, by)
}

func (b byTask) Move(ctx context.Context, m adapters.Move) error { return b.operator.Move(ctx, m) }

func (b byTask) Forget(ctx context.Context, route string, force bool, by string) (adapters.DeletedRoute, error) {
	return b.operator.Forget(ctx, route, force, by)
}

func (b byTask) Lanes(ctx context.Context) ([]adapters.LaneStatus, error) {
	return b.operator.Lanes(ctx)
}

// The store keeps its contract with the printed grants and nothing else.
func TestG12_StateConformanceWithGrantsAlone(t *testing.T) {
	t.Parallel()
	adaptertest.StateStore(t, adaptertest.StateHarness{New: func(tb testing.TB) func() adapters.OperatorStore {
		g := newGrantedState(tb)
		return func() adapters.OperatorStore {
			return byTask{openStateAs(tb, g.asRelay), openStateAs(tb, g.asOperator)}
		}
	}})
}

// asRelay does what a relay does with its state, and returns what failed.
func (g *grantedState) actAsRelay(s *Store) error {
	const instance = "relay-1"
	lane := adapters.LaneRef{Route: "r"}
	parked := []adapters.Parked{{Seq: 1, Status: adapters.ParkedDead, ID: "e"}, {Seq: 2, Status: adapters.ParkedWaiting, Group: "g", ID: "f"}}
	event := adapters.EventRef{Route: "r", ID: "e"}
	return errors.Join(
		s.Migrate(g.Ctx), s.Join(g.Ctx, instance, time.Hour), s.Announce(g.Ctx, instance, nil),
		s.Bind(g.Ctx, "r", adapters.Table{Cluster: "c", Name: "t"}),
		func() error {
			lanes, err := s.Acquire(g.Ctx, instance, "r", []int{0}, 1)
			if err != nil || len(lanes) != 1 {
				return fmt.Errorf("acquired %d: %w", len(lanes), err)
			}
			settlement := adapters.Settlement{LaneRef: lane, Epoch: lanes[0].Epoch, NextSeq: 3, Park: parked, Stored: 1, Table: adapters.Table{Cluster: "c", Name: "t"}}
			_, err = s.Settle(g.Ctx, []adapters.Settlement{settlement})
			settlement.Park, settlement.Unpark = nil, []int64{2}
			_, again := s.Settle(g.Ctx, []adapters.Settlement{settlement})
			s.SettleAside()
			settlement.Unpark = nil
			_, aside := s.Settle(g.Ctx, []adapters.Settlement{settlement})
			return errors.Join(err, again, aside)
		}(),
		failed(s.ParkedGroups(g.Ctx, "r", []int{0})), failed(s.ParkedQueue(g.Ctx, lane, "g", 0, 1, 1<<20)),
		failed(s.Lanes(g.Ctx)), failed(s.Instances(g.Ctx)), failed(s.Pauses(g.Ctx, "")),
		failed(s.Pause(g.Ctx, adapters.Pause{Route: "r", Address: time.Now().String(), By: "410"})), // else nothing would be written
		failed(s.ChangeParked(g.Ctx, adapters.ParkedCommand{Action: adapters.ParkedPurge, Filter: adapters.ParkedFilter{Route: "r"}, By: "keep"})),
		s.Record(g.Ctx, []adapters.SeenEvent{{EventRef: event, Keep: time.Microsecond}}), failed(s.Seen(g.Ctx, []adapters.EventRef{event})),
		failed(s.Expire(g.Ctx, 10)), g.note(s), g.agree(s), g.operate(s, "relay"), s.Release(g.Ctx, instance, []adapters.LaneRef{lane}), s.Leave(g.Ctx, instance))
}

func (g *grantedState) actAsOperator(s *Store) error {
	command := func(a adapters.ParkedAction) error {
		return failed(s.ChangeParked(g.Ctx, adapters.ParkedCommand{Action: a, Filter: adapters.ParkedFilter{Route: "r"}, By: "alice"}))
	}
	_, err := s.pool.Exec(g.Ctx, `SELECT * FROM outrider_audit ORDER BY id DESC LIMIT 10`)
	_, dropped := s.pool.Exec(g.Ctx, `DELETE FROM outrider_note WHERE key = 'k'`)
	return errors.Join(err, dropped, g.agree(s), g.operate(s, "operator"), failed(s.version(g.Ctx)), failed(s.Lanes(g.Ctx)), failed(s.Instances(g.Ctx)),
		failed(s.ListParked(g.Ctx, adapters.ParkedFilter{}, 0)), command(adapters.ParkedRedrive), command(adapters.ParkedSkip), command(adapters.ParkedPurge),
		s.Move(g.Ctx, adapters.Move{Route: "r", Cursors: map[int]adapters.Cursor{0: {Position: 1}}, Table: adapters.Table{Cluster: "c", Name: "t"}, Action: "seek", By: "alice"}),
		failed(s.Pause(g.Ctx, adapters.Pause{Route: "r", By: "alice"})), failed(s.Resume(g.Ctx, adapters.Pause{Route: "r", By: "alice"})), failed(s.Forget(g.Ctx, "r", true, "alice")),
		failed(s.RemoveInstance(g.Ctx, "gone", "alice")))
}

// note writes and deletes a note, as package queuetable does on the connections of a source.
func (g *grantedState) note(s *Store) error {
	_, err := s.pool.Exec(g.Ctx, `INSERT INTO outrider_note AS n (queue, key, attempts, last_error, dead) VALUES ('q', 'k', 1, '', false)
ON CONFLICT (queue, key) DO UPDATE SET attempts = n.attempts`)
	_, dropped := s.pool.Exec(g.Ctx, `DELETE FROM outrider_note WHERE key = 'k'`)
	return errors.Join(err, dropped)
}

// agree notes what was written into a table of progress.
func (g *grantedState) agree(s *Store) error {
	_, err := s.pool.Exec(g.Ctx, `INSERT INTO outrider_progress AS o (route, progress_table, topic, publisher, position, status) VALUES ('p', 't', '', '', 1, '')
ON CONFLICT (route) DO UPDATE SET position = o.position`)
	return err
}

// operate orders an operation and works it, as a relay does by its API, and a command.
func (g *grantedState) operate(s *Store, worker string) error {
	id := worker + time.Now().String()
	_, err := s.CreateOperation(g.Ctx, adapters.Operation{ID: id, Kind: adapters.OperationPurge, Filter: adapters.ParkedFilter{Route: "none"}, By: "alice"})
	if err != nil {
		return err
	}
	o, err := s.TakeOperation(g.Ctx, id, worker, time.Hour)
	if err != nil {
		return err
	}
	_, err = s.StepOperation(g.Ctx, adapters.OperationStep{ID: id, Epoch: o.Epoch, Parked: 1, End: adapters.OperationDone})
	return err
}

func failed[T any](_ T, err error) error { return err }

// Each privilege that is granted is needed: without it something fails, doctor says
// so, and what it advises mends it.
func TestG12_EveryGrantIsNeeded(t *testing.T) {
	t.Parallel()
	g := newGrantedState(t)
	for task, role := range map[pg.Task]struct {
		name string
		s    *Store
		act  func(*Store) error
	}{
		pg.TaskRelay:    {g.relay, openStateAs(t, g.asRelay), g.actAsRelay},
		pg.TaskOperator: {g.operator, openStateAs(t, g.asOperator), g.actAsOperator},
	} {
		seed := func() { // what a command changes or deletes
			g.Exec(strings.ReplaceAll(`INSERT INTO {s}.outrider_parked (route, slot, seq, status, attempts, last_error, event_id, event_type, position, metadata, payload)
VALUES ('r', 0, 9, 'dead', 1, '', 'x', '', 1, '{}', '') ON CONFLICT DO NOTHING`, "{s}", pgx.Identifier{grantedSchema}.Sanitize()))
		}
		seed()
		if err := role.act(role.s); err != nil {
			t.Fatalf("%s with all of its grants: %v", task, err)
		}
		for _, one := range pgtest.EachGrant(Grants(grantedSchema), task) {
			seed()
			g.Exec(strings.NewReplacer("GRANT", "REVOKE", " TO ", " FROM ").Replace(one.SQL(role.name)))
			if err := role.act(role.s); !pg.FailedWith(err, pg.InsufficientPrivilege) {
				t.Errorf("%s without %s: %v", task, one.SQL(role.name), err)
			}
			lacking, quoted, err := Grants(grantedSchema).Missing(g.Ctx, role.s.pool, task)
			if pgtest.Must(t, err); len(lacking) != 1 {
				t.Fatalf("without %s: found %d missing", one.SQL(role.name), len(lacking))
			}
			found, _ := role.s.examinePrivileges(g.Ctx)
			if len(found) != 1 || !strings.Contains(found[0].Fix, lacking.Fix(quoted)) {
				t.Errorf("without %s: %+v", one.SQL(role.name), found)
			}
			g.Exec(lacking.Fix(quoted))
		}
		if err := role.act(role.s); err != nil {
			t.Errorf("%s after what doctor advised: %v", task, err)
		}
	}
}

// Who may write audit records chooses neither their time nor their role, and changes none.
func TestG12_AuditIsInsertOnly(t *testing.T) {
	t.Parallel()
	g := newGrantedState(t)
	pgtest.Must(t, g.actAsRelay(openStateAs(t, g.asRelay)))
	pgtest.Must(t, g.actAsOperator(openStateAs(t, g.asOperator)))
	table := pgx.Identifier{grantedSchema, "outrider_audit"}.Sanitize()
	roles := map[string]string{}
	rows, err := g.Pool.Query(g.Ctx, "SELECT by, role FROM "+table+" WHERE at > now() - interval '1 hour'")
	pgtest.Must(t, err)
	var by, role string
	_, err = pgx.ForEachRow(rows, []any{&by, &role}, func() error { roles[by] = role; return nil })
	pgtest.Must(t, err)
	if len(roles) != 3 || roles["410"] != g.relay || roles["keep"] != g.relay || roles["alice"] != g.operator {
		t.Errorf("recorded %v, want the relay %s and the operator %s", roles, g.relay, g.operator)
	}
	for _, url := range []string{g.asRelay, g.asOperator} {
		conn, err := pgx.Connect(g.Ctx, url)
		pgtest.Must(t, err)
		t.Cleanup(func() { pgtest.Must(t, conn.Close(g.Ctx)) })
		for _, forbidden := range []string{
			"UPDATE {t} SET by = 'bob'", "DELETE FROM {t}", "TRUNCATE {t}", "ALTER TABLE {t} ALTER COLUMN role DROP DEFAULT",
			"INSERT INTO {t} (by, action, filter, changed, role) VALUES ('a', 'seek', '{}', 1, 'somebody')",
			"INSERT INTO {t} (by, action, filter, changed, at) VALUES ('a', 'seek', '{}', 1, now() - interval '1 year')",
			"INSERT INTO {t} (id, by, action, filter, changed) OVERRIDING SYSTEM VALUE VALUES (1000, 'a', 'seek', '{}', 1)",
		} {
			if _, err := conn.Exec(g.Ctx, strings.ReplaceAll(forbidden, "{t}", table)); !pg.FailedWith(err, pg.InsufficientPrivilege) {
				t.Errorf("%s: %v", forbidden, err)
			}
		}
	}
}

// A role that may create nothing starts where the tables are up to date, and is
// told by whom they can be made so where they are not. What was kept stays.
func TestG12_ARelayThatMayNotMigrate(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	owner, asOwner := e.Role()
	relay, asRelay := e.Role()
	s := openStateAs(t, asRelay)
	pgtest.WantError(t, s.Migrate(e.Ctx), `there is no schema "My ""State"`, relay, "outrider init", "CREATE in it")
	schema := pgx.Identifier{grantedSchema}.Sanitize()
	e.Exec("CREATE SCHEMA " + schema + " AUTHORIZATION " + owner)
	e.Exec("GRANT USAGE ON SCHEMA " + schema + " TO " + relay)
	e.Exec("GRANT CREATE ON DATABASE " + e.Pool.Config().ConnConfig.Database + " TO " + owner) // CREATE SCHEMA IF NOT EXISTS wants it
	pgtest.WantError(t, s.Migrate(e.Ctx), "there are no state tables in schema", relay, "outrider init", owner)

	printed, err := InitSQL(grantedSchema)
	pgtest.Must(t, err)
	former, _, found := strings.Cut(printed, "\n-- Version 8\n")
	if !found {
		t.Fatalf("no version 8 in\n%s", printed)
	}
	e.Exec(strings.ReplaceAll("SET ROLE "+owner+";\n"+former+`;
INSERT INTO {s}.outrider_cursor (route, slot, position, cluster, source) VALUES ('r', 3, 41, 'c', 't');
INSERT INTO {s}.outrider_pause (route, address, reason, by) VALUES ('r', 'topic', 'why', 'alice');
INSERT INTO {s}.outrider_audit (at, by, action, filter, changed, role) VALUES ('2026-01-02T03:04:05Z', 'alice', 'seek', '{"route": "r"}', 16, '');
RESET ROLE`, "{s}", schema))
	var later []string // grants on tables that come with the upgrade
	for line := range strings.Lines(Grants(grantedSchema).SQL(pg.Grantees{Relay: relay})) {
		if strings.Contains(line, "outrider_operation") || strings.Contains(line, "outrider_note") || strings.Contains(line, "outrider_progress") ||
			strings.Contains(line, "outrider_settled") {
			later = append(later, line)
			continue
		}
		e.Exec(line)
	}
	pgtest.WantError(t, s.Migrate(e.Ctx), "of another version", relay, "outrider init", "role "+owner+", which owns them")
	if f := s.examineTables(e.Ctx); len(f) != 1 || !strings.Contains(f[0].Text, "of version 7") {
		t.Errorf("doctor: %+v", f)
	}
	pgtest.Must(t, openStateAs(t, asOwner).Migrate(e.Ctx))
	pgtest.Must(t, s.Migrate(e.Ctx))
	if f := s.examineTables(e.Ctx); !strings.Contains(fmt.Sprint(f), "15 of what a relay needs") {
		t.Errorf("doctor before the grants of the new version: %+v", f)
	}
	for _, line := range later {
		e.Exec(line)
	}
	var kept string
	pgtest.Must(t, e.Pool.QueryRow(e.Ctx, strings.ReplaceAll(`SELECT concat_ws(' ', a.id, a.at AT TIME ZONE 'UTC', a.by, a.action, a.filter, a.changed, '<' || a.role || '>', c.position, p.address, '<' || p.message_group || '>')
FROM {s}.outrider_audit a, {s}.outrider_cursor c, {s}.outrider_pause p`, "{s}", schema)).Scan(&kept))
	if want := `1 2026-01-02 03:04:05 alice seek {"route": "r"} 16 <> 41 topic <>`; kept != want {
		t.Errorf("after the upgrade: %s, want %s", kept, want)
	}
	g := &grantedState{Env: e}
	pgtest.Must(t, g.actAsRelay(s))
}

// Tables that were moved to a schema still work; new ones beside others come with a warning.
func TestStateTablesMoveToASchema(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	var log bytes.Buffer
	open := func(schema string) *Store {
		log.Reset()
		s, err := New(e.Ctx, Config{URL: e.URL, Schema: schema, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		pgtest.Must(t, err)
		t.Cleanup(func() { pgtest.Must(t, s.Close()) })
		pgtest.Must(t, s.Migrate(e.Ctx))
		return s
	}
	pgtest.Must(t, failed(open("").Pause(e.Ctx, adapters.Pause{Route: "r", By: "alice"})))
	if log.Len() > 0 {
		t.Errorf("the first: %s", &log)
	}
	open("another")
	if !strings.Contains(log.String(), "others=[public]") {
		t.Errorf("beside others: %s", &log)
	}
	e.Exec("CREATE SCHEMA moved")
	for _, table := range append(slices.Clone(stateTables), stateVersionTable) {
		e.Exec("ALTER TABLE public." + table + " SET SCHEMA moved")
	}
	pauses, err := open("moved").Pauses(e.Ctx, "")
	if err != nil || len(pauses) != 1 || log.Len() > 0 {
		t.Errorf("moved: %v, %v, %s", pauses, err, &log)
	}
}

// What is printed makes the tables that Migrate makes.
func TestPrintedStateTablesAreThoseOfMigrate(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	printed, err := InitSQL("outrider_printed")
	pgtest.Must(t, err)
	e.Exec(printed)
	inPath, err := InitSQL("")
	pgtest.Must(t, err)
	// Whoever runs it may have a path on which others have functions.
	e.Exec("CREATE SCHEMA path; CREATE FUNCTION path.hashtextextended(text, integer) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 1::bigint'; " +
		"SET search_path = path; " + inPath + "; RESET search_path")
	s, err := New(e.Ctx, Config{URL: e.URL, Schema: "outrider_cursor"})
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, s.Close()) })
	pgtest.Must(t, s.Migrate(e.Ctx))
	shape := func(schema string) (text string) {
		pgtest.Must(t, e.Pool.QueryRow(e.Ctx, `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
SELECT concat_ws(' ', table_name, column_name, ordinal_position, data_type, is_nullable, column_default, is_identity, identity_generation) AS line
FROM information_schema.columns WHERE table_schema = $1
UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = $1
UNION ALL SELECT c.relname || ' ' || pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid WHERE c.relnamespace = $1::text::regnamespace
UNION ALL SELECT relname || ' ' || reloptions::text FROM pg_class WHERE relnamespace = $1::text::regnamespace AND reloptions IS NOT NULL
UNION ALL SELECT 'version ' || version_id::text FROM `+pgx.Identifier{schema, stateVersionTable}.Sanitize()+`) l`, schema).Scan(&text))
		return strings.ReplaceAll(text, " "+schema+".", " ")
	}
	want := shape("outrider_cursor")
	for _, schema := range []string{"outrider_printed", "path"} {
		if got := shape(schema); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", schema, got, want)
		}
	}
	for _, schema := range []string{"outrider_printed", "path"} {
		s, err := New(e.Ctx, Config{URL: e.URL, Schema: schema})
		pgtest.Must(t, err)
		t.Cleanup(func() { pgtest.Must(t, s.Close()) })
		pgtest.Must(t, s.migrate(e.Ctx)) // finds nothing to do
	}
}
