package logtable

import (
	"slices"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// Grants are the privileges on a table of the application that [Source] reads.
// Those of its publishers are the application's.
func Grants(cfg Config) (pg.Grants, error) {
	m, err := newMapping(&cfg)
	if err != nil {
		return nil, err
	}
	return m.grants(), nil
}

func (m *mapping) grants() pg.Grants {
	var names []string
	for _, name := range m.columns {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	sequence := pg.Beside(m.table, pg.DerivedName(m.table, "_"+m.columns[rolePosition]+"_seq"))
	var g pg.Grants
	for _, task := range []pg.Task{pg.TaskRelay, pg.TaskOperator} {
		g = append(g, pg.Usage(task, m.table), pg.Reading(task, m.table, names),
			pg.Grant{Task: task, Kind: "SEQUENCE", Name: sequence, Rights: pg.Rights("SELECT"), Only: "where positions come from it"})
	}
	return g
}
