package my

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Task is the work of a database user.
type Task string

// The tasks that privileges are granted for. A user may have several.
const (
	TaskRelay    Task = "relay"    // runs `outrider run`
	TaskOperator Task = "operator" // runs the other commands: status, parked, pause, seek, route forget
	TaskPublish  Task = "publish"  // writes messages, as applications do
)

// Grant has the rights that a task needs on one table.
type Grant struct {
	Task   Task
	Table  Table
	Rights string   // SELECT, INSERT, UPDATE and DELETE, with spaces
	Insert []string // columns that INSERT is needed on; empty: all
	Column string   // any one, by which it is seen whether UPDATE is granted; needed with UPDATE
}

// Grants are the privileges that users need, by task. They are printed, checked and
// tested from one declaration.
type Grants []Grant

// SQL is the statement that grants the rights to an account, as [Account] writes it.
func (g *Grant) SQL(account string) string {
	rights := strings.Fields(g.Rights)
	for i, r := range rights {
		if r == "INSERT" && len(g.Insert) > 0 {
			quoted := make([]string, len(g.Insert))
			for j, c := range g.Insert {
				quoted[j] = Quote(c)
			}
			rights[i] += " (" + strings.Join(quoted, ", ") + ")"
		}
	}
	return fmt.Sprintf("GRANT %s ON %s TO %s", strings.Join(rights, ", "), g.Table.SQL(), account)
}

// Account is a user as GRANT names it. The name may say the host that the user comes from, behind an @; otherwise it is any.
func Account(name string) string {
	host := "%"
	if i := strings.LastIndexByte(name, '@'); i > 0 {
		name, host = name[:i], name[i+1:]
	}
	quote := func(text string) string { return "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(text) + "'" }
	return quote(name) + "@" + quote(host)
}

// SQL returns the statements, by task. Where a user is not named, those for it are comments.
func (gs Grants) SQL(relay, operator, publisher string) string {
	var b strings.Builder
	for _, t := range []struct {
		task       Task
		user, name string
		what       string
	}{
		{TaskRelay, relay, "outrider_relay", "The user of `outrider run`"},
		{TaskOperator, operator, "outrider_operator", "The user of operators' commands"},
		{TaskPublish, publisher, "application", "Applications that publish"},
	} {
		comment := ""
		if t.user == "" {
			comment, t.user = "-- ", t.name
		}
		var lines strings.Builder
		for i := range gs {
			if gs[i].Task == t.task && gs[i].Rights != "" {
				lines.WriteString(comment + gs[i].SQL(Account(t.user)) + ";\n")
			}
		}
		if lines.Len() > 0 {
			fmt.Fprintf(&b, "-- %s:\n%s", t.what, lines.String())
		}
	}
	return b.String()
}

// Fix are the statements that grant what is missing, to an account.
func (gs Grants) Fix(account string) string {
	statements := make([]string, len(gs))
	for i := range gs {
		statements[i] = gs[i].SQL(account)
	}
	return strings.Join(statements, "; ")
}

// Missing returns what the connected user lacks for a task, and its account. Of what does not exist nothing is missing: others
// say that. It has the server explain statements that need the rights, so that those which come by a role, or for
// the whole database, count as well.
func (gs Grants) Missing(ctx context.Context, db *sql.DB, task Task) (lacking Grants, account string, err error) {
	var user string
	if err := db.QueryRowContext(ctx, "SELECT current_user()").Scan(&user); err != nil {
		return nil, "", err
	}
	for _, g := range gs {
		if g.Task != task {
			continue
		}
		var rights []string
		for right := range strings.FieldsSeq(g.Rights) {
			denied, err := g.denied(ctx, db, right)
			if err != nil {
				return nil, "", err
			}
			if denied {
				rights = append(rights, right)
			}
		}
		if g.Rights = strings.Join(rights, " "); g.Rights != "" {
			lacking = append(lacking, g)
		}
	}
	return lacking, Account(user), nil
}

// denied reports whether the connected user lacks one right.
func (g *Grant) denied(ctx context.Context, db *sql.DB, right string) (bool, error) {
	table := g.Table.SQL()
	statement := map[string]string{
		"SELECT": "SELECT * FROM " + table + " WHERE 1 = 0",
		"INSERT": "EXPLAIN INSERT INTO " + table + " () VALUES ()",
		"UPDATE": "EXPLAIN UPDATE " + table + " SET " + Quote(g.Column) + " = NULL WHERE 1 = 0",
		"DELETE": "EXPLAIN DELETE FROM " + table + " WHERE 1 = 0",
	}[right]
	if right == "INSERT" && len(g.Insert) > 0 {
		columns, values := make([]string, len(g.Insert)), make([]string, len(g.Insert))
		for i, c := range g.Insert {
			columns[i], values[i] = Quote(c), "''"
		}
		statement = "EXPLAIN INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
	}
	err := ask(ctx, db, statement)
	if FailedWith(err, TableDenied, ColumnDenied, AccessDeniedDB) {
		return true, nil
	}
	if Answered(err) {
		return false, nil // of something else: that there is no such table, or that an INSERT like this one would not do
	}
	return false, err
}

// ask runs a query whose rows do not matter.
func ask(ctx context.Context, db *sql.DB, query string) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	return rows.Err()
}
