package queuetable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// The statements of FlowCatalyst's document, for another processor on the same
// tables.
const (
	foreignClaim = `WITH selected AS (
    SELECT id FROM {table} WHERE status = 'PENDING' ORDER BY message_group, created_at LIMIT {limit} FOR UPDATE SKIP LOCKED
)
UPDATE {table} t SET status = 'PROCESSING', processed_at = NOW() FROM selected s WHERE t.id = s.id
RETURNING t.id, coalesce(t.message_group, 'default')`
	foreignDone  = `UPDATE {table} SET status = 'COMPLETED', processed_at = NOW() WHERE id = ANY ($1)`
	foreignRetry = `UPDATE {table} SET status = 'PENDING', retry_count = retry_count + 1 WHERE id = ANY ($1)`
)

// foreignStatement names the table, and how many rows are wanted.
func foreignStatement(sql, table string, limit int) string {
	return strings.NewReplacer("{table}", table, "{limit}", strconv.Itoa(limit)).Replace(sql)
}

// TestG2_BesideAForeignProcessor: both work the same tables; rows are delivered
// once, and none of ours is claimed while the foreign processor holds an earlier
// row of its group. Writers commit late and roll back; both processors fail, put
// back and retry.
func TestG2_BesideAForeignProcessor(t *testing.T) {
	t.Parallel()
	for name, tables := range map[string]func(e *queueEnv, t testing.TB) *queueEnv{
		"original index": func(e *queueEnv, t testing.TB) *queueEnv { return e.flowCatalyst(t, false) },
		"own indexes":    func(e *queueEnv, t testing.TB) *queueEnv { return e.flowCatalyst(t, true) },
		"taking all":     func(e *queueEnv, t testing.TB) *queueEnv { return e.flowCatalyst(t, true).takingAll() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &foreignStress{queueEnv: tables(newQueueEnv(t), t), committed: map[string]bool{}, count: map[string]int{}}
			s.audit()
			s.run(t)
		})
	}
}

type foreignStress struct {
	*queueEnv
	mu        sync.Mutex
	committed map[string]bool
	count     map[string]int // deliveries by row
	written   bool
}

// audit makes the database itself note each claim of ours that is behind a row
// which somebody else holds: whoever claims names himself by application_name.
func (s *foreignStress) audit() {
	s.exec(strings.ReplaceAll(`
CREATE TABLE {t}_owner (id text PRIMARY KEY, owner text NOT NULL);
CREATE TABLE {t}_broken (id text, behind text);
CREATE FUNCTION {t}_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'PROCESSING' AND OLD.status = 'PENDING' THEN
        INSERT INTO {t}_owner VALUES (NEW.id, current_setting('application_name'))
        ON CONFLICT (id) DO UPDATE SET owner = EXCLUDED.owner;
        IF current_setting('application_name') = 'outrider-queue' THEN
            INSERT INTO {t}_broken
            SELECT NEW.id, o.id FROM {t} o JOIN {t}_owner w ON w.id = o.id
            WHERE o.status = 'PROCESSING' AND w.owner <> 'outrider-queue'
              AND o.message_group IS NOT DISTINCT FROM NEW.message_group AND (o.created_at, o.id) < (NEW.created_at, NEW.id);
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION {t}_audit();`, "{t}", s.tables[0].Name))
}

func (s *foreignStress) run(t *testing.T) {
	const writers = 4
	each := testenv.Size(60, 1000)
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
	pgtest.Must(t, s.pool.QueryRow(s.ctx, "SELECT count(*) FROM "+s.tables[0].Name+"_broken").Scan(&broken))
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
			id := fmt.Sprintf("%02d%06d%05d", writer, i, j)
			ids = append(ids, id)
			_, err = tx.Exec(s.ctx, s.sql(s.tables[0].Name, `INSERT INTO {t} (id, type, message_group, payload, status, created_at)
VALUES ($1, 'EVENT', nullif($2, 'default'), '{}', 'PENDING', clock_timestamp())`), id, groups[random.IntN(len(groups))])
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
	statement := func(sql string) string { return foreignStatement(sql, s.tables[0].Name, 7) }
	random := rand.New(rand.NewPCG(2, 2))
	for !s.finished() {
		rows, err := conn.Query(s.ctx, statement(foreignClaim))
		if err != nil {
			t.Error(err)
			return
		}
		var id, group string
		var done, retry []string
		_, err = pgx.ForEachRow(rows, []any{&id, &group}, func() error {
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
		for sql, ids := range map[string][]string{foreignDone: done, foreignRetry: retry} {
			if _, err := conn.Exec(s.ctx, statement(sql), ids); err != nil {
				t.Error(err)
				return
			}
		}
	}
}
