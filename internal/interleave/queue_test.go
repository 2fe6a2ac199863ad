package interleave_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// queueScenarios are those of a queue table in any database.
var queueScenarios = []*scenario{
	{
		name: "two claim", setup: free("g1", "g2", "h1"), drain: emptied,
		roles: []role{does(relayA, calls{claims, delivers}), does(relayB, calls{claims, delivers}), publishes(publisher, "g3")},
	},
	{
		name: "claims over a lost connection", setup: free("g1", "g2"), drain: emptied,
		roles: []role{cut(does(relayA, calls{claims, delivers})), does(relayB, calls{claims, delivers})},
	},
	{
		name: "another session locks the first row of a group", setup: free("g1", "g2", "h1"), drain: emptied,
		roles: []role{locks, does(relayA, calls{claims})}, brisk: relayA,
	},
	{
		name: "another processor takes the first row of a group", setup: free("g1", "g2", "h1"), drain: emptied,
		roles: []role{elsewhere, does(relayA, calls{claims, claims})}, brisk: relayA,
	},
	{
		name: "recovery beside claims of the living", setup: free("g1", "g2"), drain: emptied,
		roles: []role{does(relayA, calls{claims, delivers}), does(relayB, calls{recovers, claims})}, brisk: relayB,
	},
	{
		name: "recovery beside its own claims", setup: free("g1", "g2"), drain: emptied,
		roles: []role{does(another, calls{claims, recovers, delivers}), does(relayA, calls{claims})},
	},
	{
		name: "rows are put back", setup: free("g1", "g2"), drain: emptied,
		roles: []role{does(relayA, calls{claims, putsBack, claims}), does(relayB, calls{claims, delivers})},
	},
	{
		name: "rows are attempted again", setup: free("g1"), drain: emptied,
		roles: []role{does(relayA, calls{claims, fails, claims, delivers}), does(relayB, calls{claims, delivers})},
	},
	{
		name: "claims that count as stuck", setup: claimed("g1", "g2"), drain: emptied,
		roles: []role{does(relayA, calls{extends, delivers}), does(another, calls{recovers, claims, delivers})},
	},
	{
		name: "a settle of claims that count as stuck", setup: claimed("g1", "g2"), drain: emptied,
		roles: []role{does(relayA, calls{delivers}), does(another, calls{recovers, claims, delivers})},
	},
	{
		name: "rows that are put back beside a recovery", setup: claimed("g1", "g2"), drain: emptied,
		roles: []role{does(relayA, calls{putsBack}), does(another, calls{recovers, claims, delivers})},
	},
	{
		name: "redrive beside a purge", setup: dead, drain: emptied,
		roles: []role{changes(operator, adapters.ParkedRedrive), changes(relayB, adapters.ParkedPurge), does(relayA, calls{claims, delivers})},
		ends: func(w *world) error {
			if w.notes["purge"] > 0 {
				w.committed = w.committed[1:]
			}
			return w.noted(1, "redrive", "purge")
		},
	},
	{
		name: "purge beside a session that locks the dead row", setup: dead, drain: emptied,
		roles: []role{locks, changes(relayB, adapters.ParkedPurge), does(relayA, calls{claims, delivers})},
		ends: func(w *world) error {
			w.committed = w.committed[1:]
			return w.noted(1, "purge")
		},
	},
	{
		name: "retention beside deliveries", setup: free("g1", "g2", "h1"), drain: emptied,
		roles: []role{locks, does(relayA, calls{claims, delivers}), does(relayB, calls{retains(0), retains(time.Hour)})}, brisk: relayB,
	},
	{
		name: "redrive beside a redrive", setup: dead, drain: emptied,
		roles: []role{changes(operator, adapters.ParkedRedrive), changes(relayB, adapters.ParkedRedrive), does(relayA, calls{claims, fails})},
		ends:  wants("rows that were redriven once and keep their failed attempt", 0, events+" WHERE id = 'g1' AND retry_count > 1"),
	},
}

// manyScenarios are those of claims that PostgreSQL takes all at once.
var manyScenarios = []*scenario{
	{
		name: "many rows are claimed at once", setup: many, drain: emptied,
		roles: []role{does(relayA, calls{claims, delivers}), elsewhere, does(relayB, calls{claims, delivers})},
	},
	{
		name: "another session locks one of many rows", setup: many, drain: emptied,
		roles: []role{locks, does(relayA, calls{claims, delivers})},
	},
}

// many is a setup: as many rows wait as are claimed without a lock first, and more.
func many(w *world) error {
	ids := make([]string, 0, 260)
	for i := range 260 {
		ids = append(ids, fmt.Sprintf("g%d", i+1))
	}
	for _, r := range w.relays {
		r.limit = 300
	}
	w.commit(drainer, ids...)
	return w.exec(drainer, "INSERT INTO "+events+` (id, type, message_group, payload, status, created_at)
SELECT 'g' || n, 'EVENT', 'g', '{"type":"t"}', 'PENDING', now() + n * interval '1 microsecond' - interval '1 second' FROM generate_series(1, 260) AS n`)
}

// dead is a setup: the row g1 is dead, and g2 waits behind it.
func dead(w *world) error {
	err := published(w, "g1", "g2")
	w.committed[0].group = "" // it holds nothing up
	return errors.Join(err, w.exec(drainer, "UPDATE "+events+" SET status = 'FAILED', retry_count = 3 WHERE id = 'g1'"))
}

// claimed is a setup: a has claimed all rows.
func claimed(ids ...string) func(w *world) error {
	return func(w *world) error { return errors.Join(published(w, ids...), claims(w.relays[relayA])) }
}

// elsewhere is another processor, which takes the oldest row if it can, and finishes it.
var elsewhere = does(operator, calls{func(r *relay) error {
	w := r.w
	if err := w.exec(operator, "UPDATE "+events+" SET status = 'PROCESSING', processed_at = now(), error_message = 'elsewhere' WHERE id = 'g1' AND status = 'PENDING'"); err != nil {
		return err
	}
	n, err := w.count(events + " WHERE id = 'g1' AND error_message = 'elsewhere'")
	if err != nil || n == 0 {
		return err
	}
	w.hold("g1", operator)
	w.receive("g1")
	if err := w.exec(operator, "BEGIN", "UPDATE "+events+" SET status = 'COMPLETED' WHERE id = 'g1'"); err != nil {
		return err
	}
	w.hold("g1", rowSettling)
	return w.exec(operator, "COMMIT")
}})

// locks is another session, which locks the oldest row for a while.
var locks = runs(operator, "BEGIN", "SELECT id FROM "+events+" WHERE id = 'g1' FOR UPDATE", "COMMIT")

// Calls that settle.
var (
	delivers = settles(outbox.OutcomeDelivered)
	putsBack = settles(outbox.OutcomeReleased)
	fails    = settles(outbox.OutcomeRetry) // the rows wait at once
)
