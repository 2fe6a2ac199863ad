package queuetable

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// create returns the statements that create a table of a layout, and its indexes; none
// where the application creates it.
func (q *queueSQL) create(name pgx.Identifier) []pg.Step {
	definition, ok := q.layout.Definitions[layout.PostgreSQL]
	if !ok {
		return nil
	}
	lines := make([]string, len(definition.Columns))
	for i, c := range definition.Columns {
		lines[i] = "    " + c.Name + " " + c.Type
	}
	table := name.Sanitize()
	steps := []pg.Step{{What: "table", Name: table, Create: "CREATE TABLE IF NOT EXISTS " + table + " (\n" + strings.Join(lines, ",\n") + "\n)"}}
	for _, index := range definition.Indexes {
		create := "CREATE INDEX IF NOT EXISTS "
		if index.Unique {
			create = "CREATE UNIQUE INDEX IF NOT EXISTS "
		}
		own := q.indexName(name, index.Name)
		steps = append(steps, pg.Step{What: "index", Name: pg.Beside(name, own).Sanitize(),
			Create: create + pgx.Identifier{own}.Sanitize() + " ON " + table + " " + index.On})
	}
	return steps
}

// indexName is the name of a layout's index: that of the source system for a table with
// its name, and one with the name of the table for others. A name that is too long loses its beginning.
func (q *queueSQL) indexName(table pgx.Identifier, index string) string {
	prefix, suffix, named := strings.Cut(index, "{table}")
	if !named {
		if table[len(table)-1] == q.layout.Tables[0].Name {
			return index
		}
		suffix = "_" + index
	}
	if name := prefix + pg.DerivedName(table, suffix); named && len(name) <= pg.LongestName {
		return name
	}
	return pg.DerivedName(table, suffix)
}

// wantedIndexes are the statements to create the indexes in a table that is
// in use, the layout's own before ours.
func (t *queueTable) wantedIndexes() []string {
	steps := t.sql.cut().wanted(t.full)
	if own := t.sql.create(t.full); len(own) > 0 {
		steps = append(own[1:], steps...)
	}
	var statements []string
	for _, s := range steps {
		statements = append(statements, concurrently(s.Create))
	}
	return statements
}

// groupIndexFix says how to make the index without which no group is found: Outrider's own, or the
// layout's where that finds all that is unfinished.
func (t *queueTable) groupIndexFix() string {
	if own := t.sql.create(t.full); t.sql.layout.Definitions[layout.PostgreSQL].FindsHeld && len(own) > 1 {
		return concurrently(own[1].Create)
	}
	return "run `outrider init --indexes`, or " + concurrently(t.sql.cut().wanted(t.full)[0].Create)
}

// InitIndexes creates the indexes of Outrider's that tables lack, without stopping writers. say is called before
// each, because one on a large table takes minutes. Tables that are not there are left to [Init]. It returns
// what it did, a sentence each.
func InitIndexes(ctx context.Context, pool *pgxpool.Pool, of Layout, say func(string), tables ...Table) (did []string, err error) {
	if err := validate(&of); err != nil {
		return nil, fmt.Errorf("postgres queue: layout: %w", err)
	}
	for _, table := range tables {
		name, err := pg.ParseTable(table.Name)
		if err != nil {
			return did, err
		}
		var missing []pg.Step
		err = pg.BeginPinned(ctx, pool, func(tx pgx.Tx) error {
			full, exists, err := pg.Locate(ctx, tx.Conn(), name)
			if err != nil || !exists {
				return err
			}
			sql := newSQL(full.Sanitize(), &of)
			missing, err = sql.missing(ctx, tx, full)
			return err
		})
		for _, s := range missing {
			say(fmt.Sprintf("creating index %s; on a large table this takes minutes; writers are not blocked", s.Name))
			if err = pg.CreateIndex(ctx, pool, s.Name, concurrently(s.Create)); err != nil {
				break
			}
			did = append(did, "created index "+s.Name)
		}
		if err != nil {
			return did, queueError(table.Name, "create its indexes", err)
		}
	}
	return did, nil
}

// cut is what new indexes are made with.
func (q *queueSQL) cut() *queueSQL {
	made := *q
	made.short = q.long
	return &made
}

// measure finds out whether new indexes have groups cut, and which columns of the layout are there.
func (q *queueSQL) measure(ctx context.Context, tx pgx.Tx) error {
	columns, err := pg.TableColumns(ctx, tx, q.table)
	q.layout = q.layout.In(func(name string) bool { _, ok := columns[name]; return ok })
	q.short = q.unbounded(columns)
	return err
}

// missing are the indexes of ours that a table does not have, or not valid.
func (q *queueSQL) missing(ctx context.Context, tx pgx.Tx, name pgx.Identifier) (missing []pg.Step, err error) {
	if err := q.measure(ctx, tx); err != nil {
		return nil, err
	}
	for _, s := range q.ours(name) {
		valid, err := isValid(ctx, tx, s)
		if err != nil {
			return nil, err
		}
		if !valid {
			missing = append(missing, s)
		}
	}
	return missing, nil
}

// isValid reports whether an index is there and complete.
func isValid(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, index pg.Step) (valid bool, err error) {
	err = db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass($1::text)::oid AND indisvalid)", index.Name).Scan(&valid)
	return valid, err
}

// concurrently is the statement that creates an index without stopping writers.
func concurrently(create string) string {
	return strings.Replace(create, "INDEX IF NOT EXISTS", "INDEX CONCURRENTLY IF NOT EXISTS", 1)
}

// InitSQL returns the statements that prepare queue tables: with
// createTables the tables and their indexes, as the layout defines them, if it does; then, for every layout, the partial indexes that Outrider wants. For
// the grants see [Grants]. A name that cannot be read as SQL is quoted as a whole.
func InitSQL(of Layout, createTables bool, tables ...Table) string {
	var b strings.Builder
	for _, table := range tables {
		name := pg.NameOf(table.Name)
		sql := newSQL(name.Sanitize(), &of)
		definition, known := of.Definitions[layout.PostgreSQL]
		sql.short = slices.ContainsFunc(definition.Columns, func(c layout.Column) bool { return c.Name == of.Columns.Group && strings.HasPrefix(c.Type, "text") })
		if createTables {
			for _, s := range sql.create(name) {
				b.WriteString(s.Create + ";\n\n")
			}
		}
		b.WriteString("-- Keep claims cheap whatever is retained, and under an old snapshot. In a table that is in use:\n" +
			"-- CREATE INDEX CONCURRENTLY.\n")
		if !known {
			b.WriteString("-- For groups of at most 1 KiB; `outrider init` looks at the type of their column.\n")
		}
		for _, s := range sql.ours(name) {
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
func Init(ctx context.Context, pool *pgxpool.Pool, of Layout, createTables bool, tables ...Table) ([]string, error) {
	if err := validate(&of); err != nil {
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
			sql := newSQL(full.Sanitize(), &of)
			create := sql.create(full)
			if createTables && len(create) > 0 {
				if said, err = pg.RunSteps(ctx, tx, create[:1]); err != nil {
					return err
				}
			}
			if err := sql.measure(ctx, tx); err != nil {
				return err
			}
			steps := sql.ours(full)
			if createTables && len(create) > 0 {
				steps = append(sql.create(full)[1:], steps...)
			}
			more, err := pg.RunSteps(ctx, tx, steps)
			said = append(said, more...)
			return err
		})
		if err != nil {
			return done, queueError(table.Name, "init", err)
		}
		done = append(done, said...)
	}
	return done, nil
}
