package queuetable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// step is a table, a column or an index that [Init] creates.
type step struct {
	what, name, create string
	drop               string // undoes it; empty: nothing does
}

// definition is how a layout's table is created; none where the application creates it.
func definition(l *Layout, of *table) (steps []step) {
	d, ok := l.Definitions[layout.MySQL]
	if !ok {
		return nil
	}
	var lines []string
	for _, c := range d.Columns {
		lines = append(lines, "    "+my.Quote(c.Name)+" "+c.Type)
	}
	for _, index := range d.Indexes {
		kind := "INDEX "
		if index.Unique {
			kind = "UNIQUE INDEX "
		}
		lines = append(lines, "    "+kind+my.Quote(indexName(strings.ReplaceAll(index.Name, "{table}", of.at.Name)))+" "+index.On)
	}
	return []step{{what: "table", name: of.Name, create: "CREATE TABLE IF NOT EXISTS " + of.at.SQL() + " (\n" + strings.Join(lines, ",\n") +
		"\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"}}
}

// defined are the columns as a layout defines them, which has no say about other tables: there all
// statuses are text.
func defined(l *Layout) map[string]column {
	columns := map[string]column{strings.ToLower(l.Columns.Status): {kind: "varchar"}}
	for _, c := range l.Definitions[layout.MySQL].Columns {
		kind, _, _ := strings.Cut(c.Type, " ")
		kind, _, _ = strings.Cut(kind, "(")
		columns[strings.ToLower(c.Name)] = column{kind: strings.ToLower(kind)}
	}
	return columns
}

// definedIndexes are the columns of a layout's indexes, by their names.
func definedIndexes(l *Layout) map[string]string {
	all := map[string]string{}
	for _, index := range l.Definitions[layout.MySQL].Indexes {
		all[index.Name] = strings.ToLower(strings.ReplaceAll(strings.Trim(index.On, "()"), ", ", ","))
	}
	return all
}

// ours are the columns and indexes that claims and operators want and that a table lacks. A column that was made for another layout is
// dropped first, with the index of it.
func (s *statements) ours() (steps []step) {
	alter := "ALTER TABLE " + s.name + " "
	drop := func(i index) {
		if name := strings.ToLower(i.name); s.there[name] != "" {
			steps = append(steps, step{what: "former index", name: i.name, create: alter + "DROP INDEX " + my.Quote(i.name)})
			delete(s.there, name)
		}
	}
	of := map[string]index{queueColumn: s.byQueue, stateColumn: s.byAge}
	for _, a := range s.added() {
		is, ok := s.columns[a.Name]
		if ok && (!is.computes(a.computed) || is.makesText(a.computed)) {
			drop(of[a.Name])
			steps = append(steps, step{what: "former column", name: a.Name, create: alter + "DROP COLUMN " + my.Quote(a.Name)})
			ok = false
		}
		if !ok {
			steps = append(steps, step{"column", a.Name, alter + "ADD COLUMN " + my.Quote(a.Name) + " " + a.Definition, alter + "DROP COLUMN " + my.Quote(a.Name)})
		}
	}
	for _, i := range s.missing() {
		drop(i)
		steps = append(steps, step{"index", i.name, alter + "ADD INDEX " + my.Quote(i.name) + " (" + i.columns + ")", alter + "DROP INDEX " + my.Quote(i.name)})
	}
	return steps
}

// InitSQL returns the statements that prepare queue tables: with createTables the tables and
// their indexes, as the layout defines them, if it does; then, for every layout, the columns and indexes that Outrider wants.
func InitSQL(l Layout, createTables bool, tables ...Table) string {
	var b strings.Builder
	for _, of := range tables {
		t, err := newTable(of, &l, 0)
		if err != nil {
			fmt.Fprintf(&b, "-- %v\n", err)
			continue
		}
		if createTables {
			for _, s := range definition(&l, t) {
				b.WriteString(s.create + ";\n\n")
			}
		}
		b.WriteString("-- Added to the table: invisible columns, which SELECT * and INSERT without a list of columns do not see, and indexes of them.\n" +
			"-- They keep claims cheap, however many rows are kept.\n")
		if _, known := l.Definitions[layout.MySQL]; !known {
			b.WriteString("-- For a column of text with the status; `outrider init` looks at its type.\n")
		}
		st := newStatements(t, defined(&l))
		st.there = definedIndexes(&l)
		for _, s := range st.ours() {
			b.WriteString(s.create + ";\n")
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Grants are the privileges on queue tables.
func Grants(l Layout, tables ...Table) (g my.Grants) {
	settles := "SELECT UPDATE"
	if l.DoneIsDeleted || l.OldIsDeleted {
		settles += " DELETE"
	}
	for _, of := range tables {
		at, err := my.ParseTable(of.Name)
		if err != nil {
			continue // said where the table is created
		}
		g = append(g, my.Grant{Task: my.TaskRelay, Table: at, Rights: settles}, my.Grant{Task: my.TaskOperator, Table: at, Rights: "SELECT UPDATE DELETE"},
			my.Grant{Task: my.TaskPublish, Table: at, Rights: "INSERT"})
	}
	return g
}

// Init runs what [InitSQL] returns where it is missing, and returns a sentence for each thing that it created or found. Writers go on
// meanwhile, but for moments at the beginning and end of each statement.
func Init(ctx context.Context, db *sql.DB, l Layout, createTables bool, tables ...Table) (done []string, err error) {
	if err := queue.Validate(&l, "MySQL"); err != nil {
		return nil, fmt.Errorf("mysql queue: layout: %w", err)
	}
	for _, of := range tables {
		said, err := initTable(ctx, db, &l, createTables, of)
		done = append(done, said...)
		if err != nil {
			return done, my.Describe("mysql queue "+of.Name, "init", err)
		}
	}
	return done, nil
}

// Adds says, a sentence each, what [Init] will add to tables that are there already.
func Adds(ctx context.Context, db *sql.DB, l Layout, tables ...Table) (will []string, err error) {
	if err := queue.Validate(&l, "MySQL"); err != nil {
		return nil, fmt.Errorf("mysql queue: layout: %w", err)
	}
	for _, of := range tables {
		t, err := newTable(of, &l, 0)
		if err != nil {
			return nil, err
		}
		columns, err := t.columns(ctx, db)
		if err == nil && len(columns) == 0 {
			continue // it is created with them
		}
		if err != nil {
			return will, my.Describe("mysql queue "+of.Name, "read its columns", err)
		}
		s, err := t.inspect(ctx, db)
		if err != nil {
			return will, err
		}
		what := map[string][]string{}
		for _, step := range s.ours() {
			what[step.what] = append(what[step.what], step.name)
		}
		if of := slices.Concat(what["column"], what["index"]); len(of) > 0 {
			will = append(will, fmt.Sprintf("table %s gets %s (invisible columns, which SELECT * and INSERT without a list of columns do not see, and indexes); "+
				"`outrider init --print` shows the statements", t.Name, strings.Join(of, ", ")))
		}
	}
	return will, nil
}

func initTable(ctx context.Context, db *sql.DB, l *Layout, createTables bool, of Table) (done []string, err error) {
	t, err := newTable(of, l, 0)
	if err != nil {
		return nil, err
	}
	columns, err := t.columns(ctx, db)
	if err != nil {
		return nil, err
	}
	switch {
	case len(columns) > 0:
		done = append(done, "table "+of.Name+" exists")
	case createTables:
		for _, s := range definition(l, t) {
			if _, err := db.ExecContext(ctx, s.create); err != nil {
				return done, err
			}
			done = append(done, "created "+s.what+" "+s.name)
		}
	}
	s, err := t.inspect(ctx, db)
	if err != nil {
		return done, err
	}
	said, err := run(ctx, db, s.ours())
	return append(done, said...), err
}

// run runs the steps. One that the server refuses, because of a type or the size of an index, ends it, and leaves nothing behind of those before.
func run(ctx context.Context, db *sql.DB, steps []step) (done []string, err error) {
	for i, step := range steps {
		_, err := db.ExecContext(ctx, step.create)
		if my.FailedWith(err, my.DuplicateColumn, my.DuplicateIndex) {
			steps[i].drop, err = "", nil // another init made it
		}
		if err != nil {
			for _, made := range slices.Backward(steps[:i]) {
				if made.drop != "" {
					_, undone := db.ExecContext(context.WithoutCancel(ctx), made.drop)
					err = errors.Join(err, undone)
				}
			}
			return nil, err
		}
		verb := "created "
		if strings.HasPrefix(step.what, "former") {
			verb = "dropped "
		}
		done = append(done, verb+step.what+" "+step.name)
	}
	return done, nil
}
