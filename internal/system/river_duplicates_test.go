package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/config"
)

// TestG3_DuplicatesOfADeliveryThatRollsBackAreNotCounted has the transactions that deliver and settle fail as they commit, after River
// has refused a job as a duplicate.
func TestG3_DuplicatesOfADeliveryThatRollsBackAreNotCounted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		source  string
		publish func(j *jobs, n int)
	}{
		"cursor": {"", func(j *jobs, _ int) { j.publish(true, event{N: 1, Group: "g"}) }},
		"status": {", layout: yantra", func(j *jobs, n int) {
			_, err := j.pool.Exec(j.t.Context(), fmt.Sprintf(`INSERT INTO outbox_messages VALUES ('00000000-0000-4000-8000-00000000000%d', 'g', 'A', 't', '{"n": 1}', 'pending', clock_timestamp())`, n))
			must(j.t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJobs(t, tt.source)
			cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
sources: {app: {type: postgres, url: %q, poll: {max: 20ms}%s}}
destinations: {jobs: {type: river, url: %q, unique: {by_args: true}}}
routes: {work: {from: app, to: jobs}}
`, j.url, tt.source, j.url))
			must(t, err)
			exec := func(sql string) {
				t.Helper()
				_, err := j.pool.Exec(t.Context(), sql)
				must(t, err)
			}
			tt.publish(j, 1)
			o, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- o.Run(ctx) }()
			defer func() {
				cancel()
				must(t, <-done)
			}()
			eventually(t, "the first is a job", func() bool { return j.count(`SELECT count(*) FROM river_job`) == 1 })

			exec(`CREATE SEQUENCE refusals`)
			exec(`CREATE FUNCTION not_now() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('public.refusals'); RAISE EXCEPTION 'not now'; END $$`)
			exec(`CREATE CONSTRAINT TRIGGER not_now AFTER UPDATE ON river_job DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION not_now()`)
			tt.publish(j, 2)
			eventually(t, "a delivery has failed as it commits", func() bool { return j.count(`SELECT count(*) FROM refusals WHERE is_called`) == 1 })
			exec(`DROP TRIGGER not_now ON river_job`)
			eventually(t, "the second has been delivered", func() bool { return o.Stats()[0].Delivered == 2 })
			if n := o.Stats()[0].Duplicates; n != 1 {
				t.Errorf("%d duplicates are counted, want 1", n)
			}
			if n := j.count(`SELECT count(*) FROM river_job`); n != 1 {
				t.Errorf("%d jobs, want 1", n)
			}
		})
	}
}

// TestG1_UniqueJobsOfOneBatch has most messages of a batch become the same few jobs, in the transaction that settles them. River gets each job
// once, the others count as duplicates, and nothing fails on the way.
func TestG1_UniqueJobsOfOneBatch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		source, left string
		publish      func(j *jobs)
	}{
		"cursor": {"", "SELECT 0", func(j *jobs) {
			var events []event
			for i := range 60 {
				events = append(events, event{N: i % 3, Group: "g"})
			}
			j.publish(true, events...)
		}},
		"status": {", layout: yantra", "SELECT count(*) FROM outbox_messages WHERE status <> 'processed'", func(j *jobs) {
			_, err := j.pool.Exec(j.t.Context(), `INSERT INTO outbox_messages SELECT gen_random_uuid(), 'g' || i % 5, 'A', 't',
				json_build_object('n', i % 3), 'pending', clock_timestamp() FROM generate_series(0, 59) i`)
			must(j.t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJobs(t, tt.source)
			j.cfg.Destinations["jobs"].(*config.River).Unique.ByArgs = true
			tt.publish(j)
			stop := j.run()
			defer stop()
			eventually(t, "all are delivered", func() bool {
				stats := j.relay.Stats()
				return len(stats) == 1 && stats[0].Delivered == 60 && j.count(tt.left) == 0
			})
			stop()
			if jobs, n := j.count(`SELECT count(*) FROM river_job`), j.relay.Stats()[0].Duplicates; jobs != 3 || n != 57 {
				t.Errorf("%d jobs and %d duplicates, want 3 and 57", jobs, n)
			}
			if log := j.log.all(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
				t.Errorf("something failed:\n%s", log)
			}
		})
	}
}
