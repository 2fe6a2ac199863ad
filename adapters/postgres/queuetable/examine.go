package queuetable

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// Examine implements [adapters.Examiner].
func (q *Queue) Examine(ctx context.Context) []adapters.Finding {
	ctx, cancel := context.WithTimeout(ctx, pg.ExaminePatience)
	defer cancel()
	f, reached := pg.ExamineServer(ctx, q.pool)
	if !reached {
		return f
	}
	var readOnly bool
	if err := q.pool.QueryRow(ctx, `SELECT current_setting('default_transaction_read_only')::bool`).Scan(&readOnly); err == nil && readOnly {
		f = append(f, pg.Judge("transactions", "", errQueueReadOnly)...)
	}
	for _, t := range q.tables {
		f = append(f, q.examineTable(ctx, t)...)
	}
	f = append(f, pg.ExaminePooler(ctx, q.pool, "claiming"), pg.ExamineClock(ctx, q.pool))
	f = append(f, q.waker.Examine(ctx)...)
	return append(f, pg.ExamineOpen(ctx, q.pool)...)
}

// examineRole judges the role's privileges as a relay's, or as an operator's if it has
// just those.
func (q *Queue) examineRole(ctx context.Context, t *queueTable) []adapters.Finding {
	subject := "table " + t.name + ": privileges"
	role, operator, err := queueGrants(t.sql.layout, t.full).OperatorOnly(ctx, q.pool)
	if err == nil && operator {
		return []adapters.Finding{pg.Fine(subject, "checked as an operator: role "+role+
			" has what operators' commands need, and not all that a relay needs; check the relay's role with its own login")}
	}
	return pg.Judge(subject, "its rows may be read and settled", q.checkRole(ctx, t))
}

// examineTable looks at one table and at what is stuck in it.
func (q *Queue) examineTable(ctx context.Context, t *queueTable) []adapters.Finding {
	subject := "table " + t.name
	var columns map[string]pg.TableColumn
	err := t.find(ctx, q.pool)
	if err == nil {
		columns, err = pg.TableColumns(ctx, q.pool, t.sql.table)
	}
	if err != nil {
		return pg.Judge(subject, "", fmt.Errorf("%w%s", err, pg.FixBy(err, queueFix)))
	}
	err = q.checkColumns(columns, t)
	if err == nil {
		err = q.checkStatuses(ctx, t, columns)
	}
	f := pg.Judge(subject+": columns", "all there, with types that can be read and written", err)
	f = append(f, q.examineRole(ctx, t)...)
	sound := true
	for _, found := range f {
		sound = sound && found.Level == adapters.LevelOK
	}
	f = append(f, q.examineIndexes(ctx, t))
	f = append(f, q.examineDeadIndex(ctx, t)...)
	f = append(f, pg.ExamineOwner(ctx, q.pool, t.sql.table)...)
	if sound && t.claims.marks() { // or the statements would not run
		f = append(f, q.examineStuck(ctx, t))
	}
	return append(f, pg.ExamineUpkeep(ctx, q.pool, t.sql.table)...)
}

// examineIndexes names the indexes that would make claims cheaper.
func (q *Queue) examineIndexes(ctx context.Context, t *queueTable) adapters.Finding {
	subject := "table " + t.name + ": indexes"
	found, err := t.indexes(ctx, q.pool)
	wanted := t.wantedIndexes()
	switch {
	case err != nil:
		return pg.Unknown(subject, err)
	case !found.whole && (!found.waiting || !found.held):
		return adapters.Finding{Level: adapters.LevelBroken, Subject: subject,
			Text: "none finds the unfinished rows of a group; every claim would read the whole table", Fix: t.groupIndexFix()}
	case !found.aged:
		return adapters.Finding{Level: adapters.LevelWarning, Subject: subject,
			Text: "none has the unfinished rows by age: new rows are looked for group by group, which costs more with each group",
			Fix:  wanted[len(wanted)-1]}
	}
	return pg.Fine(subject, "they find the unfinished rows by group and by age")
}

// examineStuck looks for rows that are marked as being processed for longer than
// anybody should take.
func (q *Queue) examineStuck(ctx context.Context, t *queueTable) adapters.Finding {
	const most = 10_000
	subject := "table " + t.name + ": rows being processed"
	stuck := t.sql.fill(`SELECT count(*), coalesce(extract(epoch FROM now() - min(` + wire.Instant("s.claimed") + `)), 0)::float8, count(*) FILTER (WHERE s.claimed IS NULL)
FROM (SELECT {claimed} AS claimed FROM {t} t
      WHERE {status} = {processing} AND ({claimed} IS NULL OR {claimed} < now() - make_interval(secs => $1)) LIMIT $2) s`)
	var rows, undated int
	var longest float64
	if err := q.pool.QueryRow(ctx, stuck, q.timeout.Seconds(), most).Scan(&rows, &longest, &undated); err != nil {
		return pg.Unknown(subject, err)
	}
	found := queue.Stuck{Subject: subject, Rows: "rows", Claimed: t.sql.layout.Columns.Claimed, Timeout: q.timeout, Overdue: rows - undated, More: rows == most,
		Longest: time.Duration(longest * float64(time.Second)), Undated: undated}
	return found.Finding()
}

// examineDeadIndex reports that looking for dead rows reads the whole table.
func (q *Queue) examineDeadIndex(ctx context.Context, t *queueTable) []adapters.Finding {
	all, err := pg.TableIndexes(ctx, q.pool, t.sql.table)
	c := &t.sql.layout.Columns
	if err != nil || slices.ContainsFunc(all, func(i pg.TableIndex) bool {
		index := queueIndex{i}
		return index.covers(t.sql.layout, t.sql.layout.Dead()...) && index.serves(nil, c.Created, c.Key)
	}) {
		return nil // examineIndexes reports an error
	}
	return []adapters.Finding{{Level: adapters.LevelWarning, Subject: "table " + t.name + ": dead rows",
		Text: "no index finds them: `outrider status` and `outrider parked` read the whole table",
		Fix:  strings.Replace(t.sql.deadIndex(t.full).Create, "CREATE INDEX IF NOT EXISTS", "CREATE INDEX CONCURRENTLY IF NOT EXISTS", 1)}}
}
