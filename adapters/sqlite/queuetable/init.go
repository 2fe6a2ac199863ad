package queuetable

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// step is a table or an index that [Init] creates.
type step struct{ what, name, create string }

// definition is how a layout's table is created; none where the application creates it.
func definition(l *Layout, of Table) (steps []step) {
	d, ok := l.Definitions[layout.SQLite]
	if !ok {
		return nil
	}
	lines := make([]string, len(d.Columns))
	for i, c := range d.Columns {
		lines[i] = "    " + c.Name + " " + c.Type
	}
	steps = append(steps, step{"table", of.Name, "CREATE TABLE IF NOT EXISTS " + lite.Quote(of.Name) + " (\n" + strings.Join(lines, ",\n") + "\n)"})
	for _, index := range d.Indexes {
		name := strings.ReplaceAll(index.Name, "{table}", of.Name)
		create := "CREATE INDEX IF NOT EXISTS "
		if index.Unique {
			create = "CREATE UNIQUE INDEX IF NOT EXISTS "
		}
		steps = append(steps, step{"index", name, create + lite.Quote(name) + " ON " + lite.Quote(of.Name) + " " + index.On})
	}
	return steps
}

// ours are the indexes that claims and operators want, of a table with columns of these types.
func ours(l *Layout, of Table, types map[string]string) (steps []step) {
	for _, i := range newStatements(newTable(of, l, 0), types).indexes() {
		steps = append(steps, step{"index", i.name, i.create})
	}
	return steps
}

// defined are the types of columns as a layout defines them, which has no say about other tables: there all
// statuses are text.
func defined(l *Layout) map[string]string {
	types := map[string]string{strings.ToLower(l.Columns.Status): "text"}
	for _, c := range l.Definitions[layout.SQLite].Columns {
		types[strings.ToLower(strings.Trim(c.Name, `"`))] = c.Type
	}
	return types
}

// InitSQL returns the statements that prepare queue tables: with createTables the tables and
// their indexes, as the layout defines them, if it does; then, for every layout, the partial indexes that Outrider wants.
func InitSQL(l Layout, createTables bool, tables ...Table) string {
	var b strings.Builder
	for _, of := range tables {
		if createTables {
			for _, s := range definition(&l, of) {
				b.WriteString(s.create + ";\n\n")
			}
		}
		b.WriteString("-- Keep claims cheap whatever is retained.\n")
		if _, known := l.Definitions[layout.SQLite]; !known {
			b.WriteString("-- For a column of text with the status; `outrider init` looks at its type.\n")
		}
		for _, s := range ours(&l, of, defined(&l)) {
			b.WriteString(s.create + ";\n")
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Init runs what [InitSQL] returns where it is missing, puts the file into WAL mode, and returns a
// sentence for each thing that it created or found. An index that is not as it is wanted is made again; writers
// wait meanwhile, seconds for a million rows.
func Init(ctx context.Context, db *sql.DB, l Layout, createTables bool, tables ...Table) (done []string, err error) {
	if err := queue.Validate(&l, "SQLite"); err != nil {
		return nil, fmt.Errorf("sqlite queue: layout: %w", err)
	}
	if err := lite.UseWAL(ctx, db); err != nil {
		return nil, fmt.Errorf("sqlite queue: init: %w", err)
	}
	err = lite.Transact(ctx, db, func(tx *sql.Tx) error {
		done = nil
		for _, of := range tables {
			said, err := initTable(ctx, tx, &l, createTables, of)
			if err != nil {
				return fmt.Errorf("sqlite queue %s: init: %w", of.Name, err)
			}
			done = append(done, said...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

func initTable(ctx context.Context, tx *sql.Tx, l *Layout, createTables bool, of Table) (done []string, err error) {
	run := func(s step) error {
		var there bool
		err := tx.QueryRowContext(ctx, `SELECT count(*) > 0 FROM sqlite_master WHERE type = ? AND lower(name) = lower(?)`, s.what, s.name).Scan(&there)
		if err == nil && there {
			done = append(done, s.what+" "+s.name+" exists")
			return nil
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, s.create)
		}
		done = append(done, "created "+s.what+" "+s.name)
		return err
	}
	if createTables {
		for _, s := range definition(l, of) {
			if err := run(s); err != nil {
				return nil, err
			}
		}
	}
	t := newTable(of, l, 0)
	types, err := t.columns(ctx, tx)
	if err == nil {
		err = t.checkColumns(types)
	}
	if err != nil {
		return nil, err
	}
	for _, i := range newStatements(t, types).indexes() {
		there, err := hasIndex(ctx, tx, i)
		if err == nil && !there { // of another layout, or of other types
			_, err = tx.ExecContext(ctx, "DROP INDEX IF EXISTS "+lite.Quote(i.name))
		}
		if err == nil {
			err = run(step{"index", i.name, i.create})
		}
		if err != nil {
			return nil, err
		}
	}
	return done, nil
}
