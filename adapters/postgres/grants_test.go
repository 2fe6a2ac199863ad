package postgres

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

	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
)

// grantedSchema has a name that needs quotes.
const grantedSchema = `My "State`

// grantedState is a database whose owner has made the state tables, with a role for
// the relay and one for operators that have the printed grants and nothing else.
type grantedState struct {
	*sourceEnv
	relay, operator     string // roles
	asRelay, asOperator string // their URLs
}

func newGrantedState(t testing.TB) *grantedState {
	t.Helper()
	e := newSourceEnv(t)
	owner, asOwner := e.role()
	e.exec("GRANT CREATE ON DATABASE " + e.pool.Config().ConnConfig.Database + " TO " + owner)
	s := openStateAs(t, asOwner)
	must(t, s.Migrate(e.ctx))
	g := &grantedState{sourceEnv: e}
	g.relay, g.asRelay = e.role()
	g.operator, g.asOperator = e.role()
	for line := range strings.Lines(StateGrants(grantedSchema).SQL(Grantees{Relay: g.relay, Operator: g.operator})) {
		e.exec(line)
	}
	return g
}

func openStateAs(t testing.TB, url string) *State {
	t.Helper()
	s, err := NewState(context.Background(), StateConfig{URL: url, Schema: grantedSchema})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// byTask is a store whose methods are called by the role that calls them in life.
type byTask struct {
	*State   // the relay's
	operator *State
}

func (b byTask) ListParked(ctx context.Context, f outbox.ParkedFilter) ([]outbox.Parked, error) {
	return b.operator.ListParked(ctx, f)
}

func (b byTask) CountParked(ctx context.Context, c outbox.ParkedCommand) ([]outbox.ParkedCount, error) {
	return b.operator.CountParked(ctx, c)
}

func (b byTask) ChangeParked(ctx context.Context, c outbox.ParkedCommand) (outbox.ParkedStep, error) {
	return b.operator.ChangeParked(ctx, c)
}

func (b byTask) Pause(ctx context.Context, p outbox.Pause) (bool, error) {
	return b.operator.Pause(ctx, p)
}

func (b byTask) Resume(ctx context.Context, route, address, by string) (bool, error) {
	return b.operator.Resume(ctx, route, address, by)
}

func (b byTask) Move(ctx context.Context, m outbox.Move) error { return b.operator.Move(ctx, m) }

func (b byTask) Forget(ctx context.Context, route string, force bool, by string) (outbox.Forgotten, error) {
	return b.operator.Forget(ctx, route, force, by)
}

func (b byTask) Lanes(ctx context.Context) ([]outbox.LaneStatus, error) { return b.operator.Lanes(ctx) }

// The store keeps its contract with the printed grants and nothing else.
func TestG12_StateConformanceWithGrantsAlone(t *testing.T) {
	t.Parallel()
	adaptertest.StateStore(t, adaptertest.StateHarness{New: func(tb testing.TB) func() outbox.StateStore {
		g := newGrantedState(tb)
		return func() outbox.StateStore {
			return byTask{openStateAs(tb, g.asRelay), openStateAs(tb, g.asOperator)}
		}
	}})
}

// asRelay does what a relay does with its state, and returns what failed.
func (g *grantedState) actAsRelay(s *State) error {
	const instance = "relay-1"
	lane := outbox.LaneRef{Route: "r"}
	parked := []outbox.Parked{{Seq: 1, Status: outbox.ParkedDead, ID: "e"}, {Seq: 2, Status: outbox.ParkedWaiting, Group: "g", ID: "f"}}
	event := outbox.EventRef{Route: "r", ID: "e"}
	return errors.Join(
		s.Migrate(g.ctx), s.Join(g.ctx, instance, time.Hour), s.Announce(g.ctx, instance, nil),
		s.Bind(g.ctx, "r", outbox.Table{Cluster: "c", Name: "t"}),
		func() error {
			lanes, err := s.Acquire(g.ctx, instance, "r", []int{0}, 1)
			if err != nil || len(lanes) != 1 {
				return fmt.Errorf("acquired %d: %w", len(lanes), err)
			}
			settlement := outbox.Settlement{LaneRef: lane, Epoch: lanes[0].Epoch, NextSeq: 3, Park: parked, Stored: 1, Table: outbox.Table{Cluster: "c", Name: "t"}}
			_, err = s.Settle(g.ctx, []outbox.Settlement{settlement})
			settlement.Park, settlement.Unpark = nil, []int64{2}
			_, again := s.Settle(g.ctx, []outbox.Settlement{settlement})
			return errors.Join(err, again)
		}(),
		failed(s.ParkedGroups(g.ctx, "r", []int{0})), failed(s.ParkedQueue(g.ctx, lane, "g", 0, 1)),
		failed(s.Lanes(g.ctx)), failed(s.Instances(g.ctx)), failed(s.Pauses(g.ctx, "")),
		failed(s.Pause(g.ctx, outbox.Pause{Route: "r", Address: time.Now().String(), By: "410"})), // else nothing would be written
		failed(s.ChangeParked(g.ctx, outbox.ParkedCommand{Action: outbox.ParkedPurge, Filter: outbox.ParkedFilter{Route: "r"}, By: "keep"})),
		s.Record(g.ctx, []outbox.Sighting{{EventRef: event, Keep: time.Microsecond}}), failed(s.Seen(g.ctx, []outbox.EventRef{event})),
		failed(s.Expire(g.ctx, 10)), s.Release(g.ctx, instance, []outbox.LaneRef{lane}), s.Leave(g.ctx, instance))
}

func (g *grantedState) actAsOperator(s *State) error {
	command := func(a outbox.ParkedAction) error {
		return failed(s.ChangeParked(g.ctx, outbox.ParkedCommand{Action: a, Filter: outbox.ParkedFilter{Route: "r"}, By: "alice"}))
	}
	_, err := s.pool.Exec(g.ctx, `SELECT * FROM outrider_audit ORDER BY id DESC LIMIT 10`)
	return errors.Join(err, failed(s.version(g.ctx)), failed(s.Lanes(g.ctx)), failed(s.Instances(g.ctx)),
		failed(s.ListParked(g.ctx, outbox.ParkedFilter{})), command(outbox.ParkedRedrive), command(outbox.ParkedSkip), command(outbox.ParkedPurge),
		s.Move(g.ctx, outbox.Move{Route: "r", Cursors: map[int]outbox.Cursor{0: {Position: 1}}, Table: outbox.Table{Cluster: "c", Name: "t"}, Action: "seek", By: "alice"}),
		failed(s.Pause(g.ctx, outbox.Pause{Route: "r", By: "alice"})), failed(s.Resume(g.ctx, "r", "", "alice")), failed(s.Forget(g.ctx, "r", true, "alice")))
}

func failed[T any](_ T, err error) error { return err }

// Each privilege that is granted is needed: without it something fails, doctor says
// so, and what it advises mends it.
func TestG12_EveryGrantIsNeeded(t *testing.T) {
	t.Parallel()
	g := newGrantedState(t)
	for task, role := range map[Task]struct {
		name string
		s    *State
		act  func(*State) error
	}{
		TaskRelay:    {g.relay, openStateAs(t, g.asRelay), g.actAsRelay},
		TaskOperator: {g.operator, openStateAs(t, g.asOperator), g.actAsOperator},
	} {
		seed := func() { // what a command changes or deletes
			g.exec(strings.ReplaceAll(`INSERT INTO {s}.outrider_parked (route, slot, seq, status, attempts, last_error, event_id, event_type, position, metadata, payload)
VALUES ('r', 0, 9, 'dead', 1, '', 'x', '', 1, '{}', '') ON CONFLICT DO NOTHING`, "{s}", pgx.Identifier{grantedSchema}.Sanitize()))
		}
		seed()
		if err := role.act(role.s); err != nil {
			t.Fatalf("%s with all of its grants: %v", task, err)
		}
		for _, one := range StateGrants(grantedSchema).each(task) {
			seed()
			g.exec(strings.NewReplacer("GRANT", "REVOKE", " TO ", " FROM ").Replace(one.sql(role.name)))
			if err := role.act(role.s); !failedWith(err, insufficientPrivilege) {
				t.Errorf("%s without %s: %v", task, one.sql(role.name), err)
			}
			lacking, quoted, err := StateGrants(grantedSchema).missing(g.ctx, role.s.pool, task)
			if must(t, err); len(lacking) != 1 {
				t.Fatalf("without %s: found %d missing", one.sql(role.name), len(lacking))
			}
			found, _ := role.s.examinePrivileges(g.ctx)
			if len(found) != 1 || !strings.Contains(found[0].Fix, lacking.fix(quoted)) {
				t.Errorf("without %s: %+v", one.sql(role.name), found)
			}
			g.exec(lacking.fix(quoted))
		}
		if err := role.act(role.s); err != nil {
			t.Errorf("%s after what doctor advised: %v", task, err)
		}
	}
}

// each returns the grants for a task, right by right and column by column.
func (gs Grants) each(task Task) (out Grants) {
	for _, g := range gs {
		for _, r := range g.rights {
			columns := r.columns
			if len(columns) == 0 || r.whole {
				columns = []string{""}
			}
			for _, c := range columns {
				one := g
				one.rights = []right{r}
				if c != "" {
					one.rights[0].columns = []string{c}
				}
				if g.task == task {
					out = append(out, one)
				}
			}
		}
	}
	return out
}

// Who may write audit records chooses neither their time nor their role, and changes none.
func TestG12_AuditIsInsertOnly(t *testing.T) {
	t.Parallel()
	g := newGrantedState(t)
	must(t, g.actAsRelay(openStateAs(t, g.asRelay)))
	must(t, g.actAsOperator(openStateAs(t, g.asOperator)))
	table := pgx.Identifier{grantedSchema, "outrider_audit"}.Sanitize()
	roles := map[string]string{}
	rows, err := g.pool.Query(g.ctx, "SELECT by, role FROM "+table+" WHERE at > now() - interval '1 hour'")
	must(t, err)
	var by, role string
	_, err = pgx.ForEachRow(rows, []any{&by, &role}, func() error { roles[by] = role; return nil })
	must(t, err)
	if len(roles) != 3 || roles["410"] != g.relay || roles["keep"] != g.relay || roles["alice"] != g.operator {
		t.Errorf("recorded %v, want the relay %s and the operator %s", roles, g.relay, g.operator)
	}
	for _, url := range []string{g.asRelay, g.asOperator} {
		conn, err := pgx.Connect(g.ctx, url)
		must(t, err)
		t.Cleanup(func() { must(t, conn.Close(g.ctx)) })
		for _, forbidden := range []string{
			"UPDATE {t} SET by = 'bob'", "DELETE FROM {t}", "TRUNCATE {t}", "ALTER TABLE {t} ALTER COLUMN role DROP DEFAULT",
			"INSERT INTO {t} (by, action, filter, changed, role) VALUES ('a', 'seek', '{}', 1, 'somebody')",
			"INSERT INTO {t} (by, action, filter, changed, at) VALUES ('a', 'seek', '{}', 1, now() - interval '1 year')",
			"INSERT INTO {t} (id, by, action, filter, changed) OVERRIDING SYSTEM VALUE VALUES (1000, 'a', 'seek', '{}', 1)",
		} {
			if _, err := conn.Exec(g.ctx, strings.ReplaceAll(forbidden, "{t}", table)); !failedWith(err, insufficientPrivilege) {
				t.Errorf("%s: %v", forbidden, err)
			}
		}
	}
}

// A role that may create nothing starts where the tables are up to date, and is
// told by whom they can be made so where they are not. What was kept stays.
func TestG12_ARelayThatMayNotMigrate(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	owner, asOwner := e.role()
	relay, asRelay := e.role()
	s := openStateAs(t, asRelay)
	wantError(t, s.Migrate(e.ctx), `there is no schema "My ""State"`, relay, "outrider init", "CREATE in it")
	schema := pgx.Identifier{grantedSchema}.Sanitize()
	e.exec("CREATE SCHEMA " + schema + " AUTHORIZATION " + owner)
	e.exec("GRANT USAGE ON SCHEMA " + schema + " TO " + relay)
	e.exec("GRANT CREATE ON DATABASE " + e.pool.Config().ConnConfig.Database + " TO " + owner) // CREATE SCHEMA IF NOT EXISTS wants it
	wantError(t, s.Migrate(e.ctx), "there are no state tables in schema", relay, "outrider init", owner)

	printed, err := InitStateSQL(grantedSchema)
	must(t, err)
	former, _, found := strings.Cut(printed, "\n-- Version 7\n")
	if !found {
		t.Fatalf("no version 7 in\n%s", printed)
	}
	e.exec(strings.ReplaceAll("SET ROLE "+owner+";\n"+former+`;
INSERT INTO {s}.outrider_cursor (route, slot, position, cluster, source) VALUES ('r', 3, 41, 'c', 't');
INSERT INTO {s}.outrider_audit (at, by, action, filter, changed) VALUES ('2026-01-02T03:04:05Z', 'alice', 'seek', '{"route": "r"}', 16);
RESET ROLE`, "{s}", schema))
	for line := range strings.Lines(StateGrants(grantedSchema).SQL(Grantees{Relay: relay})) {
		e.exec(line)
	}
	wantError(t, s.Migrate(e.ctx), "of another version", relay, "outrider init", "role "+owner+", which owns them")
	if f := s.examineTables(e.ctx); len(f) < 2 || !strings.Contains(f[len(f)-1].Text, "of version 6") {
		t.Errorf("doctor: %+v", f)
	}
	must(t, openStateAs(t, asOwner).Migrate(e.ctx))
	must(t, s.Migrate(e.ctx))
	var kept string
	must(t, e.pool.QueryRow(e.ctx, strings.ReplaceAll(`SELECT concat_ws(' ', a.id, a.at AT TIME ZONE 'UTC', a.by, a.action, a.filter, a.changed, '<' || a.role || '>', c.position)
FROM {s}.outrider_audit a, {s}.outrider_cursor c`, "{s}", schema)).Scan(&kept))
	if want := `1 2026-01-02 03:04:05 alice seek {"route": "r"} 16 <> 41`; kept != want {
		t.Errorf("after the upgrade: %s, want %s", kept, want)
	}
	g := &grantedState{sourceEnv: e}
	must(t, g.actAsRelay(s))
}

// Tables that were moved to a schema go on; new ones beside others come with a warning.
func TestStateTablesMoveToASchema(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	var log bytes.Buffer
	open := func(schema string) *State {
		log.Reset()
		s, err := NewState(e.ctx, StateConfig{URL: e.url, Schema: schema, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		must(t, s.Migrate(e.ctx))
		return s
	}
	must(t, failed(open("").Pause(e.ctx, outbox.Pause{Route: "r", By: "alice"})))
	if log.Len() > 0 {
		t.Errorf("the first: %s", &log)
	}
	open("another")
	if !strings.Contains(log.String(), "others=[public]") {
		t.Errorf("beside others: %s", &log)
	}
	e.exec("CREATE SCHEMA moved")
	for _, table := range append(slices.Clone(stateTables), stateVersionTable) {
		e.exec("ALTER TABLE public." + table + " SET SCHEMA moved")
	}
	pauses, err := open("moved").Pauses(e.ctx, "")
	if err != nil || len(pauses) != 1 || log.Len() > 0 {
		t.Errorf("moved: %v, %v, %s", pauses, err, &log)
	}
}

// What is printed makes the tables that Migrate makes.
func TestPrintedStateTablesAreThoseOfMigrate(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	printed, err := InitStateSQL("outrider_printed")
	must(t, err)
	e.exec(printed)
	inPath, err := InitStateSQL("")
	must(t, err)
	// Whoever runs it may have a path on which others have functions.
	e.exec("CREATE SCHEMA path; CREATE FUNCTION path.hashtextextended(text, integer) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 1::bigint'; " +
		"SET search_path = path; " + inPath + "; RESET search_path")
	s, err := NewState(e.ctx, StateConfig{URL: e.url, Schema: "outrider_cursor"})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	must(t, s.Migrate(e.ctx))
	shape := func(schema string) (text string) {
		must(t, e.pool.QueryRow(e.ctx, `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
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
		s, err := NewState(e.ctx, StateConfig{URL: e.url, Schema: schema})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		must(t, s.migrate(e.ctx)) // finds nothing to do
	}
}

// A trigger on a table runs with the rights of whoever writes to it, so a superuser
// is warned of tables that others own, and has no need to be one.
func TestG12_ASuperuserIsWarnedOfTablesOfOthers(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	owner, _ := e.role()
	relay, asRelay := e.role()
	e.exec(OutboxGrants("public.outrider_outbox", outbox.RetainRows).SQL(Grantees{Relay: relay}))
	warned := func(s *Source) string {
		found := s.Examine(e.ctx)
		i := slices.IndexFunc(found, func(f outbox.Finding) bool {
			return f.Level == outbox.LevelWarning && strings.Contains(f.Subject, "owner")
		})
		if i < 0 {
			return ""
		}
		return found[i].Text
	}
	if got := warned(e.src); got != "" {
		t.Errorf("of its own table: %s", got)
	}
	e.exec("ALTER TABLE outrider_outbox OWNER TO " + owner)
	if got := warned(e.src); !strings.Contains(got, owner) || !strings.Contains(got, "superuser") {
		t.Errorf("of another's table: %q", got)
	}
	if got := warned(e.source(asRelay, "")); got != "" {
		t.Errorf("no superuser is warned: %s", got)
	}
	must(t, e.source(asRelay, "").CheckRetention(e.ctx, outbox.Retention{Mode: outbox.RetainRows}))
}

// Publishers insert with their grant alone.
func TestG12_PublishersNeedTheirGrantAlone(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	e.exec("CREATE SCHEMA shop")
	_, err := Init(e.ctx, e.pool, "shop.events")
	must(t, err)
	must(t, e.source(e.url, "shop.events").Check(e.ctx))
	_, err = InitWake(e.ctx, e.pool, "shop.events")
	must(t, err)
	role, as := e.role()
	conn, err := pgx.Connect(e.ctx, as)
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close(e.ctx)) })
	client, err := outbox.NewClient(outbox.ClientConfig{Table: "shop.events", Dialect: outbox.PostgreSQL, Notify: true})
	must(t, err)
	message, err := outbox.New("t").JSON(1).Build()
	must(t, err)
	publish := func() error {
		return pgx.BeginFunc(e.ctx, conn, func(tx pgx.Tx) error {
			return client.Publish(e.ctx, tx, message, message)
		})
	}
	for _, one := range OutboxGrants("shop.events", "").each(TaskPublish) {
		if err := publish(); !failedWith(err, insufficientPrivilege) {
			t.Errorf("before %s: %v", one.sql(role), err)
		}
		e.exec(one.sql(role))
	}
	must(t, publish())
}
