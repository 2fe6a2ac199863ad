package retention

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// partition is one partition of an outbox table: the rows from low to below high.
type partition struct {
	name      pgx.Identifier
	low, high int64
}

// partitions are those of a table, by ascending position; the default one,
// where there is one, is apart.
type partitions struct {
	ranges []partition
	rest   *partition
}

// partitionBound is how PostgreSQL shows the range of a partition.
var partitionBound = regexp.MustCompile(`^FOR VALUES FROM \('?(-?\d+|MINVALUE)'?\) TO \('?(-?\d+|MAXVALUE)'?\)$`)

// listPartitions reads the catalogue.
func listPartitions(ctx context.Context, q pg.Querier, table string) (partitions, error) {
	rows, err := q.Query(ctx, `
SELECT n.nspname, c.relname, pg_get_expr(c.relpartbound, c.oid)
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE i.inhparent = $1::text::regclass
ORDER BY (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''?(-?\d+)'))[1]::bigint NULLS FIRST, c.relname`, table)
	if err != nil {
		return partitions{}, err
	}
	var all partitions
	var schema, name string
	var bound *string // null: dropped at this moment
	_, err = pgx.ForEachRow(rows, []any{&schema, &name, &bound}, func() error {
		p := partition{name: pgx.Identifier{schema, name}}
		if bound == nil {
			return nil
		}
		if *bound == "DEFAULT" {
			all.rest = &p
			return nil
		}
		m := partitionBound.FindStringSubmatch(*bound)
		if m == nil {
			return fmt.Errorf("partition %s has a bound that is not a range of positions: %s", p.name.Sanitize(), *bound)
		}
		p.low, p.high = boundNumber(m[1]), boundNumber(m[2])
		all.ranges = append(all.ranges, p)
		return nil
	})
	return all, err
}

// boundNumber reads what partitionBound has matched.
func boundNumber(text string) int64 {
	switch text {
	case "MINVALUE":
		return math.MinInt64
	case "MAXVALUE":
		return math.MaxInt64
	}
	n, _ := strconv.ParseInt(text, 10, 64) // digits that were a bigint
	return n
}

// end is the first position that is in no partition but the default one, nor
// is any after it.
func (p partitions) end() int64 {
	if len(p.ranges) == 0 {
		return 0
	}
	return p.ranges[len(p.ranges)-1].high
}

// partitionsAhead is how many partitions are made before their positions are
// drawn: that much can be published while no retention runs, and within one
// statement. A statement knows the partitions that there were when it began; if
// it comes to the positions of a later one, PostgreSQL refuses its row.
const partitionsAhead = 4

// marginAhead is how many partitions' worth of positions, at least, are left
// between the last one drawn and a partition that is attached while statements
// run: rows that they write there have a home in the default partition, and
// would be refused by it.
const marginAhead = 1

// next is where the next partition is to begin, given the last position drawn; 0
// and false when none is missing. Where it would be too close to that position,
// quiet is true: it may only be made while no transaction writes.
func (p partitions) next(last, size int64) (low int64, quiet, missing bool) {
	low = p.end()
	if low == math.MaxInt64 || low >= last+partitionsAhead*size {
		return 0, false, false // there is one without an end, or there are enough
	}
	return low, last > 0 && low < last+marginAhead*size, true
}

// clearOf is where a partition may begin although transactions write and positions have
// come close to the end of the last one, or run past it: rows up to there are for
// the default one.
func clearOf(last, size int64) int64 { return (last/size + 3) * size }

// partitionName names the partition that begins at a position.
func partitionName(table pgx.Identifier, low int64) pgx.Identifier {
	return pg.Beside(table, pg.DerivedName(table, "_p"+strconv.FormatInt(low, 10)))
}

// defaultPartition is the partition for positions that have no other.
func defaultPartition(table pgx.Identifier) pgx.Identifier {
	return pg.Beside(table, pg.DerivedName(table, "_rest"))
}

// attachPartition returns the statements that add a partition. It is created
// as a table of its own and then attached, because that does not make publishers
// wait, which CREATE TABLE ... PARTITION OF does.
func attachPartition(table pgx.Identifier, low, high int64) string {
	parent, name := table.Sanitize(), partitionName(table, low).Sanitize()
	return fmt.Sprintf(`CREATE TABLE %[2]s (LIKE %[1]s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED INCLUDING STORAGE);
ALTER TABLE %[1]s ATTACH PARTITION %[2]s FOR VALUES FROM (%[3]d) TO (%[4]d);
`, parent, name, low, high)
}
