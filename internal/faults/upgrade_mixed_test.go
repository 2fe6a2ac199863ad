package faults_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// sharedTable is a table that relays of two builds read, at once or one after the other.
type sharedTable struct {
	source string // keys other than type and url
	create string // empty: init makes it
	insert string // of id, group and payload
	rows   string // id, group and place of each row
}

var sharedTables = map[string]sharedTable{
	"own": {
		insert: `INSERT INTO outrider_outbox (id, type, message_group, payload) VALUES ($1, 'jobs', $2, $3::text::json)`,
		rows:   `SELECT id, message_group, position FROM outrider_outbox`,
	},
	"log": {
		source: `layout: custom, table: log, columns: {position: no, xid: xid, id: id, type: "=jobs", group: client, payload: body, created_at: made}`,
		create: `CREATE TABLE log (no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), id text NOT NULL, client text,
    body json, made timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX ON log (xid, no)`,
		insert: `INSERT INTO log (id, client, body) VALUES ($1, $2, $3::text::json)`,
		rows:   `SELECT id, client, no FROM log`,
	},
	"queue": {
		source: `layout: custom, table: jobs, queue: {key: id, type: kind, payload: body, status: state, created: made, claimed: taken, group: client, attempts: tries}`,
		create: `CREATE TABLE jobs (id text PRIMARY KEY, kind text DEFAULT 'jobs', client text, body json, state text NOT NULL DEFAULT 'pending', tries int NOT NULL DEFAULT 0,
    made timestamptz NOT NULL DEFAULT clock_timestamp(), taken timestamptz)`,
		insert: `INSERT INTO jobs (id, client, body) VALUES ($1, $2, $3::text::json)`,
		rows:   `SELECT id, client, row_number() OVER (ORDER BY made, id) FROM jobs`,
	},
}

// sharedRig is such a table, and what receives its messages.
type sharedRig struct {
	*database
	sharedTable
	to     *receiver
	config string
	kills  int
}

// forBuilds runs a test on each table; old is the program of a build that knows no anchors.
func forBuilds(t *testing.T, test func(s *sharedRig, current, old string)) {
	t.Helper()
	old := programOf(t, &anchorless, anchorlessCommit)
	for name, table := range sharedTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testenv.Postgres(t)
			pool, err := pgxpool.New(t.Context(), url)
			must(t, err)
			t.Cleanup(pool.Close)
			s := &sharedRig{database: &database{t: t, url: url, pool: pool}, sharedTable: table, to: receive(t, nil)}
			if table.create != "" {
				s.exec(table.create)
			}
			s.config = fmt.Sprintf(`admin: {listen: off}
%s
sources: {app: {type: postgres, url: %q, poll: {max: 50ms}, %s}}
destinations: {there: {%s}}
routes: {jobs: {from: app, to: there}}
`, strings.Join(quick, "\n"), url, table.source, toHTTP(s.to.url()))
			formerTables(t, old, s.config)
			initialise(t, s.config)
			test(s, program(t), old)
		})
	}
}

// publish commits rows of each group, and waits until all rows have arrived: the builds that run are alive.
func (s *sharedRig) publish(r *relay) {
	s.t.Helper()
	for g := range 20 {
		must(s.t, pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) error {
			for range 10 {
				id, group := ulid.Make().String(), fmt.Sprint("g", g)
				if _, err := tx.Exec(s.t.Context(), s.insert, id, group, fmt.Sprintf(`{"id": %q, "group": %q}`, id, group)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	rows := len(s.committed())
	r.until("delivers what was committed", func() bool {
		if text := r.output(); strings.Contains(text, "route is stopped") {
			s.t.Fatalf("a route was stopped")
		}
		return s.to.arrived() >= rows
	})
}

func (s *sharedRig) committed() []check.Row {
	s.t.Helper()
	found, err := s.pool.Query(s.t.Context(), s.sharedTable.rows)
	must(s.t, err)
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[check.Row])
	must(s.t, err)
	return rows
}

// spread waits until each of three relays has lanes of the own table. In the old build the lanes of a queue, and in both builds
// those of a log table, stay with one relay: there the third only has to run.
func (s *sharedRig) spread(third *relay) {
	s.t.Helper()
	if s.create != "" {
		third.says("msg=ready")
		return
	}
	third.until("has lanes", func() bool {
		return strings.Contains(third.output(), "route is stopped") ||
			one[int](s.database, `SELECT count(DISTINCT c.owner) FROM outrider_cursor c JOIN outrider_instance i ON i.id = c.owner WHERE i.lease_until > now()`) == 3
	})
}

// judge compares the arrived messages with the committed ones.
func (s *sharedRig) judge() {
	s.t.Helper()
	report := check.Compare(s.committed(), s.to.all()...)
	s.t.Logf("%d kills: %v", s.kills, report)
	if !report.Clean() || report.Duplicates > s.kills*1000 {
		s.t.Errorf("want nothing lost or out of order, and duplicates after kills only: %v", report)
	}
}

// TestG1_G2_UpgradeAndBack has a build take over from an old one, the old one from it, and it again, on one table and one state.
func TestG1_G2_UpgradeAndBack(t *testing.T) {
	t.Parallel()
	forBuilds(t, func(s *sharedRig, current, old string) {
		for _, binary := range []string{current, old, current, old, current} {
			r := startBinary(s.t, binary, s.config)
			s.publish(r)
			r.stop()
		}
		s.judge()
	})
}

// TestG1_G2_RollingUpgrade has a build join two old ones, crash and come back; then the old ones leave.
func TestG1_G2_RollingUpgrade(t *testing.T) {
	t.Parallel()
	forBuilds(t, func(s *sharedRig, current, old string) {
		first, second := startBinary(s.t, old, s.config), startBinary(s.t, old, s.config)
		s.publish(first)
		third := startBinary(s.t, current, s.config)
		s.spread(third)
		s.publish(third)
		third.kill()
		s.kills++
		s.publish(second)
		third = startBinary(s.t, current, s.config)
		s.spread(third)
		s.publish(third)
		first.stop()
		s.publish(third)
		second.stop()
		s.publish(third)
		third.stop()
		s.judge()
	})
}
