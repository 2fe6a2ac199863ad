package statestore

import "github.com/outriderhq/outrider/adapters/mysql/internal/my"

// stateRights are all privileges on the state tables, with a column of each.
var stateRights = []struct{ table, column, relay, operator string }{
	{"outrider_route", "route", "SELECT INSERT UPDATE", "SELECT INSERT UPDATE DELETE"},
	{"outrider_cursor", "slot", "SELECT INSERT UPDATE", "SELECT INSERT UPDATE DELETE"},
	{"outrider_instance", "routes", "SELECT INSERT UPDATE DELETE", "SELECT DELETE"},
	{"outrider_parked", "seq", "SELECT INSERT UPDATE DELETE", "SELECT UPDATE DELETE"},
	{"outrider_audit", "", "INSERT", "SELECT INSERT"},
	{"outrider_pause", "", "SELECT INSERT", "SELECT INSERT DELETE"},
	{"outrider_operation", "state", "SELECT INSERT UPDATE DELETE", "SELECT INSERT UPDATE DELETE"},
	{"outrider_note", "dead", "SELECT INSERT UPDATE DELETE", "SELECT DELETE"},
	{"outrider_dedupe", "expires_at", "SELECT INSERT UPDATE DELETE", ""},
	{stateVersionTable, "", "SELECT", "SELECT"},
}

// auditColumns are those that a record's author fills. The others have defaults that
// only the database chooses: number, time and database user.
var auditColumns = []string{"by", "action", "filter", "changed"}

// Grants are the privileges on the state tables in the session's database.
func Grants() (g my.Grants) {
	for _, task := range []my.Task{my.TaskRelay, my.TaskOperator} {
		for _, r := range stateRights {
			rights := r.relay
			if task == my.TaskOperator {
				rights = r.operator
			}
			if rights == "" {
				continue
			}
			one := my.Grant{Task: task, Table: my.Table{Name: r.table}, Rights: rights, Column: r.column}
			if r.table == "outrider_audit" {
				one.Insert = auditColumns
			}
			g = append(g, one)
		}
	}
	return g
}
