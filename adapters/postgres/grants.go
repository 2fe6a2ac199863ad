package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/outbox"
)

// Task is what a database role is for.
type Task string

// The tasks that privileges are granted for. A role may have several.
const (
	TaskRelay    Task = "relay"    // runs `outrider run`
	TaskOperator Task = "operator" // runs the other commands: status, parked, pause, seek, rebase, route forget
	TaskPublish  Task = "publish"  // writes messages, as applications and `outrider publish` do
)

// Grantees are the names of the roles that statements grant to. Where one is empty,
// the statements for it are comments.
type Grantees struct{ Relay, Operator, Publisher string }

// Grants are the privileges that roles need, by task. They are printed, checked and
// tested from one declaration.
type Grants []grant

// grant is what a task needs of one object.
type grant struct {
	task   Task
	kind   string // SCHEMA or SEQUENCE; empty: a table
	name   pgx.Identifier
	rights []right
	only   string // when it is needed, if not always
}

// right is one privilege.
type right struct {
	name    string
	columns []string // what it is needed on; empty: all of the table
	whole   bool     // it is granted on the table all the same
}

func rights(names string) (out []right) {
	for name := range strings.FieldsSeq(names) {
		out = append(out, right{name: name})
	}
	return out
}

// auditColumns are those that a record's author fills. The others have defaults that
// nobody else chooses: number, time and database role.
var auditColumns = []string{"by", "action", "filter", "changed"}

// stateRights are all privileges on the state tables.
var stateRights = []struct {
	table           string
	relay, operator []right
}{
	{"outrider_cursor", rights("SELECT INSERT UPDATE"), rights("SELECT INSERT UPDATE DELETE")},
	{"outrider_instance", rights("SELECT INSERT UPDATE DELETE"), rights("SELECT")},
	{"outrider_parked", rights("SELECT INSERT UPDATE DELETE"), rights("SELECT UPDATE DELETE")},
	{"outrider_audit", []right{{name: "INSERT", columns: auditColumns}}, []right{{name: "SELECT"}, {name: "INSERT", columns: auditColumns}}},
	{"outrider_pause", rights("SELECT INSERT"), rights("SELECT INSERT DELETE")},
	{"outrider_dedupe", rights("SELECT INSERT UPDATE DELETE"), nil},
	{stateVersionTable, rights("SELECT"), rights("SELECT")},
}

// StateGrants are the privileges on the state tables in a schema; empty: wherever
// the search path leads.
func StateGrants(schema string) Grants {
	table := func(name string) pgx.Identifier {
		if schema == "" {
			return pgx.Identifier{name}
		}
		return pgx.Identifier{schema, name}
	}
	var g Grants
	for _, task := range []Task{TaskRelay, TaskOperator} {
		g = append(g, usage(task, table("")))
		for _, r := range stateRights {
			needed := r.relay
			if task == TaskOperator {
				needed = r.operator
			}
			g = append(g, grant{task: task, name: table(r.table), rights: needed})
		}
	}
	return g
}

// usage is the privilege to find something in its schema.
func usage(task Task, in pgx.Identifier) grant {
	return grant{task: task, kind: "SCHEMA", name: in[:len(in)-1], rights: rights("USAGE")}
}

// OutboxGrants are the privileges on an outbox table of Outrider's own layout, with
// a retention of the mode, if any. Its name is as in SQL.
func OutboxGrants(table string, retention outbox.RetentionMode) Grants {
	if table == "" {
		table = DefaultTable
	}
	return layoutOf(nameOf(table)).grants(retention)
}

// nameOf reads the name of a table; one that cannot be read as SQL is quoted as a
// whole.
func nameOf(table string) pgx.Identifier {
	name, err := parseTable(table)
	if err != nil {
		return pgx.Identifier{table}
	}
	return name
}

func (l layout) grants(retention outbox.RetentionMode) Grants {
	names := make([]string, 0, len(keyColumns)+len(fetchColumns))
	for _, c := range slices.Concat(keyColumns, fetchColumns) {
		names = append(names, c.name)
	}
	sequence := beside(l.name, derivedName(l.name, "_position_seq"))
	var g Grants
	for _, task := range []Task{TaskRelay, TaskOperator} {
		g = append(g, usage(task, l.name), reading(task, l.name, names),
			grant{task: task, kind: "SEQUENCE", name: sequence, rights: rights("SELECT")})
		if task == TaskRelay && retention == outbox.RetainRows {
			g = append(g, grant{task: task, name: l.name, rights: rights("DELETE")})
		}
	}
	return append(g, usage(TaskPublish, l.name), grant{task: TaskPublish, name: l.name, rights: rights("INSERT")})
}

// reading is the privilege to read columns of a table.
func reading(task Task, table pgx.Identifier, columns []string) grant {
	return grant{task: task, name: table, rights: []right{{name: "SELECT", columns: columns, whole: true}}}
}

// LogGrants are the privileges on a table of the application that [LogSource] reads.
// Those of its publishers are the application's.
func LogGrants(cfg LogConfig) (Grants, error) {
	m, err := newMapping(&cfg)
	if err != nil {
		return nil, err
	}
	return m.grants(), nil
}

func (m *mapping) grants() Grants {
	var names []string
	for _, name := range m.columns {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	sequence := beside(m.table, derivedName(m.table, "_"+m.columns[rolePosition]+"_seq"))
	var g Grants
	for _, task := range []Task{TaskRelay, TaskOperator} {
		g = append(g, usage(task, m.table), reading(task, m.table, names),
			grant{task: task, kind: "SEQUENCE", name: sequence, rights: rights("SELECT"), only: "where positions come from it"})
	}
	return g
}

// QueueGrants are the privileges on queue tables. Those of publishers are the
// application's.
func QueueGrants(layout QueueLayout, tables ...QueueTable) (g Grants) {
	for _, table := range tables {
		g = append(g, queueGrants(&layout, nameOf(table.Name))...)
	}
	return g
}

func queueGrants(layout *QueueLayout, table pgx.Identifier) (g Grants) {
	var names []string
	for _, c := range layout.Columns.all() {
		names = append(names, c.name)
	}
	for _, task := range []Task{TaskRelay, TaskOperator} {
		reads := reading(task, table, names)
		if task == TaskRelay {
			reads.rights = append(reads.rights, right{name: "UPDATE", columns: layout.Columns.written()})
		}
		g = append(g, usage(task, table), reads)
	}
	return g
}

// on is the object as a GRANT names it.
func (g *grant) on() string {
	return strings.TrimSpace(g.kind + " " + g.name.Sanitize())
}

// sql is the statement that grants the rights; role is quoted.
func (g *grant) sql(role string) string {
	names := make([]string, len(g.rights))
	for i, r := range g.rights {
		names[i] = r.name
		if len(r.columns) > 0 && !r.whole {
			names[i] += " (" + quotedNames(r.columns) + ")"
		}
	}
	return fmt.Sprintf("GRANT %s ON %s TO %s", strings.Join(names, ", "), g.on(), role)
}

// SQL returns the statements, by task.
func (gs Grants) SQL(to Grantees) string {
	var b strings.Builder
	for _, t := range []struct {
		task       Task
		role, name string
		what       string
	}{
		{TaskRelay, to.Relay, "outrider_relay", "The role of `outrider run`"},
		{TaskOperator, to.Operator, "outrider_operator", "The role of operators' commands"},
		{TaskPublish, to.Publisher, "application", "Applications that publish, which need no grant on a sequence"},
	} {
		comment := ""
		if t.role == "" {
			comment, t.role = "-- ", t.name
		}
		lines := gs.lines(t.task, comment, pgx.Identifier{t.role}.Sanitize())
		if len(lines) > 0 {
			fmt.Fprintf(&b, "-- %s:\n%s\n", t.what, strings.Join(lines, "\n"))
		}
	}
	return b.String()
}

// lines are the statements for a task, each once.
func (gs Grants) lines(task Task, comment, role string) (out []string) {
	for i := range gs {
		g := &gs[i]
		line := g.sql(role) + ";"
		switch {
		case g.task != task || len(g.rights) == 0:
			continue
		case g.kind == "SCHEMA" && len(g.name) == 0:
			line = "-- and USAGE on the tables' schema, unless it is public"
		case g.only != "":
			line = "-- " + line + " -- " + g.only
		default:
			line = comment + line
		}
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// missingSQL returns the numbers of the rights that the connected role lacks. Of what
// does not exist nothing is missing: others say that. Names are looked up in the
// catalogue, because a regclass asks for USAGE on the schema first.
const missingSQL = `
SELECT g.n
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS g(kind, space, name, want, columns, n)
LEFT JOIN pg_namespace s ON s.nspname = g.space
LEFT JOIN pg_class c ON c.relnamespace = s.oid AND c.relname = g.name
WHERE NOT coalesce(CASE
    WHEN g.kind = 'SCHEMA' THEN has_schema_privilege(s.oid, g.want)
    WHEN g.kind = 'SEQUENCE' THEN c.relkind = 'S' AND has_sequence_privilege(c.oid, g.want)
    WHEN g.columns = '{}' THEN has_table_privilege(c.oid, g.want)
    ELSE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = ANY (g.columns::text[])
                     AND NOT has_column_privilege(c.oid, a.attnum, g.want)) END, true)
ORDER BY g.n`

// missing returns the rights for a task that the connected role lacks, and its quoted
// name. Names must be with their schema.
func (gs Grants) missing(ctx context.Context, q querier, task Task) (lacking Grants, role string, err error) {
	var kinds, spaces, names, wants, columns []string
	var all Grants
	for _, g := range gs {
		if g.task != task || len(g.name) == 0 {
			continue
		}
		for _, r := range g.rights {
			one := g
			one.rights = []right{r}
			all = append(all, one)
			kinds, spaces, names = append(kinds, g.kind), append(spaces, g.name[0]), append(names, g.name[len(g.name)-1])
			wants, columns = append(wants, r.name), append(columns, textArray(r.columns))
		}
	}
	if err := q.QueryRow(ctx, "SELECT current_user").Scan(&role); err != nil {
		return nil, "", err
	}
	rows, err := q.Query(ctx, missingSQL, kinds, spaces, names, wants, columns)
	if err != nil {
		return nil, "", err
	}
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[int])
	for _, n := range numbers {
		lacking = append(lacking, all[n-1])
	}
	return lacking, pgx.Identifier{role}.Sanitize(), err
}

// textArray writes texts as PostgreSQL reads an array.
func textArray(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(t) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

// fix are the statements that grant what is missing, to the quoted role.
func (gs Grants) fix(role string) string {
	merged := Grants{}
	for _, g := range gs {
		last := len(merged) - 1
		if last >= 0 && merged[last].on() == g.on() {
			merged[last].rights = append(slices.Clone(merged[last].rights), g.rights...)
			continue
		}
		merged = append(merged, g)
	}
	statements := make([]string, len(merged))
	for i := range merged {
		statements[i] = merged[i].sql(role)
	}
	return strings.Join(statements, "; ")
}

// permitted returns an error for each right of a relay that the connected role lacks.
func (gs Grants) permitted(ctx context.Context, q querier) (problems []error, err error) {
	doing := map[string]string{"SELECT": "read it", "UPDATE": "settle its rows", "DELETE": "delete from it", "USAGE": "use its schema"}
	lacking, role, err := gs.missing(ctx, q, TaskRelay)
	for i := range lacking {
		if lacking[i].kind == "SEQUENCE" {
			continue // is found by its table, not by its name: see checkAccess
		}
		problems = append(problems, fmt.Errorf("role %s may not %s: %s", role, doing[lacking[i].rights[0].name], lacking[i].sql(role)))
	}
	return problems, err
}

// quotedNames are the quoted names, with commas.
func quotedNames(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quoteName(name)
	}
	return strings.Join(quoted, ", ")
}
