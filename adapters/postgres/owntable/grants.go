package owntable

import (
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// Grants are the privileges on an outbox table of Outrider's own layout, with
// a retention of the mode, if any. Its name is as in SQL.
func Grants(table string, retention adapters.RetentionMode) pg.Grants {
	return newLayout(table, 0).grants(retention)
}

func (l layout) grants(retention adapters.RetentionMode) pg.Grants {
	names := make([]string, 0, len(keyColumns)+len(fetchColumns))
	for _, c := range slices.Concat(keyColumns, fetchColumns) {
		names = append(names, c.name)
	}
	sequence := pg.Beside(l.name, pg.DerivedName(l.name, "_position_seq"))
	var g pg.Grants
	for _, task := range []pg.Task{pg.TaskRelay, pg.TaskOperator} {
		g = append(g, pg.Usage(task, l.name), pg.Reading(task, l.name, names),
			pg.Grant{Task: task, Kind: "SEQUENCE", Name: sequence, Rights: pg.Rights("SELECT")})
		if task == pg.TaskRelay && retention == adapters.RetainRows {
			g = append(g, pg.Grant{Task: task, Name: l.name, Rights: pg.Rights("DELETE")})
		}
	}
	return append(g, pg.Usage(pg.TaskPublish, l.name), pg.Grant{Task: pg.TaskPublish, Name: l.name, Rights: pg.Rights("INSERT")})
}
