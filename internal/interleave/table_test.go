package interleave_test

import (
	"errors"
	"testing"

	pgdb "github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/outboxtable"
)

// tableScenarios deliver into the table of another framework, at least once, in a transaction before the one that settles.
var tableScenarios = []*scenario{{
	name: "a row is delivered into a table twice", setup: owned("r1", "r2"), drain: delivered,
	roles: []role{cut(does(relayA, calls{turn, turn})), aDies, does(relayB, calls{acquire, turn})},
	ends:  wants("rows that were written over", 0, "outbox_event WHERE status <> 0"),
}}

// tableMutants are changes of the statement that writes it.
var tableMutants = []*mutant{
	{name: "insert: a row that is there is written over", by: "a row is delivered into a table twice", within: "outbox_event", find: "DO NOTHING", replace: "DO UPDATE SET status = 3"},
}

// tableWorld has relays that deliver into such a table.
func tableWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	w := logWorld(t, url, m)
	w.clean = append(w.clean, "TRUNCATE outbox_event")
	for _, name := range []string{relayA, relayB, drainer} {
		pool, err := pgdb.Open(w.ctx, w.session(name).url, pgdb.TLS{})
		must(t, err)
		d, err := outboxtable.New(outboxtable.Config{Pool: pool, Layout: "outbox-framework"})
		must(t, err)
		w.closers = append(w.closers, d.Close)
		w.relays[name].deliver = func(ids ...string) error {
			_, err := again(func() (struct{}, error) { return struct{}{}, errors.Join(d.Deliver(w.ctx, "", messages(ids))...) })
			return err
		}
	}
	return w
}
