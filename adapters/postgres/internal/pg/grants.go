package pg

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
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
type Grants []Grant

// Grant is what a task needs of one object.
type Grant struct {
	Task   Task
	Kind   string // SCHEMA or SEQUENCE; empty: a table
	Name   pgx.Identifier
	Rights []Right
	Only   string // when it is needed, if not always
}

// Right is one privilege.
type Right struct {
	Name    string
	Columns []string // what it is needed on; empty: all of the table
	Whole   bool     // it is granted on the table all the same
}

// Rights are privileges on all of a table, by their names with spaces.
func Rights(names string) (out []Right) {
	for name := range strings.FieldsSeq(names) {
		out = append(out, Right{Name: name})
	}
	return out
}

// Usage is the privilege to find something in its schema.
func Usage(task Task, in pgx.Identifier) Grant {
	return Grant{Task: task, Kind: "SCHEMA", Name: in[:len(in)-1], Rights: Rights("USAGE")}
}

// Reading is the privilege to read columns of a table.
func Reading(task Task, table pgx.Identifier, columns []string) Grant {
	return Grant{Task: task, Name: table, Rights: []Right{{Name: "SELECT", Columns: columns, Whole: true}}}
}

// on is the object as a GRANT names it.
func (g *Grant) on() string {
	return strings.TrimSpace(g.Kind + " " + g.Name.Sanitize())
}

// SQL is the statement that grants the rights; role is quoted.
func (g *Grant) SQL(role string) string {
	names := make([]string, len(g.Rights))
	for i, r := range g.Rights {
		names[i] = r.Name
		if len(r.Columns) > 0 && !r.Whole {
			names[i] += " (" + quotedNames(r.Columns) + ")"
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
		line := g.SQL(role) + ";"
		switch {
		case g.Task != task || len(g.Rights) == 0:
			continue
		case g.Kind == "SCHEMA" && len(g.Name) == 0:
			line = "-- and USAGE on the tables' schema, unless it is public"
		case g.Only != "":
			line = "-- " + line + " -- " + g.Only
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

// Missing returns the rights for a task that the connected role lacks, and its quoted
// name. Names must be with their schema.
func (gs Grants) Missing(ctx context.Context, q Querier, task Task) (lacking Grants, role string, err error) {
	var kinds, spaces, names, wants, columns []string
	var all Grants
	for _, g := range gs {
		if g.Task != task || len(g.Name) == 0 {
			continue
		}
		for _, r := range g.Rights {
			one := g
			one.Rights = []Right{r}
			all = append(all, one)
			kinds, spaces, names = append(kinds, g.Kind), append(spaces, g.Name[0]), append(names, g.Name[len(g.Name)-1])
			wants, columns = append(wants, r.Name), append(columns, wire.Texts(r.Columns))
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

// Fix are the statements that grant what is missing, to the quoted role.
func (gs Grants) Fix(role string) string {
	merged := Grants{}
	for _, g := range gs {
		last := len(merged) - 1
		if last >= 0 && merged[last].on() == g.on() {
			merged[last].Rights = append(slices.Clone(merged[last].Rights), g.Rights...)
			continue
		}
		merged = append(merged, g)
	}
	statements := make([]string, len(merged))
	for i := range merged {
		statements[i] = merged[i].SQL(role)
	}
	return strings.Join(statements, "; ")
}

// OperatorOnly reports whether the connected role has what operators' commands need, and
// not all that a relay needs. Then it is an operator's login, and what it lacks is no
// fault. role is quoted.
func (gs Grants) OperatorOnly(ctx context.Context, q Querier) (role string, only bool, err error) {
	relay, role, err := gs.Missing(ctx, q, TaskRelay)
	if err != nil || len(relay) == 0 {
		return role, false, err
	}
	operator, _, err := gs.Missing(ctx, q, TaskOperator)
	return role, err == nil && len(operator) == 0, err
}

// Permitted returns an error for each right of a relay that the connected role lacks.
func (gs Grants) Permitted(ctx context.Context, q Querier) (problems []error, err error) {
	doing := map[string]string{"SELECT": "read it", "UPDATE": "settle its rows", "DELETE": "delete from it", "USAGE": "use its schema"}
	lacking, role, err := gs.Missing(ctx, q, TaskRelay)
	for i := range lacking {
		if lacking[i].Kind == "SEQUENCE" {
			continue // is found by its table, not by its name: see checkAccess
		}
		problems = append(problems, fmt.Errorf("role %s may not %s: %s", role, doing[lacking[i].Rights[0].Name], lacking[i].SQL(role)))
	}
	return problems, err
}

// RoleProblems are what keeps the connected role from working on a table, by its quoted
// name: what it is not granted, and row security. role is quoted.
func RoleProblems(ctx context.Context, q Querier, table string, needed Grants) (problems []error, role string, err error) {
	var hidden bool
	err = q.QueryRow(ctx, "SELECT current_user, coalesce(row_security_active(to_regclass($1)::oid), false)", table).Scan(&role, &hidden)
	if err != nil {
		return nil, "", err
	}
	role = pgx.Identifier{role}.Sanitize()
	if problems, err = needed.Permitted(ctx, q); hidden {
		problems = append(problems, fmt.Errorf("row security would hide rows from role %s, and they would be lost: ALTER ROLE %s BYPASSRLS", role, role))
	}
	return problems, role, err
}
