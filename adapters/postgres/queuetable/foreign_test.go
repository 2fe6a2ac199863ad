package queuetable

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// TestG2_BesideAForeignProcessor: both work the same tables; rows are delivered
// once, and none of ours is claimed while the foreign processor holds an earlier
// row of its group. Writers commit late and roll back; both processors fail, put
// back and retry.
func TestG2_BesideAForeignProcessor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		system  system
		indexes bool // ours, too
		all     bool // claims are tried without locking first
	}{
		"original index": {flowCatalystSystem, false, false},
		"own indexes":    {flowCatalystSystem, true, false},
		"taking all":     {flowCatalystSystem, true, true},
		"Talkie":         {talkieSystem, true, false},
		"Open Outbox":    {openOutboxSystem, true, true},
		"FlowCatalyst 2": {flowCatalystV2System, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newQueueEnv(t).preset(t, c.system.preset())
			if c.indexes {
				_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
				pgtest.Must(t, err)
			}
			e.takeAll = c.all
			s := &foreignStress{queueEnv: e, system: c.system, committed: map[string]bool{}, count: map[string]int{}}
			s.audit()
			s.run(t)
		})
	}
}

type foreignStress struct {
	*queueEnv
	system    system
	mu        sync.Mutex
	committed map[string]bool
	count     map[string]int // deliveries by row
	written   bool
}

// audit makes the database itself note each claim of ours that is behind a row
// which somebody else holds: whoever claims names himself by application_name.
func (s *foreignStress) audit() {
	s.exec(s.sql(s.tables[0].Name, `
CREATE TABLE {schema}.owner (id text PRIMARY KEY, owner text NOT NULL);
CREATE TABLE {schema}.broken (id text, behind text);
CREATE FUNCTION {schema}.audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.{set_status} = {processing} AND OLD.{set_status} IN ({waiting}) THEN
        INSERT INTO {schema}.owner VALUES (NEW.{set_key}::text, current_setting('application_name'))
        ON CONFLICT (id) DO UPDATE SET owner = EXCLUDED.owner;
        IF current_setting('application_name') = 'outrider-queue' THEN
            INSERT INTO {schema}.broken
            SELECT NEW.{set_key}, {key} FROM {t} t JOIN {schema}.owner w ON w.id = {key}::text
            WHERE {status} = {processing} AND w.owner <> 'outrider-queue' AND (NEW.{set_group} IS NOT NULL OR `+pg.Literal(s.layout.DefaultGroup)+` <> '')
              AND {group} IS NOT DISTINCT FROM NEW.{set_group} AND ({created}, {key}) < (NEW.{set_created}, NEW.{set_key});
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION {schema}.audit();`))
}

func (s *foreignStress) run(t *testing.T) {
	const writers = 4
	each := testenv.Size(testenv.Brief(30, 60), 1000)
	var all, writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() { s.write(t, w, each) })
	}
	all.Go(func() { writing.Wait(); s.mu.Lock(); s.written = true; s.mu.Unlock() })
	all.Go(func() { s.ours(t) })
	all.Go(func() { s.foreign(t) })
	all.Wait()
	for id := range s.committed {
		if s.count[id] != 1 {
			t.Errorf("row %s was delivered %d times", id, s.count[id])
		}
	}
	if len(s.count) != len(s.committed) {
		t.Errorf("%d rows were delivered, %d were committed", len(s.count), len(s.committed))
	}
	var broken int
	pgtest.Must(t, s.pool.QueryRow(s.ctx, "SELECT count(*) FROM "+strings.Split(s.tables[0].Name, ".")[0]+".broken").Scan(&broken))
	if broken > 0 {
		t.Errorf("%d times a row was claimed behind one that the foreign processor held", broken)
	}
}

// write commits transactions of a few rows, some late, some not at all.
func (s *foreignStress) write(t *testing.T, writer, n int) {
	random := rand.New(rand.NewPCG(uint64(writer), 7))
	for i := range n {
		tx, err := s.pool.Begin(s.ctx)
		if err != nil {
			t.Error(err)
			return
		}
		var ids []string
		groups := []string{"a", "b", "c", "default"}[random.IntN(4):]
		pgtest.Must(t, outbox.Lock(s.ctx, tx, groups...)) // writers of a group take turns
		for j := range 1 + random.IntN(3) {
			id := s.system.id((writer+1)*1e11 + i*1e5 + j)
			ids = append(ids, id)
			_, err = tx.Exec(s.ctx, s.system.in(s.tables[0].Name, s.system.stress), id, groups[random.IntN(len(groups))])
			if err != nil {
				t.Error(err)
			}
		}
		if random.IntN(3) == 0 { // the row lock of a busy aggregate, or a slow application
			<-time.After(time.Duration(random.IntN(30)) * time.Millisecond)
		}
		if random.IntN(10) == 0 {
			pgtest.Must(t, tx.Rollback(s.ctx))
			continue
		}
		s.mu.Lock() // before they can be delivered
		for _, id := range ids {
			s.committed[id] = true
		}
		s.mu.Unlock()
		if err := tx.Commit(s.ctx); err != nil {
			t.Error(err)
		}
	}
}

// deliver notes deliveries; finished reports whether everything was.
func (s *foreignStress) deliver(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.count[id]++
	}
}

func (s *foreignStress) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written && len(s.count) >= len(s.committed)
}

// ours works with the queue. Every so often it fails or puts back.
func (s *foreignStress) ours(t *testing.T) {
	q := s.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	random := rand.New(rand.NewPCG(1, 1))
	for !s.finished() {
		rows, err := q.Claim(s.ctx, adapters.ClaimRequest{Slots: slots(), Limit: 10})
		if err != nil {
			t.Error(err)
			return
		}
		pgtest.Rest(rows)
		var results []adapters.ClaimResult
		failed := map[string]bool{}
		for _, row := range rows {
			r := adapters.ClaimResult{Claim: row.Claim, Attempts: row.Claim.Attempts}
			switch {
			case failed[row.Group]:
				r.Outcome = outbox.OutcomeReleased
			case random.IntN(10) == 0:
				r.Outcome, r.Attempts, failed[row.Group] = outbox.OutcomeRetry, r.Attempts+1, true
			default:
				s.deliver(row.ID)
			}
			results = append(results, r)
		}
		if lost, err := q.Settle(s.ctx, results); err != nil || len(lost) > 0 {
			t.Errorf("settle: %d lost, %v", len(lost), err)
			return
		}
	}
}

// foreign is the other processor, with the statements of the document.
func (s *foreignStress) foreign(t *testing.T) {
	conn, err := pgx.Connect(s.ctx, s.url)
	pgtest.Must(t, err)
	defer func() { pgtest.Must(t, conn.Close(context.Background())) }()
	statement := func(sql string) string { return s.system.in(s.tables[0].Name, sql) }
	random := rand.New(rand.NewPCG(2, 2))
	for !s.finished() {
		rows, err := conn.Query(s.ctx, statement(s.system.claim))
		if err != nil {
			t.Error(err)
			return
		}
		var id string
		var done, retry []string
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
			if random.IntN(10) == 0 {
				retry = append(retry, id)
			} else {
				done = append(done, id)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
			return
		}
		<-time.After(time.Duration(random.IntN(5)) * time.Millisecond) // its request
		s.deliver(done...)
		for sql, ids := range map[string][]string{s.system.done: done, s.system.retry: retry} {
			if _, err := conn.Exec(s.ctx, statement(sql), ids); err != nil {
				t.Error(err)
				return
			}
		}
	}
}
