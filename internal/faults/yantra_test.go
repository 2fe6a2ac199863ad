package faults_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/faults/check"
)

// yantra is Yantra's table and River's in one database, and the configuration of a relay between them.
type yantra struct {
	*presetTable
	config string
}

// newYantra has jobs refused as bad says: a condition on args.
func newYantra(t *testing.T, bad, retry string) *yantra {
	t.Helper()
	y := &yantra{presetTable: newPreset(t, originals["yantra"])}
	m, err := rivermigrate.New(riverpgxv5.New(y.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	_, err = m.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	must(t, err)
	y.exec(`CREATE FUNCTION stumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF ` + bad + ` THEN RAISE EXCEPTION 'not now'; END IF; RETURN NEW; END $$`)
	y.exec(`CREATE TRIGGER stumble BEFORE INSERT ON river_job FOR EACH ROW EXECUTE FUNCTION stumble()`)
	y.config = y.presetTable.config(busy, fmt.Sprintf("type: river, url: %q, batch: {max_messages: 20}", y.url), ", middleware: [{retry: "+retry+"}]")
	initialise(t, y.config)
	return y
}

// jobs are those that River has, in the order in which they were inserted.
func (y *yantra) jobs() []check.Delivery {
	y.t.Helper()
	rows, err := y.pool.Query(y.t.Context(), `SELECT args->>'id', args->>'group' FROM river_job ORDER BY id`)
	must(y.t, err)
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[check.Delivery])
	must(y.t, err)
	return jobs
}

// TestG1_G2_G3_ExactlyOneJobOfARowOfYantra kills instances at each step. In one group the second row of each transaction is refused
// until it has a note (in several the address would be at fault, and no attempt count), so that rows wait with notes while lanes move.
func TestG1_G2_G3_ExactlyOneJobOfARowOfYantra(t *testing.T) {
	t.Parallel()
	y := newYantra(t, `NEW.args->>'group' = 'g0' AND NEW.args->>'id' LIKE '%-1'
		AND NOT EXISTS (SELECT FROM public.outrider_note WHERE key = NEW.metadata->'outrider'->>'event_id')`,
		"{attempts: 1000, base: 50ms, max: 200ms, jitter: 0.1}")
	stop := y.writeEvery(20 * time.Millisecond)
	defer stop()
	run := func(env string) *relay { return startWith(t, y.config, env) }
	alone := []failpoint.Point{failpoint.BeforeSettle, failpoint.AfterSettle} // what is refused is settled apart
	kills := killAtEach(t, alone, nil, run)
	others := []*relay{start(t, y.config), start(t, y.config)}
	kills += killAtEach(t, slices.Concat(failpoint.InTransactions, []failpoint.Point{failpoint.Fetched}), nil, run)
	stop()
	others[0].until("made jobs of everything", func() bool { return y.count("status <> 'processed'") == 0 })
	for _, r := range others {
		r.stop()
	}
	report := check.Compare(y.committed(), y.jobs())
	t.Logf("%d kills: %v", kills, report)
	if !report.Clean() || report.Duplicates > 0 || report.Committed == 0 {
		t.Errorf("want one job of each row, in order: %v", report)
	}
	if n := one[int](y.database, "SELECT count(*) FROM outrider_note"); n > 0 {
		t.Errorf("%d notes of rows that are processed", n)
	}
}

// TestG2_YantraBacksOffOverAKill: a failed row waits for its next attempt, with the later rows of its group, also if the process was killed
// in between; other groups continue.
func TestG2_YantraBacksOffOverAKill(t *testing.T) {
	t.Parallel()
	y := newYantra(t, "NEW.args->>'id' = 'bad-0'", "{attempts: 1000, base: 1h, max: 1h, jitter: 0}")
	must(t, y.publish(t.Context(), "a", "bad", 3))
	r := start(t, y.config)
	r.until("noted the failure", func() bool { return one[int](y.database, "SELECT count(*) FROM outrider_note") == 1 })
	r.kill()
	failed := one[time.Time](y.database, "SELECT noted_at FROM outrider_note")
	must(t, y.publish(t.Context(), "b", "good", 3))
	must(t, y.publish(t.Context(), "a", "behind", 1))
	r = start(t, y.config)
	r.until("delivered the others", func() bool { return y.count("status = 'processed'") == 3 })
	if again := one[time.Time](y.database, "SELECT noted_at FROM outrider_note"); !again.Equal(failed) {
		t.Errorf("the row failed at %v, and again at %v, within its pause of an hour", failed, again)
	}

	y.exec("DROP TRIGGER stumble ON river_job")
	y.exec("UPDATE outrider_note SET due_at = now()") // the hour is over
	r.until("delivered everything", func() bool { return y.count("status = 'processed'") == 7 })
	r.stop()
	if report := check.Compare(y.committed(), y.jobs()); !report.Clean() || report.Duplicates > 0 {
		t.Errorf("jobs: %v", report)
	}
}
