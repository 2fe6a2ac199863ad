package queuetable

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/internal/testenv"
)

// recorder notes the statements that a queue runs, with their arguments.
type recorder struct{ statements []recorded }

type recorded struct {
	sql  string
	args []any
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if !strings.HasPrefix(strings.TrimSpace(d.SQL), "SET") && d.SQL != "" {
		r.statements = append(r.statements, recorded{d.SQL, d.Args})
	}
	return ctx
}

func (*recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart and the others see the statements of a settle.
func (*recorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (r *recorder) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	r.statements = append(r.statements, recorded{d.SQL, d.Args})
}

func (*recorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// planEnv is FlowCatalyst's tables with a queue whose statements are recorded.
type planEnv struct {
	*queueEnv
	q     *Queue
	seen  recorder
	swept int // buffers of reading everything, which is rationed by time
}

func newPlanEnv(t *testing.T, ours bool) *planEnv {
	t.Helper()
	e := &planEnv{queueEnv: newQueueEnv(t).flowCatalyst(t, ours)}
	for _, table := range e.tables {
		e.exec("ALTER TABLE " + table.Name + " SET (autovacuum_enabled = off)")
	}
	e.reopen()
	t.Cleanup(func() { pgtest.Must(t, e.q.Close()) })
	return e
}

// reopen makes a queue that knows nothing, with connections of its own.
func (e *planEnv) reopen() {
	e.t.Helper()
	if e.q != nil {
		pgtest.Must(e.t, e.q.Close())
	}
	var err error
	e.q, err = New(e.ctx, Config{URL: e.url, Tables: e.tables[:1], Layout: e.layout, Fence: e.fence, Tracer: &e.seen})
	pgtest.Must(e.t, err)
}

// work claims and settles once and returns how many rows there were, and how
// many buffers the statements touch that it ran: they are explained, in a
// transaction that is rolled back, in the order in which they ran, which sees just
// what they saw.
func (e *planEnv) work(limit int) (rows, buffers int) {
	e.t.Helper()
	req := adapters.ClaimRequest{Slots: slots(), Limit: limit}
	e.seen.statements = nil
	claimed, err := e.q.Claim(e.ctx, req)
	pgtest.Must(e.t, err)
	buffers = e.explain(e.seen.statements, len(claimed) > 0 && !e.layout.Claimless(), claimed)
	e.seen.statements = nil
	if lost := settleAll(e.t, e.q, claimed); lost != "" {
		e.t.Fatalf("settle: %s were lost", lost)
	}
	return len(claimed), buffers
}

// explain runs statements again, after the rows that they claimed were put back.
func (e *planEnv) explain(statements []recorded, back bool, claimed []*adapters.Row) (buffers int) {
	e.t.Helper()
	conn, err := e.q.pool.Acquire(e.ctx)
	pgtest.Must(e.t, err)
	defer conn.Release()
	tx, err := conn.Begin(e.ctx)
	pgtest.Must(e.t, err)
	defer func() { pgtest.Must(e.t, tx.Rollback(e.ctx)) }()
	if back {
		keys := make([]string, len(claimed))
		for i, row := range claimed {
			keys[i] = row.ID
		}
		_, err := tx.Exec(e.ctx, e.sql(e.tables[0].Name, "UPDATE {t} t SET {set_status} = 'PENDING' WHERE {key} = ANY ($1)"), keys)
		pgtest.Must(e.t, err)
	}
	for _, s := range statements {
		if !strings.Contains(s.sql, "outbox_event") || strings.Contains(s.sql, "FROM pg_") {
			continue
		}
		args := s.args
		if len(args) > 0 {
			if _, ok := args[0].(pgx.QueryResultFormats); ok {
				args = args[1:]
			}
		}
		if text := &e.q.tables[0].text; s.sql == text.take || s.sql == text.takeAll { // what was put back is at another place
			var tids string
			pgtest.Must(e.t, tx.QueryRow(e.ctx, e.sql(e.tables[0].Name, `SELECT array_agg(t.ctid ORDER BY n)::text
FROM unnest($1::varchar[]) WITH ORDINALITY AS s(key, n) JOIN {t} t ON {key} = s.key`), args[1]).Scan(&tids))
			args = append([]any{tids}, args[1:]...)
		}
		var text []byte
		pgtest.Must(e.t, tx.QueryRow(e.ctx, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+s.sql, args...).Scan(&text))
		var explained []struct {
			Plan pgtest.PlanNode `json:"Plan"`
		}
		pgtest.Must(e.t, json.Unmarshal(text, &explained))
		plan := &explained[0].Plan
		sorts := 0
		plan.Walk(func(n *pgtest.PlanNode) {
			if strings.HasSuffix(n.Type, "Sort") {
				sorts++
			}
			if n.Type == "Seq Scan" || strings.HasPrefix(n.Type, "Bitmap") || n.Type == "Hash Join" || n.Type == "Merge Join" {
				e.t.Errorf("the plan has a %s: %.80s", n.Type, s.sql)
			}
		})
		if s.sql == e.q.tables[0].text.look && sorts > 1 {
			e.t.Errorf("a look sorts %d times; only what is of the group with rows without one should be", sorts)
		}
		if s.sql == e.q.tables[0].text.everything {
			e.swept += plan.Hit + plan.Read
			continue // it is rationed by time
		}
		buffers += plan.Hit + plan.Read
	}
	return buffers
}

// checkFlat claims all of the rows that wait, and an idle claim, within so many
// buffers per claim and row.
func (e *planEnv) checkFlat(what string, rows, limit int) {
	e.t.Helper()
	e.claimFlat(what, rows, limit)
	e.idleFlat(what, limit)
}

// claimFlat claims all of the rows that wait, by a queue that knows nothing, and returns the buffers per row.
func (e *planEnv) claimFlat(what string, rows, limit int) (per float64) {
	e.t.Helper()
	e.reopen()
	worst, total := 0, 0
	for done := 0; done < rows; {
		n, buffers := e.work(limit)
		done += n
		worst, total = max(worst, buffers), total+buffers
		if n == 0 {
			e.t.Fatalf("%s: %d of %d rows were claimed", what, done, rows)
		}
	}
	per = float64(total) / float64(rows)
	e.t.Logf("%s: %.2f buffers per row, at most %d in a claim of %d", what, per, worst, limit)
	if per > 60 || worst > 100*limit {
		e.t.Errorf("%s: too many buffers", what)
	}
	return per
}

// idleFlat returns the buffers of a claim when nothing waits.
func (e *planEnv) idleFlat(what string, limit int) (idle int) {
	e.t.Helper()
	pgtest.Vacuum(e.t, e.pool, e.tables[0].Name) // as autovacuum does, which is off
	e.work(limit)                                // looks once more at groups that were found again while the last rows were being claimed
	_, idle = e.work(limit)
	e.t.Logf("%s: %d buffers when idle", what, idle)
	if idle > 100 {
		e.t.Errorf("%s: too many buffers", what)
	}
	return idle
}

// TestG8_ClaimsAreFlatWithAMillionFinishedRows: with the original's index and
// with ours, with statistics of the empty table and with fresh ones.
func TestG8_ClaimsAreFlatWithAMillionFinishedRows(t *testing.T) {
	t.Parallel()
	finished := testenv.Size(pgtest.VariantRows, pgtest.PlanRows)
	for _, name := range []string{"original index", "own indexes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newPlanEnv(t, name == "own indexes")
			table := e.tables[0].Name
			e.exec("ALTER TABLE " + table + " SET UNLOGGED")
			e.exec("ANALYZE " + table)
			e.fill(table, finished, 200, "COMPLETED")
			e.fill(table, 1000, 50, "PENDING")
			e.checkFlat("stale statistics", 1000, 200)
			e.exec("ANALYZE " + table)
			e.fill(table, 1000, 50, "PENDING")
			e.checkFlat("fresh statistics", 1000, 200)
			e.fill(table, 300, 300, "PENDING")
			e.checkFlat("groups of one row", 300, 100)
		})
	}
}

// TestG8_ClaimsAreFlatUnderAnOldSnapshot: index entries of rows that were
// delivered cannot be removed, and are not walked over. What is new is found
// by its age.
func TestG8_ClaimsAreFlatUnderAnOldSnapshot(t *testing.T) {
	t.Parallel()
	e := newPlanEnv(t, true)
	table := e.tables[0].Name
	old, err := e.pool.BeginTx(e.ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	pgtest.Must(t, err)
	defer func() { pgtest.Must(t, old.Rollback(e.ctx)) }()
	_, err = old.Exec(e.ctx, "SELECT 1 FROM "+table)
	pgtest.Must(t, err)
	var perRow []float64
	for round := range 6 {
		const rows = 4000 // of 4 seconds
		e.fill(table, rows, 20, "PENDING")
		total, done, everything := 0, 0, &e.q.tables[0].round
		for done < rows || everything.whole.IsZero() {
			// How often everything is read depends on how long it takes: here once.
			if everything.credit = time.Hour; round > 0 {
				everything.read, everything.credit = time.Now().Add(time.Hour), 0
			}
			n, buffers := e.work(500)
			done, total = done+n, total+buffers
		}
		perRow = append(perRow, float64(total)/rows)
		t.Logf("round %d: %.1f buffers per row", round, perRow[round])
	}
	if e.swept == 0 {
		t.Error("everything was never read, so that the queue does not know what it should")
	}
	// At first there is less behind a row than the margin in which older ones are looked for.
	const steady = 2
	if last := perRow[len(perRow)-1]; last > 1.25*perRow[steady] || last > 2.5*perRow[0] {
		t.Errorf("the last round took %.1f buffers per row, round %d %.1f, the first one %.1f", last, steady, perRow[steady], perRow[0])
	}
}

// TestG9_IdleClaimsTakeOneQueryPerTable whatever indexes there are.
func TestG9_IdleClaimsTakeOneQueryPerTable(t *testing.T) {
	t.Parallel()
	for name, ours := range map[string]bool{"original index": false, "own indexes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newPlanEnv(t, ours)
			e.fill(e.tables[0].Name, 10, 3, "COMPLETED")
			e.work(100) // finds out about the table
			for range 3 {
				e.seen.statements = nil
				rows, err := e.q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: 100})
				if err != nil || len(rows) > 0 || len(e.seen.statements) > 1 {
					t.Errorf("%d rows, %v, statements %v", len(rows), err, e.seen.statements)
				}
			}
		})
	}
}

// TestG6_AGroupOfManyRowsCostsItsShareOnly: each claim reads what it takes of it.
func TestG6_AGroupOfManyRowsCostsItsShareOnly(t *testing.T) {
	t.Parallel()
	e := newPlanEnv(t, true)
	table := e.tables[0].Name
	e.fill(table, 50_000, 1, "PENDING")
	e.exec(fmt.Sprintf("UPDATE %s SET created_at = timestamp '2026-01-01'", table)) // all at once
	pgtest.Vacuum(t, e.pool, table)
	for range 5 {
		n, buffers := e.work(500)
		if n != 500 || buffers > 60*500 {
			t.Errorf("%d rows for %d buffers", n, buffers)
		}
	}
}
