package river_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/outriderhq/outrider/adapters/river"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a database with River's tables.
type world struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, url: testenv.Postgres(t)}
	var err error
	w.pool, err = pgxpool.New(t.Context(), w.url)
	must(t, err)
	t.Cleanup(w.pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(w.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	must(t, err)
	return w
}

func (w *world) exec(sql string) {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), sql)
	must(w.t, err)
}

// destination opens a destination whose connections run a statement first.
func (w *world) destination(cfg river.Config, first string) *river.Destination {
	w.t.Helper()
	pool, err := pgxpool.ParseConfig(w.url)
	must(w.t, err)
	pool.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, first)
		return err
	}
	cfg.Pool, err = pgxpool.NewWithConfig(w.t.Context(), pool)
	must(w.t, err)
	d, err := river.New(cfg)
	must(w.t, err)
	w.t.Cleanup(func() { must(w.t, d.Close()) })
	return d
}

// jobs returns the ids of the events that have jobs, in the order of the jobs.
func (w *world) jobs() (ids []string) {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), `SELECT metadata->'outrider'->>'event_id' FROM river_job ORDER BY id`)
	must(w.t, err)
	ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	must(w.t, err)
	return ids
}

// order is a message whose arguments are its id.
func order(id string) *message.Message {
	msg := message.NewMessage(id, fmt.Appendf(nil, `{"id": %q}`, id))
	msg.Metadata[outbox.MetaType] = "order"
	return msg
}

// TestDuplicatesOfARollbackAreNotCounted has a transaction fail as it commits, after River has refused a job.
func TestDuplicatesOfARollbackAreNotCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.destination(river.Config{Unique: river.Unique{ByArgs: true}}, "")
	batch := []*message.Message{order("a"), order("b"), order("a")}
	if errs := d.Deliver(t.Context(), "", batch[:1]); errs != nil {
		t.Fatal(errs)
	}
	w.exec(`CREATE FUNCTION not_now() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$`)
	w.exec(`CREATE CONSTRAINT TRIGGER not_now AFTER UPDATE ON river_job DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION not_now()`)
	if errs := d.Deliver(t.Context(), "", batch[1:]); len(errs) != 2 || outbox.KindOf(errs[0]) != outbox.KindUnavailable {
		t.Fatalf("%v, want that the messages wait", errs)
	}
	if n := d.Duplicates(); n != 0 {
		t.Errorf("%d duplicates are counted of a transaction that rolled back", n)
	}
	w.exec(`DROP TRIGGER not_now ON river_job`)
	if errs := d.Deliver(t.Context(), "", batch[1:]); errs != nil {
		t.Fatal(errs)
	}
	if n, jobs := d.Duplicates(), w.jobs(); n != 1 || len(jobs) != 2 {
		t.Errorf("%d duplicates and jobs %v, want 1 duplicate and two jobs", n, jobs)
	}
}

// TestUniqueJobsAreRepeatedWithinABatch has messages of one batch become the same job: the first does, the others count as duplicates,
// as they do of a batch before. A message that cannot become a job does not take its duplicates along.
func TestUniqueJobsAreRepeatedWithinABatch(t *testing.T) {
	t.Parallel()
	for name, unique := range map[string]river.Unique{
		"args": {ByArgs: true}, "args and period": {ByArgs: true, ByPeriod: 1e5 * time.Hour}, "args and queue": {ByArgs: true, ByQueue: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := w.destination(river.Config{Unique: unique}, "")
			batch := func(jobs ...string) (msgs []*message.Message) {
				for i, args := range jobs {
					msg := order(args)
					msg.UUID = fmt.Sprint(args, i)
					msgs = append(msgs, msg)
				}
				return msgs
			}
			send := func(jobs ...string) []error { return d.Deliver(t.Context(), "", batch(jobs...)) }
			want := func(errs []error, duplicates int64, jobs string) {
				t.Helper()
				if errs != nil {
					t.Errorf("%v, want none refused", errs)
				}
				if n, got := d.Duplicates(), fmt.Sprint(w.jobs()); n != duplicates || got != jobs {
					t.Errorf("%d duplicates and jobs %s, want %d and %s", n, got, duplicates, jobs)
				}
			}
			want(send("a", "b", "a", "c", "a", "b"), 3, "[a0 b1 c3]")
			want(send("d", "c", "d", "c"), 6, "[a0 b1 c3 d0]")
			must(t, pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error { // as the transaction that settles: one statement is enough
				committed, errs := d.DeliverTx(t.Context(), tx, "", batch("g", "a", "g"))
				if errs == nil {
					committed()
				}
				return errors.Join(errs...)
			}))
			want(nil, 8, "[a0 b1 c3 d0 g0]")
			w.exec(`ALTER TABLE river_job ADD CHECK (metadata->'outrider'->>'event_id' <> 'f1')`)
			errs := send("e", "f", "e", "f", "f")
			if len(errs) != 5 || errs[1] == nil || outbox.KindOf(errs[1]) != outbox.KindPermanent {
				t.Fatalf("%v, want that the second message is refused", errs)
			}
			errs[1] = nil
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
			want(nil, 10, "[a0 b1 c3 d0 g0 e0 f3]")
		})
	}
}

// TestJobsGoToATableWithRowSecurity has River's table take no COPY.
func TestJobsGoToATableWithRowSecurity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	role := pgx.Identifier{w.pool.Config().ConnConfig.Database + "_relay"}.Sanitize()
	w.exec(`CREATE ROLE ` + role)
	t.Cleanup(func() {
		_, err := w.pool.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role)
		must(t, err)
	})
	w.exec(`GRANT SELECT, INSERT, UPDATE ON river_job TO ` + role + `; GRANT USAGE ON SEQUENCE river_job_id_seq TO ` + role)
	d := w.destination(river.Config{}, "SET ROLE "+role)
	deliver := func(ids ...string) {
		t.Helper()
		var batch []*message.Message
		for _, id := range ids {
			batch = append(batch, order(id))
		}
		if errs := d.Deliver(t.Context(), "", batch); errs != nil {
			t.Fatal(errs)
		}
	}
	deliver("a", "b")
	w.exec(`ALTER TABLE river_job ENABLE ROW LEVEL SECURITY; CREATE POLICY everything ON river_job USING (true)`)
	deliver("c", "d")
	deliver("e")
	if got, want := fmt.Sprint(w.jobs()), "[a b c d e]"; got != want {
		t.Errorf("jobs of %s, want %s", got, want)
	}
}
