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
	g := m.grants()
	for i := range g {
		if m.preset != nil && m.preset.TopicPrefix == watermillPrefix {
			g[i].Only = "" // watermill-sql's tables always have the sequence
		}
	}
	return g, nil
}

func (m *mapping) grants() pg.Grants {
	var names []string
	for _, name := range m.columns {
		if name != "" {
			names = append(names, name)
		}
	}
	for _, h := range m.headers() {
		names = append(names, h.Column)
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

// OffsetsGrants are the privileges on watermill-sql's table of offsets: to read what a consumer group has
// acknowledged, for `start: offsets` and `seek --to offsets`. With subscriber, watermill-sql's own Subscriber reads the
// table with the relay's role, and writes the offsets.
func OffsetsGrants(cfg Config, subscriber bool) (pg.Grants, error) {
	m, err := newMapping(&cfg)
	if err != nil {
		return nil, err
	}
	offsets := m.offsets
	if offsets == nil {
		offsets = m.offsetsBeside()
	}
	relay := pg.Grant{Task: pg.TaskRelay, Name: offsets, Rights: pg.Rights("SELECT")}
	if subscriber {
		relay.Rights = pg.Rights("SELECT INSERT UPDATE")
	}
	g := pg.Grants{pg.Usage(pg.TaskRelay, offsets), relay, pg.Usage(pg.TaskOperator, offsets),
		{Task: pg.TaskOperator, Name: offsets, Rights: pg.Rights("SELECT")}}
	if subscriber {
		g = append(pg.Grants{pg.Usage(pg.TaskRelay, m.table), {Task: pg.TaskRelay, Name: m.table, Rights: pg.Rights("SELECT")}}, g...)
	}
	return g, nil
}
