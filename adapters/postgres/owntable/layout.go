package owntable

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/retention"
)

// DefaultTable is the outbox table where a config names none.
const DefaultTable = "outrider_outbox"

// column is one column of the layout.
type column struct {
	name string
	oid  uint32 // its type
	sql  string // its type and constraints; layout.definition completes them
}

// slotExpression is the slot of a row: of its group or, where order does not
// matter, of its id, so that such rows spread. It is fixed for the life of a table.
// The printed statements may run with any search path, so what they call is
// named with its schema.
const slotExpression = "((pg_catalog.hashtextextended(coalesce(message_group, id), 0) OPERATOR(pg_catalog.&) 15)::smallint)"

// keyColumns place a row; fetchColumns are what a fetch returns of it, in this order.
var (
	keyColumns = []column{
		{"xid", pgtype.XID8OID, "xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id()"},
		{"slot", pgtype.Int2OID, "smallint GENERATED ALWAYS AS " + slotExpression + " STORED"},
	}
	fetchColumns = []column{
		{"position", pgtype.Int8OID, "bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME {sequence} CACHE 1)"},
		{"id", pgtype.TextOID, "text NOT NULL DEFAULT pg_catalog.gen_random_uuid()::text"},
		{"type", pgtype.TextOID, "text NOT NULL"},
		{"message_group", pgtype.TextOID, "text"},
		{"aggregate_type", pgtype.TextOID, "text"},
		{"aggregate_id", pgtype.TextOID, "text"},
		{"tenant_id", pgtype.TextOID, "text"},
		{"tags", pgtype.JSONOID, "json"},
		{"headers", pgtype.JSONOID, "json"},
		{"payload", pgtype.JSONOID, "json"},
		{"payload_bytes", pgtype.ByteaOID, "bytea"},
		{"occurred_at", pgtype.TimestamptzOID, "timestamptz"},
		{"created_at", pgtype.TimestamptzOID, "timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()"},
	}
)

// layout is the own layout for one table: names are quoted.
type layout struct {
	name     pgx.Identifier // unquoted
	table    string
	sequence string
	index    string // unqualified: an index is created in its table's schema
	schema   string // "" where the table's name has none

	partitionRows int64 // positions of each partition; 0: no partitions
}

func layoutOf(table pgx.Identifier) layout {
	l := layout{
		name:     table,
		table:    table.Sanitize(),
		sequence: pg.Beside(table, pg.DerivedName(table, "_position_seq")).Sanitize(),
		index:    pgx.Identifier{pg.DerivedName(table, "_slot_xid_position_idx")}.Sanitize(),
	}
	if len(table) > 1 {
		l.schema = pgx.Identifier{table[0]}.Sanitize()
	}
	return l
}

// named returns the layout of the same table by another name.
func (l layout) named(table pgx.Identifier) layout {
	out := layoutOf(table)
	out.partitionRows = l.partitionRows
	return out
}

// definition returns a column's type and constraints.
func (l layout) definition(c column) string {
	return sqltext.Fill(c.sql, sqltext.Names{"sequence": l.sequence})
}

// createTable returns the statement that creates the table if it is missing.
func (l layout) createTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (\n", l.table)
	for _, columns := range [][]column{keyColumns, fetchColumns} {
		for _, c := range columns {
			fmt.Fprintf(&b, "    %-14s %s,\n", c.name, l.definition(c))
		}
	}
	b.WriteString("    CHECK ((payload IS NULL) <> (payload_bytes IS NULL)), -- exactly one of them\n")
	b.WriteString("    PRIMARY KEY (slot, position)\n)")
	if l.partitionRows > 0 {
		b.WriteString(" PARTITION BY RANGE (position)")
	}
	return b.String()
}

// createIndex returns the statement that creates the index if it is missing.
func (l layout) createIndex() string {
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (slot, xid, position)", l.index, l.table)
}

// InitSQL returns the statements that create an outbox table and its index; for the
// grants see [Grants]. The table is named as in SQL, with its schema where it
// needs one; a name that cannot be read as SQL is quoted as a whole. Empty: [DefaultTable].
func InitSQL(table string) string { return newLayout(table, 0).initSQL() }

// newLayout returns the layout of a table by its name as in SQL, with partitions of so
// many positions; 0: without.
func newLayout(table string, partitionRows int64) layout {
	l := layoutOf(pg.NameOf(cmp.Or(table, DefaultTable)))
	l.partitionRows = partitionRows
	return l
}

func (l layout) initSQL() string {
	text := l.createTable() + ";\n\n" + l.createIndex() + ";\n"
	if l.partitionRows > 0 {
		text += retention.InitSQL(l.name, l.partitionRows)
	}
	return text
}

// Init creates the outbox table and its index where they are missing, and
// returns a sentence for each thing that it created or found. A table that
// exists is not changed; one of another shape is an error that names the
// differences. Instances that start together take turns.
func Init(ctx context.Context, pool *pgxpool.Pool, table string) ([]string, error) {
	return initTable(ctx, pool, table, 0)
}

func initTable(ctx context.Context, pool *pgxpool.Pool, table string, partitionRows int64) (done []string, err error) {
	table = cmp.Or(table, DefaultTable)
	if _, err := pg.ParseTable(table); err != nil {
		return nil, err
	}
	l := newLayout(table, partitionRows)
	err = pg.InTurn(ctx, pool, l.name, func(tx pgx.Tx, full pgx.Identifier) error {
		l := l.named(full)
		if err := checkShape(ctx, tx, l); err != nil {
			return err
		}
		did, err := pg.RunSteps(ctx, tx, l.steps())
		if err != nil {
			return err
		}
		done = did
		if l.partitionRows > 0 {
			more, err := retention.Init(ctx, tx, l.name, l.partitionRows)
			if err != nil {
				return err
			}
			done = append(done, more...)
		}
		return checkLayout(ctx, tx, l)
	})
	if err != nil {
		return nil, pg.DescribeOwn(table, "init", err)
	}
	return done, nil
}

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

func (l layout) steps() []pg.Step {
	index := l.index
	if l.schema != "" {
		index = l.schema + "." + index
	}
	return []pg.Step{
		{What: "table", Name: l.table, Create: l.createTable()},
		{What: "index", Name: index, Create: l.createIndex()},
	}
}
