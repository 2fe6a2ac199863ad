package statestore

import (
	"github.com/jackc/pgx/v5"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// auditColumns are those that a record's author fills. The others have defaults that
// only the database chooses: number, time and database role.
var auditColumns = []string{"by", "action", "filter", "changed"}

// stateRights are all privileges on the state tables.
var stateRights = []struct {
	table           string
	relay, operator []pg.Right
}{
	{"outrider_cursor", pg.Rights("SELECT INSERT UPDATE"), pg.Rights("SELECT INSERT UPDATE DELETE")},
	{"outrider_settled", pg.Rights("SELECT INSERT UPDATE DELETE"), pg.Rights("SELECT")},
	{"outrider_instance", pg.Rights("SELECT INSERT UPDATE DELETE"), pg.Rights("SELECT DELETE")},
	{"outrider_parked", pg.Rights("SELECT INSERT UPDATE DELETE"), pg.Rights("SELECT UPDATE DELETE")},
	{"outrider_audit", []pg.Right{{Name: "INSERT", Columns: auditColumns}}, []pg.Right{{Name: "SELECT"}, {Name: "INSERT", Columns: auditColumns}}},
	{"outrider_pause", pg.Rights("SELECT INSERT"), pg.Rights("SELECT INSERT DELETE")},
	{"outrider_operation", pg.Rights("SELECT INSERT UPDATE DELETE"), pg.Rights("SELECT INSERT UPDATE DELETE")},
	{"outrider_note", pg.Rights("SELECT INSERT UPDATE DELETE"), pg.Rights("SELECT DELETE")},
	{"outrider_progress", pg.Rights("SELECT INSERT UPDATE"), pg.Rights("SELECT INSERT UPDATE DELETE")},
	{"outrider_dedupe", pg.Rights("SELECT INSERT UPDATE DELETE"), nil},
	{stateVersionTable, pg.Rights("SELECT"), pg.Rights("SELECT")},
}

// ProgressGrants are the privileges on a table of progress that another system reads, which commands of operators read and write as well, and on
// the state tables what a relay needs to carry out what is written there.
func ProgressGrants(schema, table string) pg.Grants {
	name, pauses := pg.NameOf(table), pgx.Identifier{"outrider_pause"}
	if schema != "" {
		pauses = pgx.Identifier{schema, "outrider_pause"}
	}
	return pg.Grants{pg.Usage(pg.TaskRelay, name), {Task: pg.TaskRelay, Name: name, Rights: pg.Rights("SELECT INSERT UPDATE")},
		{Task: pg.TaskRelay, Name: pauses, Rights: pg.Rights("DELETE")},
		pg.Usage(pg.TaskOperator, name), {Task: pg.TaskOperator, Name: name, Rights: pg.Rights("SELECT INSERT UPDATE")}}
}

// Grants are the privileges on the state tables in a schema; empty: wherever
// the search path leads.
func Grants(schema string) pg.Grants {
	table := func(name string) pgx.Identifier {
		if schema == "" {
			return pgx.Identifier{name}
		}
		return pgx.Identifier{schema, name}
	}
	var g pg.Grants
	for _, task := range []pg.Task{pg.TaskRelay, pg.TaskOperator} {
		g = append(g, pg.Usage(task, table("")))
		for _, r := range stateRights {
			needed := r.relay
			if task == pg.TaskOperator {
				needed = r.operator
			}
			g = append(g, pg.Grant{Task: task, Name: table(r.table), Rights: needed})
		}
	}
	return g
}
