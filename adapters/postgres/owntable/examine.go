package owntable

import (
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// Examine implements [adapters.Examiner].
func (s *Source) Examine(ctx context.Context) []adapters.Finding {
	ctx, cancel := context.WithTimeout(ctx, pg.ExaminePatience)
	defer cancel()
	f, reached := pg.ExamineServer(ctx, s.base.Pool)
	if !reached {
		return f
	}
	found := s.base.Find(ctx)
	if found == nil {
		f = append(f, s.examineTable(ctx)...)
	} else {
		f = append(f, pg.Judge("table "+s.base.Table, "", fmt.Errorf("%w%s", found, pg.OwnFix(s.base.Table, found)))...)
	}
	f = append(f, pg.ExaminePooler(ctx, s.base.Pool, "reading"), pg.ExamineClock(ctx, s.base.Pool))
	f = append(f, s.base.Listening.Examine(ctx)...)
	if found != nil {
		return append(f, pg.ExamineOpen(ctx, s.base.Pool)...)
	}
	return append(f, pg.ExamineSurroundings(ctx, s.base.Pool, s.base.Quoted)...)
}

// examineTable examines the table that is read.
func (s *Source) examineTable(ctx context.Context) []adapters.Finding {
	subject := "table " + s.base.Table
	columns, err := checkColumns(ctx, s.base.Pool, s.layout)
	if err != nil {
		return pg.Judge(subject, "", fmt.Errorf("%w%s", err, pg.OwnFix(s.base.Table, err)))
	}
	f := pg.Judge(subject+": columns", "all there, with the types of the layout", columns)
	indexes, err := checkIndexes(ctx, s.base.Pool, s.layout)
	f = append(f, pg.Judge(subject+": indexes", "(slot, position) and (slot, xid, position)", errors.Join(indexes, err))...)
	f = append(f, pg.Judge(subject+": privileges and sequence", "it may be read; positions are handed out one by one", s.checkAccess(ctx))...)
	f = append(f, pg.ExamineOwner(ctx, s.base.Pool, s.base.Quoted)...)
	f = append(f, s.ExaminePartitions(ctx)...)
	return append(f, s.examineXids(ctx))
}

// examineXids looks for rows whose transactions this cluster has not come to.
func (s *Source) examineXids(ctx context.Context) adapters.Finding {
	const q = `SELECT EXISTS (
    SELECT FROM generate_series(0, 15) AS s(slot) CROSS JOIN LATERAL (
        SELECT FROM {table} o WHERE o.slot = s.slot::smallint AND o.xid >= pg_snapshot_xmax(pg_current_snapshot())
        ORDER BY o.slot, o.xid LIMIT 1) f)`
	subject := "table " + s.base.Table + ": transaction ids"
	var foreign bool
	if err := s.base.Pool.QueryRow(ctx, sqltext.Fill(q, sqltext.Names{"table": s.base.Quoted})).Scan(&foreign); err != nil {
		return pg.Unknown(subject, err)
	}
	if foreign {
		return adapters.Finding{Level: adapters.LevelWarning, Subject: subject,
			Text: "rows carry transaction ids that this cluster has not come to: they were restored from another one",
			Fix:  "run `outrider rebase ROUTE` once for each route that has not been rebased since; otherwise such rows come twice"}
	}
	return pg.Fine(subject, "all of this cluster")
}
