package queuetable

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// flowCatalystColumns are the columns of FlowCatalyst's tables, as its document
// has them.
var flowCatalystColumns = [][2]string{
	{"id", "VARCHAR(13) PRIMARY KEY"},
	{"type", "VARCHAR(20) NOT NULL"},
	{"message_group", "VARCHAR(255)"},
	{"payload", "TEXT NOT NULL"},
	{"status", "VARCHAR(20) NOT NULL"},
	{"retry_count", "INT NOT NULL DEFAULT 0"},
	{"created_at", "TIMESTAMP NOT NULL"},
	{"processed_at", "TIMESTAMP"},
	{"error_message", "TEXT"},
}

// flowCatalystTypes has the same by name.
var flowCatalystTypes = func() map[string]string {
	types := map[string]string{}
	for _, c := range flowCatalystColumns {
		types[c[0]] = c[1]
	}
	return types
}()

// flowCatalystTable returns the statements of FlowCatalyst's document for a
// table: the table and its index.
func flowCatalystTable(name pgx.Identifier) []pg.Step {
	lines := make([]string, len(flowCatalystColumns))
	for i, c := range flowCatalystColumns {
		lines[i] = "    " + c[0] + " " + c[1]
	}
	index := "idx_" + pg.DerivedName(name, "_status")
	if len(index) > pg.LongestName {
		index = pg.DerivedName(name, "_status")
	}
	table := name.Sanitize()
	return []pg.Step{
		{What: "table", Name: table, Create: "CREATE TABLE IF NOT EXISTS " + table + " (\n" + strings.Join(lines, ",\n") + "\n)"},
		{What: "index", Name: pg.Beside(name, index).Sanitize(), Create: fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (status, message_group, created_at)",
			pgx.Identifier{index}.Sanitize(), table)},
	}
}

// wanted returns the indexes that keep claims cheap whatever is retained, and
// under an old snapshot: the unfinished rows by group, and by age. An index of
// all that is unfinished gets a new entry with each claim. So where there is another
// one that finds what is being processed, as in FlowCatalyst's tables, ours have just
// the rows that wait.
func (q *queueSQL) wanted(name pgx.Identifier) []pg.Step {
	group := [3]string{"_outrider_group_idx", "{set:group}, {set:created}, {set:key}", "{unfinished}"}
	age := [3]string{"_outrider_age_idx", "{set:created}, {set:key}", "{unfinished}"}
	if *q.layout == FlowCatalystLayout() {
		group[0], group[2] = "_outrider_waiting_idx", "{waiting}"
		age[2] = "{waiting}"
	}
	wanted := [][3]string{group, age}
	if q.layout.Columns.Group == "" {
		wanted = wanted[1:]
	}
	steps := make([]pg.Step, len(wanted))
	for i, w := range wanted {
		index := pg.DerivedName(name, w[0])
		steps[i] = pg.Step{What: "index", Name: pg.Beside(name, index).Sanitize(), Create: q.fill(
			"CREATE INDEX IF NOT EXISTS {index} ON {t} ("+w[1]+") WHERE {set:status} IN ("+w[2]+")", "{index}", pgx.Identifier{index}.Sanitize())}
	}
	return steps
}

// wantedIndexes are the statements to create the indexes in a table that is
// in use, FlowCatalyst's own before ours.
func (t *queueTable) wantedIndexes() []string {
	steps := t.sql.wanted(t.full)
	if *t.sql.layout == FlowCatalystLayout() {
		steps = append(flowCatalystTable(t.full)[1:], steps...)
	}
	var statements []string
	for _, s := range steps {
		statements = append(statements, strings.Replace(s.Create, "CREATE INDEX IF NOT EXISTS", "CREATE INDEX CONCURRENTLY IF NOT EXISTS", 1))
	}
	return statements
}

// InitSQL returns the statements that prepare queue tables: with
// createTables FlowCatalyst's tables and their index, exactly as its document
// has them; then, for every layout, the partial indexes that Outrider wants. For
// the grants see [Grants]. A name that cannot be read as SQL is quoted as a whole.
func InitSQL(layout Layout, createTables bool, tables ...Table) string {
	var b strings.Builder
	for _, table := range tables {
		name := pg.NameOf(table.Name)
		sql := queueSQL{table: name.Sanitize(), layout: &layout}
		if createTables {
			for _, s := range flowCatalystTable(name) {
				b.WriteString(s.Create + ";\n\n")
			}
		}
		b.WriteString("-- Keep claims cheap whatever is retained, and under an old snapshot. In a table that is in use:\n" +
			"-- CREATE INDEX CONCURRENTLY.\n")
		for _, s := range sql.wanted(name) {
			b.WriteString(s.Create + ";\n")
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Init runs what [InitSQL] returns where it is missing, and returns a
// sentence for each thing that it created or found. The indexes are built
// under a lock that keeps writers waiting: for a large table that is in use
// create them CONCURRENTLY before. Instances that start together take turns.
func Init(ctx context.Context, pool *pgxpool.Pool, layout Layout, createTables bool, tables ...Table) ([]string, error) {
	if err := layout.validate(); err != nil {
		return nil, fmt.Errorf("postgres queue: layout: %w", err)
	}
	var done []string
	for _, table := range tables {
		name, err := pg.ParseTable(table.Name)
		if err != nil {
			return nil, err
		}
		var said []string
		err = pg.InTurn(ctx, pool, name, func(tx pgx.Tx, full pgx.Identifier) (err error) {
			sql := queueSQL{table: full.Sanitize(), layout: &layout}
			steps := sql.wanted(full)
			if createTables {
				steps = append(flowCatalystTable(full), steps...)
			}
			said, err = pg.RunSteps(ctx, tx, steps)
			return err
		})
		if err != nil {
			return done, queueError(table.Name, "init", err)
		}
		done = append(done, said...)
	}
	return done, nil
}
