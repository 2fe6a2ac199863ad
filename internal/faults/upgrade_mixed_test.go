package faults_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// evidenceEnv names the file to which the tests of upgrades append what they found, a JSON object per line: `make test-upgrade` sets it.
const evidenceEnv = "OUTRIDER_EVIDENCE"

// sharedTable is a table that relays of two builds read, at once or one after the other.
type sharedTable struct {
	open     func(t *testing.T) (source string, db *sql.DB) // the source's keys that say where it is
	source   string                                         // its other keys
	create   string                                         // empty: init makes it
	insert   string                                         // of id, group and payload
	rows     string                                         // id, group and place of each row
	alone    bool                                           // one relay at a time
	spreads  bool                                           // over relays of all builds
	previous bool                                           // older builds cannot read it
}

const sharedJobs = `layout: custom, table: jobs, queue: {key: id, type: kind, payload: body, status: state, created: made, claimed: taken, group: client, attempts: tries}, claims: {timeout: 2s, recover: 1s}`

var sharedTables = map[string]sharedTable{
	"PostgreSQL own": {
		open:   openShared,
		insert: `INSERT INTO outrider_outbox (id, type, message_group, payload) VALUES ($1, 'jobs', $2, $3::text::json)`,
		rows:   `SELECT id, message_group, position FROM outrider_outbox`,

		spreads: true,
	},
	"PostgreSQL log": {
		open:   openShared,
		source: `layout: custom, table: log, columns: {position: no, xid: xid, id: id, type: "=jobs", group: client, payload: body, created_at: made}`,
		create: `CREATE TABLE log (no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), id text NOT NULL, client text,
    body json, made timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX ON log (xid, no)`,
		insert: `INSERT INTO log (id, client, body) VALUES ($1, $2, $3::text::json)`,
		rows:   `SELECT id, client, no FROM log`,
	},
	"PostgreSQL queue": {
		open:   openShared,
		source: sharedJobs,
		create: `CREATE TABLE jobs (id text PRIMARY KEY, kind text DEFAULT 'jobs', client text, body json, state text NOT NULL DEFAULT 'pending', tries int NOT NULL DEFAULT 0,
    made timestamptz NOT NULL DEFAULT clock_timestamp(), taken timestamptz)`,
		insert: `INSERT INTO jobs (id, client, body) VALUES ($1, $2, $3::text::json)`,
		rows:   `SELECT id, client, row_number() OVER (ORDER BY made, id) FROM jobs`,
	},
	"MariaDB queue": {
		open: func(t *testing.T) (string, *sql.DB) {
			url := testenv.MySQL(t)
			db, err := mysql.Open(url, mysql.TLS{})
			must(t, err)
			return fmt.Sprintf("type: mysql, url: %q", url), db
		},
		source: sharedJobs,
		create: `CREATE TABLE jobs (id varchar(40) PRIMARY KEY, kind varchar(40) DEFAULT 'jobs', client varchar(40), body json, state varchar(20) NOT NULL DEFAULT 'pending',
    tries int NOT NULL DEFAULT 0, made datetime(6) NOT NULL DEFAULT current_timestamp(6), taken datetime(6))`,
		insert:   `INSERT INTO jobs (id, client, body) VALUES (?, ?, ?)`,
		rows:     `SELECT id, client, row_number() OVER (ORDER BY made, id) FROM jobs`,
		previous: true,
	},
	"SQLite own": {
		open:   openSharedFile,
		insert: `INSERT INTO outrider_outbox (id, type, message_group, payload) VALUES (?, 'jobs', ?, ?)`,
		rows:   `SELECT id, message_group, position FROM outrider_outbox`,
		alone:  true,

		previous: true,
	},
	"SQLite queue": {
		open:   openSharedFile,
		source: sharedJobs,
		create: `CREATE TABLE jobs (id text PRIMARY KEY, kind text DEFAULT 'jobs', client text, body text, state text NOT NULL DEFAULT 'pending', tries int DEFAULT 0,
    made datetime, taken datetime)`,
		insert:   `INSERT INTO jobs (id, client, body, made) SELECT ?1, ?2, ?3, ` + strings.ReplaceAll(now, "{t}", "jobs"),
		rows:     `SELECT id, client, row_number() OVER (ORDER BY made, id) FROM jobs`,
		alone:    true,
		previous: true,
	},
}

func openShared(t *testing.T) (string, *sql.DB) {
	t.Helper()
	url := testenv.Postgres(t)
	db, err := sql.Open("pgx", url)
	must(t, err)
	return fmt.Sprintf("type: postgres, url: %q", url), db
}

func openSharedFile(t *testing.T) (string, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sqlite.Open(path)
	must(t, err)
	return fmt.Sprintf("type: sqlite, path: %q", path), db
}

// sharedRig is such a table under load, and what receives its messages.
type sharedRig struct {
	sharedTable
	t        *testing.T
	evidence evidence
	db       *sql.DB
	to       *receiver
	config   string
	begun    time.Time
	stop     func() // ends the writers
}

// evidence is what a test of an upgrade found.
type evidence struct {
	Test       string    `json:"test"`
	From       string    `json:"from"`
	To         string    `json:"to"`
	Table      string    `json:"table"`
	Kills      int       `json:"kills"`
	Committed  int       `json:"committed"`
	Delivered  int       `json:"delivered"`
	Duplicates int       `json:"duplicates"`
	Lost       int       `json:"lost"`
	OutOfOrder int       `json:"out_of_order"`
	Seconds    float64   `json:"seconds"`
	At         time.Time `json:"at"`
}

// forBuilds runs a test on each table and with each former build that can read it, while the application writes.
func forBuilds(t *testing.T, together bool, test func(s *sharedRig, current, former string)) {
	t.Helper()
	for from, of := range map[string]*build{previousCommit: &previous, anchorlessCommit: &anchorless} {
		old := programOf(t, of, from)
		for name, table := range sharedTables {
			if table.alone && together || table.previous && from != previousCommit {
				continue
			}
			t.Run(fmt.Sprintf("%.8s/%s", from, name), func(t *testing.T) {
				t.Parallel()
				s := &sharedRig{t: t, sharedTable: table, to: receive(t, nil), begun: time.Now()}
				head, err := exec.Command("git", "describe", "--always", "--dirty").Output()
				must(t, err)
				s.evidence = evidence{Test: strings.Split(t.Name(), "/")[0], From: fmt.Sprintf("%.8s", from), To: strings.TrimSpace(string(head)), Table: name}
				where, db := table.open(t)
				s.db = db
				t.Cleanup(func() { must(t, db.Close()) })
				for statement := range strings.SplitSeq(table.create, ";\n") {
					if statement != "" {
						_, err := db.ExecContext(t.Context(), statement)
						must(t, err)
					}
				}
				s.config = fmt.Sprintf(`admin: {listen: off}
%s
sources: {app: {%s, poll: {max: 50ms}, %s}}
destinations: {there: {%s}}
routes: {jobs: {from: app, to: there}}
`, strings.Join(quick, "\n"), where, table.source, toHTTP(s.to.url()))
				formerTables(t, old, s.config)
				initialise(t, s.config)
				s.write()
				test(s, program(t), old)
			})
		}
	}
}

// write commits rows until stop is called. Writers have groups of their own.
func (s *sharedRig) write() {
	ctx, cancel := context.WithCancel(s.t.Context())
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := s.publish(fmt.Sprintf("g%d-%d", w, n%7)); err != nil {
					s.t.Errorf("writer %d: %v", w, err)
					return
				}
				pause(ctx, 10*time.Millisecond)
			}
		})
	}
	s.stop = sync.OnceFunc(func() { cancel(); writers.Wait() })
	s.t.Cleanup(s.stop)
}

// publish commits some rows of a group.
func (s *sharedRig) publish(group string) error {
	tx, err := s.db.BeginTx(context.WithoutCancel(s.t.Context()), nil)
	if err != nil {
		return err
	}
	for range 3 {
		id := ulid.Make().String()
		if _, err := tx.ExecContext(context.WithoutCancel(s.t.Context()), s.insert, id, group, fmt.Sprintf(`{"id": %q, "group": %q}`, id, group)); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (s *sharedRig) committed() (out []check.Row) {
	s.t.Helper()
	rows, err := s.db.QueryContext(s.t.Context(), s.rows)
	must(s.t, err)
	defer func() { must(s.t, rows.Close()) }()
	for rows.Next() {
		var row check.Row
		must(s.t, rows.Scan(&row.ID, &row.Group, &row.Position))
		out = append(out, row)
	}
	must(s.t, rows.Err())
	return out
}

// goesOn waits until more has arrived: the builds that run are alive.
func (s *sharedRig) goesOn(r *relay) {
	s.t.Helper()
	s.arrives(r, s.to.arrived()+200)
}

func (s *sharedRig) arrives(r *relay, n int) {
	s.t.Helper()
	r.until("delivers what was committed", func() bool {
		if text := r.output(); strings.Contains(text, "route is stopped") {
			s.t.Fatalf("a route was stopped")
		}
		return s.to.arrived() >= n
	})
}

// leave ends a relay that works beside the writers.
func (s *sharedRig) leave(r *relay, killed bool) {
	s.t.Helper()
	if !killed {
		r.stop()
		return
	}
	r.kill()
	s.evidence.Kills++
}

// spread waits until each of three relays has lanes, where they are shared. In the oldest build the lanes of a queue, and in all builds
// those of a log table, stay with one relay: there the third only has to run.
func (s *sharedRig) spread(third *relay) {
	s.t.Helper()
	third.says("msg=ready")
	if !s.spreads {
		return
	}
	third.until("has lanes", func() bool {
		var owners int
		must(s.t, s.db.QueryRowContext(s.t.Context(),
			`SELECT count(DISTINCT c.owner) FROM outrider_cursor c JOIN outrider_instance i ON i.id = c.owner WHERE i.lease_until > now()`).Scan(&owners))
		return owners == 3
	})
}

// judge ends the writers, has a relay deliver the rest, and compares the arrived messages with the committed ones.
func (s *sharedRig) judge(last *relay) {
	s.t.Helper()
	s.stop()
	rows := s.committed()
	s.arrives(last, len(rows))
	var report check.Report
	last.until("delivered everything", func() bool {
		report = check.Compare(rows, s.to.all()...)
		return report.Lost == 0
	})
	last.stop()
	report = check.Compare(rows, s.to.all()...)
	e := &s.evidence
	e.Committed, e.Delivered, e.Duplicates, e.Lost, e.OutOfOrder = report.Committed, report.Delivered, report.Duplicates, report.Lost, report.OutOfOrder
	e.Seconds, e.At = time.Since(s.begun).Seconds(), time.Now().UTC()
	s.t.Logf("%d kills: %v", e.Kills, report)
	if !report.Clean() || report.Duplicates > e.Kills*1000 {
		s.t.Errorf("want nothing lost or out of order, and duplicates after kills only: %v", report)
	}
	e.write(s.t)
}

// write appends the evidence to the file that the environment names.
func (e evidence) write(t *testing.T) {
	t.Helper()
	name := os.Getenv(evidenceEnv)
	if name == "" {
		return
	}
	line, err := json.Marshal(e)
	must(t, err)
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	_, err = f.Write(append(line, '\n'))
	must(t, errors.Join(err, f.Close()))
}

// TestG1_G2_UpgradeAndBack has a build take over from a former one, the former one from it, and so on, on one table and one state. Every other
// one is killed.
func TestG1_G2_UpgradeAndBack(t *testing.T) {
	t.Parallel()
	forBuilds(t, false, func(s *sharedRig, current, former string) {
		for i, binary := range []string{former, current, former, current, former, current, former} {
			r := startBinary(s.t, binary, s.config)
			s.goesOn(r)
			s.leave(r, i%3 != 0)
		}
		r := startBinary(s.t, current, s.config)
		s.goesOn(r)
		s.judge(r)
	})
}

// TestG1_G2_RollingUpgrade has a build join two former ones, crash and come back; then one of the former ones crashes and the other leaves. Last
// a former one comes back, and the upgrade is undone.
func TestG1_G2_RollingUpgrade(t *testing.T) {
	t.Parallel()
	forBuilds(t, true, func(s *sharedRig, current, former string) {
		first, second := startBinary(s.t, former, s.config), startBinary(s.t, former, s.config)
		s.goesOn(first)
		third := startBinary(s.t, current, s.config)
		s.spread(third)
		s.goesOn(third)
		s.leave(third, true)
		s.goesOn(second)
		third = startBinary(s.t, current, s.config)
		s.spread(third)
		s.goesOn(third)
		s.leave(first, true)
		s.goesOn(third)
		s.leave(second, false)
		s.goesOn(third)
		back := startBinary(s.t, former, s.config)
		back.says("msg=ready")
		s.goesOn(back)
		s.leave(third, true)
		s.goesOn(back)
		s.judge(back)
	})
}
