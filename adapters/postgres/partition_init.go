package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// InitPartitionedSQL is [InitSQL] for a table with partitions of so many
// positions each (0: [adapters.DefaultPartitionRows]): the first ones, and one for
// positions that have no other. Retention makes the next ones.
func InitPartitionedSQL(table string, rows int64) string {
	l := newLayout(table, partitionRows(rows))
	return l.initSQL() + "\n-- Only its owner can make and drop partitions. So the relay's role has to own the table, or be a member\n" +
		"-- of its owner, and may create tables in its schema:\n" +
		"-- ALTER TABLE " + l.table + " OWNER TO ...; GRANT CREATE ON SCHEMA ... TO ...;\n"
}

// InitPartitioned is [Init] for a table with partitions. One that exists without
// partitions is an error: it cannot be given any in place.
func InitPartitioned(ctx context.Context, pool *pgxpool.Pool, table string, rows int64) ([]string, error) {
	return initTable(ctx, pool, table, partitionRows(rows))
}

// partitionRows is how many positions a partition has.
func partitionRows(configured int64) int64 {
	if configured <= 0 {
		return adapters.DefaultPartitionRows
	}
	return configured
}

// partitionSteps make the default partition and the first others of a new table.
func (l layout) partitionSteps() []pg.Step {
	if l.partitionRows == 0 {
		return nil
	}
	rest := defaultPartition(l.name).Sanitize()
	steps := []pg.Step{{What: "partition", Name: rest, Create: fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF %s DEFAULT", rest, l.table)}}
	for i := range int64(partitionsAhead) {
		low := i * l.partitionRows
		name := partitionName(l.name, low).Sanitize()
		steps = append(steps, pg.Step{What: "partition", Name: name, Create: fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM (%d) TO (%d)",
			name, l.table, low, low+l.partitionRows)})
	}
	return steps
}

// createPartitions are the statements of the steps.
func (l layout) createPartitions() string {
	var b strings.Builder
	for _, s := range l.partitionSteps() {
		b.WriteString("\n" + s.Create + ";\n")
	}
	return b.String()
}

// initPartitions makes the first partitions of a table that has none yet, and
// refuses a table that cannot have any.
func (l layout) initPartitions(ctx context.Context, tx pgx.Tx) (done []string, err error) {
	if l.partitionRows == 0 {
		return nil, nil
	}
	var partitioned bool
	err = tx.QueryRow(ctx, "SELECT relkind = 'p' FROM pg_class WHERE oid = $1::text::regclass", l.table).Scan(&partitioned)
	if err == nil && !partitioned {
		err = errors.New("it exists without partitions; name another table, or use retention of mode: delete")
	}
	if err != nil {
		return nil, err
	}
	all, err := listPartitions(ctx, tx, l.table)
	if err != nil || len(all.ranges) > 0 || all.rest != nil {
		return nil, err
	}
	return pg.RunSteps(ctx, tx, l.partitionSteps())
}
