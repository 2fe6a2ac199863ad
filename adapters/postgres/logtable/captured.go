package logtable

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// deletesSQL counts the rows that were inserted and deleted since the statistics were reset. Parameter: the table.
const deletesSQL = `SELECT coalesce(s.n_tup_ins, 0), coalesce(s.n_tup_del, 0)
FROM pg_catalog.pg_stat_all_tables s WHERE s.relid = $1::text::regclass`

// examineDeletes looks for an application that deletes a row as soon as it has inserted it, which a reader of the log does not
// notice. Such a table is empty, and nearly as many rows were deleted as inserted.
func (s *Source) examineDeletes(ctx context.Context) []adapters.Finding {
	const subject = "deleted rows"
	var inserted, deleted int64
	var rows bool
	err := s.base.Pool.QueryRow(ctx, deletesSQL, s.base.Quoted).Scan(&inserted, &deleted)
	if err == nil {
		err = s.base.Pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+s.base.Quoted+")").Scan(&rows)
	}
	switch {
	case err != nil:
		return []adapters.Finding{pg.Unknown(subject, err)}
	case rows || inserted == 0 || deleted < inserted-inserted/10:
		return []adapters.Finding{{Level: adapters.LevelOK, Subject: subject, Text: "rows stay in table " + s.base.Table}}
	}
	return []adapters.Finding{{
		Level: adapters.LevelWarning, Subject: subject,
		Text: fmt.Sprintf("table %s is empty, and %d of %d inserted rows were deleted: if the application deletes a row as soon as it has inserted it, "+
			"as Debezium allows, Outrider, which reads the table, delivers nothing", s.base.Table, deleted, inserted),
		Fix: "remove that DELETE from the application, and delete rows when they are some days old; ignore this if only old rows are deleted",
	}}
}
