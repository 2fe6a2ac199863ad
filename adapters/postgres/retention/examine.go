package retention

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// ExaminePartitions checks the partitions of a table that has some, for the doctor.
func (rm *Remover) ExaminePartitions(ctx context.Context) []adapters.Finding {
	subject := "table " + rm.base.Table + ": partitions"
	all, err := listPartitions(ctx, rm.base.Pool, rm.base.Quoted)
	if err != nil {
		return []adapters.Finding{pg.Unknown(subject, err)}
	}
	if len(all.ranges) == 0 && all.rest == nil {
		return nil // it has none
	}
	if all.rest == nil {
		return []adapters.Finding{{Level: adapters.LevelWarning, Subject: subject,
			Text: "there is no default partition: publishing fails when positions run past the last one",
			Fix:  fmt.Sprintf("CREATE TABLE %s PARTITION OF %s DEFAULT", defaultPartition(rm.base.Name).Sanitize(), rm.base.Quoted)}}
	}
	var last, stray int64
	if err = rm.base.Pool.QueryRow(ctx, reader.LastPositionSQL, rm.base.Quoted).Scan(&last); err == nil {
		err = rm.base.Pool.QueryRow(ctx, sqltext.Fill(straySQL, sqltext.Names{"table": all.rest.name.Sanitize()}), strayBound).Scan(&stray)
	}
	enough := fmt.Sprintf("%d, enough for %d more positions", len(all.ranges), max(all.end()-last-1, 0))
	switch {
	case pg.FailedWith(err, pg.InsufficientPrivilege): // a role that reads the table may not read its partitions alone
		return []adapters.Finding{pg.Fine(subject, enough+"; only their owner can look into the default one")}
	case err != nil:
		return []adapters.Finding{pg.Unknown(subject, err)}
	case stray > 0:
		return []adapters.Finding{{Level: adapters.LevelWarning, Subject: subject,
			Text: fmt.Sprintf("%d rows (counting stops at %d) are in the default partition: no other had been made for them", stray, strayBound),
			Fix:  "run the relay with `retention: {mode: partitions}`, which makes partitions ahead of need; docs/retention.md says what becomes of such rows"}}
	}
	return []adapters.Finding{pg.Fine(subject, enough)}
}
