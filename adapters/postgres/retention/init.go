package retention

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// partitionSteps make the default partition and the first others of a new table, of so many positions each.
func partitionSteps(table pgx.Identifier, size int64) []pg.Step {
	rest := defaultPartition(table).Sanitize()
	steps := []pg.Step{{What: "partition", Name: rest, Create: fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF %s DEFAULT", rest, table.Sanitize())}}
	for i := range int64(partitionsAhead) {
		low := i * size
		name := partitionName(table, low).Sanitize()
		steps = append(steps, pg.Step{What: "partition", Name: name, Create: fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM (%d) TO (%d)",
			name, table.Sanitize(), low, low+size)})
	}
	return steps
}

// InitSQL returns the statements that make the first partitions of a table, of so many positions each.
func InitSQL(table pgx.Identifier, size int64) string {
	var b strings.Builder
	for _, s := range partitionSteps(table, size) {
		b.WriteString("\n" + s.Create + ";\n")
	}
	return b.String()
}

// Init makes the first partitions of a table that has none yet, and refuses a table that cannot have any.
func Init(ctx context.Context, tx pgx.Tx, table pgx.Identifier, size int64) (done []string, err error) {
	quoted := table.Sanitize()
	var partitioned bool
	err = tx.QueryRow(ctx, "SELECT relkind = 'p' FROM pg_class WHERE oid = $1::text::regclass", quoted).Scan(&partitioned)
	if err == nil && !partitioned {
		err = errors.New("it exists without partitions; name another table, or use retention of mode: delete")
	}
	if err != nil {
		return nil, err
	}
	all, err := listPartitions(ctx, tx, quoted)
	if err != nil || len(all.ranges) > 0 || all.rest != nil {
		return nil, err
	}
	return pg.RunSteps(ctx, tx, partitionSteps(table, size))
}
