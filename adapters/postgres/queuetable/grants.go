package queuetable

import (
	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// Grants are the privileges on queue tables. Those of publishers are the
// application's.
func Grants(layout Layout, tables ...Table) (g pg.Grants) {
	for _, table := range tables {
		g = append(g, queueGrants(&layout, pg.NameOf(table.Name))...)
	}
	return g
}

func queueGrants(layout *Layout, table pgx.Identifier) (g pg.Grants) {
	var names []string
	for _, c := range layout.All() {
		names = append(names, c.Name)
	}
	for _, task := range []pg.Task{pg.TaskRelay, pg.TaskOperator} {
		reads := pg.Reading(task, table, names)
		if task == pg.TaskRelay {
			reads.Rights = append(reads.Rights, pg.Right{Name: "UPDATE", Columns: layout.Columns.Written()})
			if layout.DoneIsDeleted || layout.OldIsDeleted {
				reads.Rights = append(reads.Rights, pg.Right{Name: "DELETE"})
			}
		} else {
			reads.Rights = append(reads.Rights, operatorRights(&layout.Columns)...)
		}
		g = append(g, pg.Usage(task, table), reads)
	}
	return g
}
