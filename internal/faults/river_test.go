package faults_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// newRiver makes a database with an outbox table and River's tables.
func newRiver(t *testing.T) *database {
	t.Helper()
	db := newDatabase(t)
	m, err := rivermigrate.New(riverpgxv5.New(db.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	_, err = m.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	must(t, err)
	return db
}

// The events of which River has jobs, and another outbox table rows, in the order in which they were inserted.
const (
	jobsSQL = `SELECT metadata->'outrider'->>'event_id' FROM river_job ORDER BY id`
	copySQL = `SELECT id FROM copy ORDER BY position`
)

// inserted are the ids of events in a table.
func (d *database) inserted(sql string) []string {
	d.t.Helper()
	rows, err := d.pool.Query(d.t.Context(), sql)
	must(d.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(d.t, err)
	return ids
}

// compareOnce compares the inserted jobs with the outbox: each committed row once, and the rows of a group in order.
func compareOnce(t *testing.T, db *database, inserted []string) {
	t.Helper()
	rows, at := map[string]check.Row{}, map[string]int64{}
	for _, row := range db.rows() {
		rows[row.ID] = row
	}
	seen := map[string]int{}
	for _, id := range inserted {
		row, committed := rows[id]
		if seen[id]++; !committed {
			t.Errorf("%s was inserted, which was never committed", id)
		}
		if row.Group == "" {
			continue
		}
		if at[row.Group] >= row.Position {
			t.Errorf("group %s: position %d was inserted behind %d", row.Group, row.Position, at[row.Group])
		}
		at[row.Group] = row.Position
	}
	for id := range rows {
		if seen[id] != 1 {
			t.Errorf("%s was inserted %d times, want exactly once", id, seen[id])
		}
	}
}

// TestG1_G2_G3_ExactlyOneJobWhateverStepIsKilled kills one of three instances at each step of a delivery that commits with
// what settles it. One row of fifty is refused when it comes, so that messages are parked and come back.
func TestG1_G2_G3_ExactlyOneJobWhateverStepIsKilled(t *testing.T) {
	t.Parallel()
	db := newRiver(t)
	onceWhateverIsKilled(t, db, db, "river_job", "type: river", jobsSQL, failpoint.InTransactions)
}

// TestG1_G2_G3_ExactlyOneRowWhateverStepIsKilled is the same for another outbox table, whose event ids are not unique.
func TestG1_G2_G3_ExactlyOneRowWhateverStepIsKilled(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	_, err := owntable.Init(t.Context(), db.pool, "copy")
	must(t, err)
	onceWhateverIsKilled(t, db, db, "copy", "type: sql, table: copy", copySQL, failpoint.InTransactions)
}

// TestG1_G2_G3_OneRowInAnotherDatabaseWhateverStepIsKilled is the same for another database, in which event ids are unique.
func TestG1_G2_G3_OneRowInAnotherDatabaseWhateverStepIsKilled(t *testing.T) {
	t.Parallel()
	db, away := newDatabase(t), newDatabase(t)
	_, err := owntable.Init(t.Context(), away.pool, "copy")
	must(t, err)
	away.exec("CREATE UNIQUE INDEX ON copy (id)")
	onceWhateverIsKilled(t, db, away, "copy", "type: sql, table: copy", copySQL, []failpoint.Point{failpoint.BeforeSend, failpoint.AfterSend})
}

// onceWhateverIsKilled has three instances insert rows into a table of the database in, of which one is killed at each of the usual
// steps and points, and compares.
func onceWhateverIsKilled(t *testing.T, db, in *database, table, destination, inserted string, points []failpoint.Point) {
	t.Helper()
	in.exec(`CREATE FUNCTION stumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF random() < 0.02 THEN RAISE EXCEPTION 'not now'; END IF; RETURN NEW; END $$`)
	in.exec(`CREATE TRIGGER stumble BEFORE INSERT ON ` + table + ` FOR EACH ROW EXECUTE FUNCTION stumble()`)
	config := settings{database: db.url, top: quick, window: killWindow, middleware: "[{retry: {attempts: 50, base: 1200ms, max: 1200ms, jitter: 0.1}}]",
		destination: fmt.Sprintf("%s, url: %q, batch: {max_messages: 20}", destination, in.url)}.text()
	w := write(t, db.pool, false)
	others := []*relay{start(t, config), start(t, config)}
	if soak(t) > 0 || table == "river_job" && testenv.Full() { // the other tables show in a soak that these steps are no different there
		points = slices.Concat([]failpoint.Point{failpoint.Fetched, failpoint.Parking, failpoint.Unparking, failpoint.InSettle, failpoint.AfterSettle}, points)
	}
	kills := killAtEachTimes(t, 50, points, nil, func(env string) *relay { return startWith(t, config, env) })
	w.stop()
	others[0].until("inserted everything", func() bool {
		return one[int](in, "SELECT count(*) FROM "+table) >= one[int](db, "SELECT count(*) FROM outrider_outbox")
	})
	for _, r := range others {
		r.stop()
	}
	ids := in.inserted(inserted)
	compareOnce(t, db, ids)
	t.Logf("%d kills, at %v in turn: %d rows", kills, points, len(ids))
}
