package faults_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/faults/check"
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

// jobs are the ids of the events of which River has jobs, in the order in which they were inserted.
func (d *database) jobs() []string {
	d.t.Helper()
	rows, err := d.pool.Query(d.t.Context(), `SELECT metadata->'outrider'->>'event_id' FROM river_job ORDER BY id`)
	must(d.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(d.t, err)
	return ids
}

// compareJobs holds River's table against the outbox: one job for each committed row, and the rows of a group in
// their order.
func compareJobs(t *testing.T, db *database) {
	t.Helper()
	rows, at := map[string]check.Row{}, map[string]int64{}
	for _, row := range db.rows() {
		rows[row.ID] = row
	}
	seen := map[string]int{}
	for _, id := range db.jobs() {
		row, committed := rows[id]
		if seen[id]++; !committed {
			t.Errorf("there is a job of %s, which was never committed", id)
		}
		if row.Group == "" {
			continue
		}
		if at[row.Group] >= row.Position {
			t.Errorf("group %s: the job of position %d was inserted behind that of %d", row.Group, row.Position, at[row.Group])
		}
		at[row.Group] = row.Position
	}
	for id := range rows {
		if seen[id] != 1 {
			t.Errorf("%s has %d jobs, want exactly 1", id, seen[id])
		}
	}
}

// TestG1_G2_G3_ExactlyOneJobWhateverStepIsKilled kills one of three instances at each step of a delivery that commits with
// what settles it. One job of fifty is refused when it comes, so that messages are parked and come back.
func TestG1_G2_G3_ExactlyOneJobWhateverStepIsKilled(t *testing.T) {
	t.Parallel()
	db := newRiver(t)
	db.exec(`CREATE FUNCTION stumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF random() < 0.02 THEN RAISE EXCEPTION 'not now' USING ERRCODE = 'serialization_failure'; END IF; RETURN NEW; END $$`)
	db.exec(`CREATE TRIGGER stumble BEFORE INSERT ON river_job FOR EACH ROW EXECUTE FUNCTION stumble()`)
	config := settings{database: db.url, top: quick, window: killWindow, middleware: "[{retry: {attempts: 50, base: 1200ms, max: 1200ms, jitter: 0.1}}]",
		destination: fmt.Sprintf("type: river, url: %q, batch: {max_messages: 20}", db.url)}.text()
	w := write(t, db.pool, false)
	others := []*relay{start(t, config), start(t, config)}
	points := slices.Concat([]failpoint.Point{failpoint.Fetched, failpoint.Parking, failpoint.Unparking, failpoint.InSettle, failpoint.AfterSettle}, failpoint.InTransactions)
	kills := killAtEach(t, points, nil, func(env string) *relay { return startWith(t, config, env) })
	w.stop()
	others[0].until("made jobs of everything", func() bool { return len(db.jobs()) >= one[int](db, "SELECT count(*) FROM outrider_outbox") })
	for _, r := range others {
		r.stop()
	}
	compareJobs(t, db)
	t.Logf("%d kills, at %v in turn: %d jobs", kills, points, len(db.jobs()))
}
