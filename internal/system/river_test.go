package system_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// jobs is a database with an outbox, the state of the relay and River's tables.
type jobs struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
	cfg  *outrider.Config
	log  logged

	relay *outrider.Outrider // the last one that run has started
}

func newJobs(t *testing.T, source string) *jobs {
	t.Helper()
	j := &jobs{t: t, url: testenv.Postgres(t)}
	var err error
	j.pool, err = pgxpool.New(t.Context(), j.url)
	must(t, err)
	t.Cleanup(j.pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(j.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	must(t, err)
	j.cfg, err = outrider.ParseConfig("test", fmt.Appendf(nil, `
sources: {app: {type: postgres, url: %q, poll: {max: 20ms}%s}}
destinations: {jobs: {type: river, url: %q, batch: {max_messages: 50}}}
routes: {work: {from: app, to: jobs, middleware: [{retry: {attempts: 2, base: 1ms, max: 5ms}}]}}
`, j.url, source, j.url))
	must(t, err)
	_, err = operate.Init(t.Context(), j.cfg)
	must(t, err)
	return j
}

// run runs a relay until stop is called.
func (j *jobs) run(options ...outrider.Option) (stop func()) {
	j.t.Helper()
	o, err := outrider.New(j.cfg, append(options, outrider.WithLogger(slog.New(slog.NewTextHandler(&j.log, nil))))...)
	must(j.t, err)
	j.relay = o
	ctx, cancel := context.WithCancel(j.t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			j.t.Error(err)
		}
		if j.t.Failed() {
			j.t.Log(j.log.all())
		}
	})
}

// event is the payload of the tests' messages.
type event struct {
	N     int    `json:"n"`
	Group string `json:"group"`
	Text  string `json:"text,omitempty"`
}

// publish writes messages in one transaction, which it commits or rolls back.
func (j *jobs) publish(commit bool, events ...event) {
	j.t.Helper()
	client, err := outbox.NewClient(outbox.ClientConfig{})
	must(j.t, err)
	tx, err := j.pool.Begin(j.t.Context())
	must(j.t, err)
	for _, e := range events {
		m, err := outbox.New("order.created").Group(e.Group).JSON(e).Build()
		must(j.t, err)
		must(j.t, client.Publish(j.t.Context(), tx, m))
	}
	if commit {
		must(j.t, tx.Commit(j.t.Context()))
		return
	}
	must(j.t, tx.Rollback(j.t.Context()))
}

func (j *jobs) count(sql string) (n int) {
	j.t.Helper()
	must(j.t, j.pool.QueryRow(j.t.Context(), sql).Scan(&n))
	return n
}

// check compares River's table with the outbox: one job for each committed row but those of except, in the order of each group.
func (j *jobs) check(except ...int) {
	j.t.Helper()
	rows, err := j.pool.Query(j.t.Context(), `SELECT o.id, o.payload::text, count(r.id) FROM outrider_outbox o
		LEFT JOIN river_job r ON r.metadata->'outrider'->>'event_id' = o.id GROUP BY o.id, o.payload::text`)
	must(j.t, err)
	var id string
	var payload []byte
	var n int
	_, err = pgx.ForEachRow(rows, []any{&id, &payload, &n}, func() error {
		var e event
		must(j.t, json.Unmarshal(payload, &e))
		want := 1
		if slices.Contains(except, e.N) {
			want = 0
		}
		if n != want {
			j.t.Errorf("message %d has %d jobs, want %d", e.N, n, want)
		}
		return nil
	})
	must(j.t, err)
	if extra := j.count(`SELECT count(*) FROM river_job r WHERE NOT EXISTS (SELECT FROM outrider_outbox o WHERE o.id = r.metadata->'outrider'->>'event_id')`); extra != 0 {
		j.t.Errorf("%d jobs are of no committed message", extra)
	}
	j.order()
}

// order checks that the jobs of each group are in order.
func (j *jobs) order() {
	j.t.Helper()
	var payload []byte
	rows, err := j.pool.Query(j.t.Context(), `SELECT args FROM river_job ORDER BY id`)
	must(j.t, err)
	last := map[string]int{}
	_, err = pgx.ForEachRow(rows, []any{&payload}, func() error {
		var e event
		must(j.t, json.Unmarshal(payload, &e))
		if before, ok := last[e.Group]; ok && before >= e.N && e.Group != "" {
			j.t.Errorf("group %s: %d is behind %d", e.Group, e.N, before)
		}
		last[e.Group] = e.N
		return nil
	})
	must(j.t, err)
}

// cut cuts active connections of the relay, thirty times in all, once it has inserted jobs.
func (j *jobs) cut(application string) {
	j.t.Helper()
	eventually(j.t, "there are jobs", func() bool { return j.count(`SELECT count(*) FROM river_job`) > 0 }) // the relay has started
	for range 30 {
		_, err := j.pool.Exec(j.t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1 AND state <> 'idle' ORDER BY random() LIMIT 1`, application)
		must(j.t, err)
		<-time.After(50 * time.Millisecond)
	}
}

// TestG1_EachMessageBecomesOneRiverJob has connections cut, so that deliveries fail before,
// in and after their commits.
func TestG1_EachMessageBecomesOneRiverJob(t *testing.T) {
	t.Parallel()
	j := newJobs(t, "")
	const all = 2000
	stop := j.run()
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; n < all; n += 10 {
			var events []event
			for i := n; i < n+10; i++ {
				events = append(events, event{N: i, Group: fmt.Sprint("g", i%7)})
			}
			j.publish(true, events...)
			if n%100 == 0 {
				j.publish(false, event{N: -n, Group: "g1"})
			}
		}
	})
	j.cut("outrider-state")
	wg.Wait()
	eventually(t, "all are jobs", func() bool { return j.count(`SELECT count(*) FROM river_job`) >= all })
	stop()
	j.check()
	if parked := j.count(`SELECT count(*) FROM outrider_parked`); parked != 0 {
		t.Errorf("%d messages are parked, want none: no failure was a message's", parked)
	}
}

// TestG1_ABatchOfJobsFindsWhoIsAtFault has the database refuse some jobs, which are dead after their attempts; all
// others of their batches become jobs.
func TestG1_ABatchOfJobsFindsWhoIsAtFault(t *testing.T) {
	t.Parallel()
	j := newJobs(t, "")
	_, err := j.pool.Exec(t.Context(), `ALTER TABLE river_job ADD CHECK (args->>'text' IS DISTINCT FROM 'bad')`)
	must(t, err)
	var events []event
	for i := range 200 {
		e := event{N: i, Group: fmt.Sprint("g", i%20)}
		if i == 30 || i == 31 || i == 170 {
			e.Text = "bad"
		}
		events = append(events, e)
	}
	j.publish(true, events...)
	stop := j.run()
	defer stop()
	eventually(t, "all others are jobs", func() bool { return j.count(`SELECT count(*) FROM river_job`) == 197 })
	eventually(t, "three are dead", func() bool { return j.count(`SELECT count(*) FROM outrider_parked WHERE status = 'dead'`) == 3 })
	stop()
	j.check(30, 31, 170)
}

// TestG1_EachRowOfAQueueBecomesOneRiverJob is TestG1_EachMessageBecomesOneRiverJob for tables whose rows have a status,
// with one for rows that are being processed and without. Meanwhile another process makes rows final.
func TestG1_EachRowOfAQueueBecomesOneRiverJob(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ source, insert, foreign, left, others string }{
		"outbox-framework": {
			", layout: outbox-framework",
			`INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload, status, available_at, created_at)
				SELECT 'e' || lpad(i::text, 6, '0'), 't', 'A', 'g' || i % 7, json_build_object('n', i, 'group', 'g' || i % 7), 0, now(), clock_timestamp() FROM generate_series($1::int, $2::int) i`,
			`UPDATE outbox_event SET status = 1, last_error = 'foreign' WHERE event_id IN (SELECT event_id FROM outbox_event WHERE status = 0 ORDER BY created_at DESC LIMIT 3 FOR UPDATE SKIP LOCKED)`,
			`SELECT count(*) FROM outbox_event WHERE status <> 1`,
			`SELECT count(*) FROM outbox_event WHERE last_error = 'foreign'`,
		},
		"yantra": { // with a processor that marks rows by their ids alone, as Yantra's does
			", layout: yantra",
			`INSERT INTO outbox_messages SELECT ('00000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid, 'g' || i % 7, 'A', 't', json_build_object('n', i, 'group', 'g' || i % 7), 'pending',
				clock_timestamp() FROM generate_series($1::int, $2::int) i`,
			`WITH theirs AS (UPDATE outbox_messages SET status = 'processed', processed_at = now() WHERE id IN (SELECT id FROM outbox_messages WHERE status = 'pending'
				ORDER BY created_at DESC LIMIT 3 FOR UPDATE SKIP LOCKED) RETURNING id) INSERT INTO theirs SELECT id FROM theirs`,
			`SELECT count(*) FROM outbox_messages WHERE status <> 'processed'`,
			`SELECT count(*) FROM theirs`,
		},
		"talkie": {
			", layout: talkie, claims: {timeout: 2s, recover: 1s}",
			`INSERT INTO outbox (topic, key, payload_json, created_at)
				SELECT 't', 'g' || i % 7, json_build_object('n', i, 'group', 'g' || i % 7), clock_timestamp() FROM generate_series($1::int, $2::int) i`,
			`SELECT 1`,
			`SELECT count(*) FROM outbox WHERE status <> 'published'`,
			`SELECT 0`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJobs(t, tt.source)
			_, err := j.pool.Exec(t.Context(), `CREATE TABLE theirs (id uuid)`)
			must(t, err)
			const all = 1500
			stop := j.run()
			defer stop()
			var wg sync.WaitGroup
			wg.Go(func() {
				for n := 0; n < all; n += 50 {
					_, err := j.pool.Exec(t.Context(), tt.insert, n, n+49)
					must(t, err)
					_, err = j.pool.Exec(t.Context(), tt.foreign)
					must(t, err)
				}
			})
			j.cut("outrider-queue")
			wg.Wait()
			eventually(t, "all rows are there", func() bool { return j.count(`SELECT count(*) FROM river_job`)+j.count(tt.others) >= all })
			eventually(t, "all rows are final", func() bool { return j.count(tt.left) == 0 })
			stop()
			if n, others := j.count(`SELECT count(*) FROM river_job`), j.count(tt.others); n+others != all {
				t.Errorf("%d jobs and %d rows that a foreign hand finished, of %d rows", n, others, all)
			}
			if n := j.count(`SELECT count(*) - count(DISTINCT metadata->'outrider'->>'event_id') FROM river_job`); n != 0 {
				t.Errorf("%d jobs are duplicates", n)
			}
			j.order()
		})
	}
}

// TestG2_NothingIsDeliveredBeforeARowThatWasLost has rows of a group set back to wait while a transaction is about to deliver them, as a look for
// stuck rows does, and others of the group not. Chains run after the delivery, or wait for it: then each ends by itself.
func TestG2_NothingIsDeliveredBeforeARowThatWasLost(t *testing.T) {
	t.Parallel()
	waits := outrider.WithMiddleware("work", func(h message.HandlerFunc) message.HandlerFunc { return h })
	for name, tt := range map[string]struct {
		lost    string
		options []outrider.Option
	}{
		"the first": {"= 1", nil}, "one between": {"= 3", nil}, "the first half": {"< 4", nil},
		"the first, chains wait": {"= 1", []outrider.Option{waits}}, "one between, chains wait": {"= 3", []outrider.Option{waits}},
		"the first half, chains wait": {"< 4", []outrider.Option{waits}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJobs(t, ", layout: talkie")
			stop := j.run(tt.options...)
			defer stop()
			<-j.relay.Ready() // it reads River's table when it starts
			other, err := j.pool.Begin(t.Context())
			must(t, err)
			_, err = other.Exec(t.Context(), `LOCK TABLE river_job IN EXCLUSIVE MODE`)
			must(t, err)
			_, err = j.pool.Exec(t.Context(), `INSERT INTO outbox (topic, key, payload_json, created_at)
				SELECT 't', 'g', json_build_object('n', i, 'group', 'g'), clock_timestamp() FROM generate_series(1, 12) i`)
			must(t, err)
			eventually(t, "the delivery waits", func() bool {
				return j.count(`SELECT count(*) FROM pg_locks WHERE relation = 'river_job'::regclass AND NOT granted`) == 1 &&
					j.count(`SELECT count(*) FROM outbox WHERE status = 'publishing'`) == 12
			})
			_, err = j.pool.Exec(t.Context(), `UPDATE outbox SET status = 'pending' WHERE (payload_json->>'n')::int `+tt.lost)
			must(t, err)
			must(t, other.Commit(t.Context()))
			eventually(t, "all rows are published", func() bool { return j.count(`SELECT count(*) FROM outbox WHERE status <> 'published'`) == 0 })
			stop()
			if n := j.count(`SELECT count(DISTINCT metadata->'outrider'->>'event_id') FROM river_job`); n != 12 || j.count(`SELECT count(*) FROM river_job`) != 12 {
				t.Errorf("%d of 12 rows are jobs, %d jobs in all", n, j.count(`SELECT count(*) FROM river_job`))
			}
			j.order()
		})
	}
}

// TestG1_G3_ALaneTakenDuringADeliveryDeliversNothing takes a lane over while its owner's transaction waits
// for River's table, and delivers what the owner was about to.
func TestG1_G3_ALaneTakenDuringADeliveryDeliversNothing(t *testing.T) {
	t.Parallel()
	j := newJobs(t, "")
	stop := j.run()
	defer stop()
	j.publish(true, event{N: 1, Group: "g1"})
	eventually(t, "the first is a job", func() bool { return j.count(`SELECT count(*) FROM river_job`) == 1 })

	other, err := j.pool.Begin(t.Context())
	must(t, err)
	_, err = other.Exec(t.Context(), `LOCK TABLE river_job IN EXCLUSIVE MODE`)
	must(t, err)
	j.publish(true, event{N: 2, Group: "g1"}, event{N: 3, Group: "g1"})
	eventually(t, "the owner waits", func() bool {
		return j.count(`SELECT count(*) FROM pg_locks WHERE relation = 'river_job'::regclass AND NOT granted`) == 1
	})
	_, err = other.Exec(t.Context(), `UPDATE outrider_cursor SET epoch = epoch + 1,
		beyond = beyond || (SELECT array_agg(position) FROM outrider_outbox WHERE (payload->>'n')::int > 1) WHERE route = 'work' AND slot = (SELECT DISTINCT slot FROM outrider_outbox)`)
	must(t, err)
	_, err = other.Exec(t.Context(), `INSERT INTO river_job (args, kind, max_attempts, metadata)
		SELECT payload::jsonb, type, 25, jsonb_build_object('outrider', jsonb_build_object('event_id', id)) FROM outrider_outbox
		WHERE (payload->>'n')::int > 1 ORDER BY position`)
	must(t, err)
	must(t, other.Commit(t.Context()))

	eventually(t, "the owner notices", func() bool { return j.log.count("no longer ours") > 0 })
	j.publish(true, event{N: 4, Group: "g1"})
	eventually(t, "the lane is worked again", func() bool { return j.count(`SELECT count(*) FROM river_job`) >= 4 })
	stop()
	j.check()
}

// blocked publishes messages while River's table is locked, and waits until their delivery waits for it; release ends the lock.
func (j *jobs) blocked(start func()) (release func()) {
	j.t.Helper()
	lock, err := j.pool.Begin(j.t.Context())
	must(j.t, err)
	_, err = lock.Exec(j.t.Context(), `LOCK TABLE river_job IN EXCLUSIVE MODE`)
	must(j.t, err)
	start()
	eventually(j.t, "a delivery is under way", func() bool {
		return j.count(`SELECT count(*) FROM pg_locks WHERE relation = 'river_job'::regclass AND NOT granted`) > 0
	})
	return func() {
		j.t.Helper()
		must(j.t, lock.Commit(j.t.Context()))
	}
}

// jobsOf is how many jobs a message has.
func (j *jobs) jobsOf(n int) int {
	j.t.Helper()
	return j.count(fmt.Sprintf(`SELECT count(*) FROM river_job WHERE args->>'n' = '%d'`, n))
}

// TestG1_G8_AnOperatorBesideADeliveryInATransaction has an operator skip what is being delivered, pause its group, and seek behind it:
// what the command says is so, nothing is lost, and nothing is there twice.
func TestG1_G8_AnOperatorBesideADeliveryInATransaction(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*jobs, *operate.Operator, func()) {
		t.Helper()
		j := newJobs(t, "")
		op, err := operate.NewOperator(t.Context(), j.cfg)
		must(t, err)
		t.Cleanup(func() { must(t, op.Close()) })
		stop := j.run()
		t.Cleanup(stop)
		j.publish(true, event{N: 1, Group: "g1"})
		eventually(t, "the first is a job", func() bool { return j.jobsOf(1) == 1 })
		return j, op, stop
	}
	t.Run("skip", func(t *testing.T) {
		t.Parallel()
		j, op, stop := start(t)
		_, err := j.pool.Exec(t.Context(), `ALTER TABLE river_job ADD CONSTRAINT good CHECK (args->>'text' IS DISTINCT FROM 'bad')`)
		must(t, err)
		j.publish(true, event{N: 2, Group: "g2", Text: "bad"}, event{N: 3, Group: "g2"})
		eventually(t, "the third is a job, and the second dead", func() bool {
			return j.count(`SELECT count(*) FROM outrider_parked WHERE status = 'dead'`) == 1 && j.jobsOf(3) == 1
		})
		_, err = j.pool.Exec(t.Context(), `ALTER TABLE river_job DROP CONSTRAINT good`)
		must(t, err)
		change := func(action adapters.ParkedAction) int {
			t.Helper()
			n, err := op.ChangeParked(t.Context(), adapters.ParkedCommand{Action: action, Filter: adapters.ParkedFilter{Route: "work"}, By: "me"}, operate.RateLimit{})
			must(t, err)
			return n
		}
		release := j.blocked(func() {
			if n := change(adapters.ParkedRedrive); n != 1 {
				t.Errorf("%d messages were redriven, want 1", n)
			}
		})
		skipped := change(adapters.ParkedSkip)
		release()
		eventually(t, "nothing is parked", func() bool { return j.count(`SELECT count(*) FROM outrider_parked`) == 0 })
		j.publish(true, event{N: 4, Group: "g2"})
		eventually(t, "the lane goes on", func() bool { return j.jobsOf(4) == 1 })
		stop()
		if n := j.jobsOf(2); n != 1-skipped {
			t.Errorf("the operator was told that %d messages are skipped, and the message has %d jobs", skipped, n)
		}
	})
	t.Run("pause", func(t *testing.T) {
		t.Parallel()
		j, op, stop := start(t)
		release := j.blocked(func() { j.publish(true, event{N: 2, Group: "g1"}, event{N: 3, Group: "g1"}) })
		pause := adapters.Pause{Route: "work", Group: "g1", By: "me"}
		if ok, err := op.Pause(t.Context(), pause); err != nil || !ok {
			t.Fatal(ok, err)
		}
		release()
		j.publish(true, event{N: 4, Group: "g1"})
		if ok, err := op.Resume(t.Context(), adapters.Pause{Route: "work", Group: "g1", By: "me"}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		eventually(t, "all are jobs", func() bool { return j.jobsOf(4) == 1 })
		stop()
		j.check()
	})
	t.Run("seek", func(t *testing.T) {
		t.Parallel()
		j, op, stop := start(t)
		release := j.blocked(func() { j.publish(true, event{N: 2, Group: "g1"}, event{N: 3, Group: "g1"}) })
		plan, err := op.PlanSeek(t.Context(), "work", operate.Target{Start: adapters.Start{Kind: adapters.StartEnd}})
		must(t, err)
		must(t, op.Relocate(t.Context(), plan, "me"))
		release()
		j.publish(true, event{N: 4, Group: "g1"})
		eventually(t, "the lane goes on behind the place", func() bool { return j.jobsOf(4) == 1 })
		stop()
		j.check(2, 3) // the operator went past them, and the delivery under way came too late
	})
}
