package interleave_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// queued is a setup: rows of the group g wait, oldest first; those that begin with h are of another group.
func queued(ids ...string) func(w *world) error {
	return func(w *world) error {
		for _, id := range ids {
			if err := w.put(id); err != nil {
				return err
			}
			w.commit(event{id, id[:1], drainer})
		}
		return nil
	}
}

// dead is a setup: the row g1 is dead, and g2 waits behind it.
func dead(w *world) error {
	err := queued("g1", "g2")(w)
	w.committed[0].group = "" // it holds nothing up
	return errors.Join(err, w.exec(drainer, "UPDATE "+events+" SET status = 'FAILED', retry_count = 3 WHERE id = 'g1'"))
}

// elsewhere is another processor, which takes the oldest row if it can, and finishes it.
var elsewhere = role{session: operator, run: func(w *world) error {
	if err := w.exec(operator, "UPDATE "+events+" SET status = 'PROCESSING', processed_at = now(), error_message = 'elsewhere' WHERE id = 'g1' AND status = 'PENDING'"); err != nil {
		return err
	}
	n, err := w.count("SELECT count(*) FROM " + events + " WHERE id = 'g1' AND error_message = 'elsewhere'")
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
}}

// claimed is a setup: a has claimed all rows.
func claimed(ids ...string) func(w *world) error {
	return func(w *world) error { return errors.Join(queued(ids...)(w), w.claimers[relayA].claim()) }
}

// locks is another session, which locks the oldest row for a while.
var locks = runs(operator, "BEGIN", "SELECT id FROM "+events+" WHERE id = 'g1' FOR UPDATE", "COMMIT")

// runs is a role that runs SQL.
func runs(session string, statements ...string) role {
	return role{session: session, run: func(w *world) error { return w.exec(session, statements...) }}
}

// appends is a publisher of a queue.
func appends(session, id string) role {
	return role{session: session, run: func(w *world) error {
		err := w.exec(session, "BEGIN", w.insert(id), "COMMIT")
		if err == nil {
			w.commit(event{id, id[:1], session})
		}
		return err
	}}
}

// queueScenarios are those of a queue table in any database.
var queueScenarios = []*scenario{
	{
		name: "two claim", setup: queued("g1", "g2", "h1"), drain: emptied,
		roles: []role{works(relayA, 0, claimCalls{claims, delivers}), works(relayB, 0, claimCalls{claims, delivers}), appends(publisher, "g3")},
	},
	{
		name: "claims over a lost connection", setup: queued("g1", "g2"), drain: emptied,
		roles: []role{works(relayA, 1, claimCalls{claims, delivers}), works(relayB, 0, claimCalls{claims, delivers})},
	},
	{
		name: "another session locks the first row of a group", setup: queued("g1", "g2", "h1"), drain: emptied,
		roles: []role{locks, works(relayA, 0, claimCalls{claims})}, brisk: relayA,
	},
	{
		name: "another processor takes the first row of a group", setup: queued("g1", "g2", "h1"), drain: emptied,
		roles: []role{elsewhere, works(relayA, 0, claimCalls{claims, claims})}, brisk: relayA,
	},
	{
		name: "recovery beside claims of the living", setup: queued("g1", "g2"), drain: emptied,
		roles: []role{works(relayA, 0, claimCalls{claims, delivers}), works(relayB, 0, claimCalls{recovers, claims})}, brisk: relayB,
	},
	{
		name: "recovery beside its own claims", setup: queued("g1", "g2"), drain: emptied,
		roles: []role{works(another, 0, claimCalls{claims, recovers, delivers}), works(relayA, 0, claimCalls{claims})},
	},
	{
		name: "rows are put back", setup: queued("g1", "g2"), drain: emptied,
		roles: []role{works(relayA, 0, claimCalls{claims, settles(outbox.OutcomeReleased), claims}), works(relayB, 0, claimCalls{claims, delivers})},
	},
	{
		name: "rows are attempted again", setup: queued("g1"), drain: emptied,
		roles: []role{works(relayA, 0, claimCalls{claims, settles(outbox.OutcomeRetry), claims, delivers}), works(relayB, 0, claimCalls{claims, delivers})},
	},
	{
		name: "claims that count as stuck", setup: claimed("g1", "g2"), drain: emptied,
		roles: []role{works(relayA, 0, claimCalls{extends, delivers}), works(another, 0, claimCalls{recovers, claims, delivers})},
	},
	{
		name: "a settle of claims that count as stuck", setup: claimed("g1", "g2"), drain: emptied,
		roles: []role{works(relayA, 0, claimCalls{delivers}), works(another, 0, claimCalls{recovers, claims, delivers})},
	},
	{
		name: "rows that are put back beside a recovery", setup: claimed("g1", "g2"), drain: emptied,
		roles: []role{works(relayA, 0, claimCalls{settles(outbox.OutcomeReleased)}), works(another, 0, claimCalls{recovers, claims, delivers})},
	},
	{
		name: "redrive beside a purge", setup: dead, drain: emptied,
		roles: []role{changes(operator, adapters.ParkedRedrive), changes(relayB, adapters.ParkedPurge), works(relayA, 0, claimCalls{claims, delivers})},
		ends: func(w *world) error {
			if n := w.notes["redrive"] + w.notes["purge"]; n != 1 {
				return fmt.Errorf("redrive changed %d rows, and purge %d", w.notes["redrive"], w.notes["purge"])
			}
			if w.notes["purge"] > 0 {
				w.committed = w.committed[1:]
			}
			return nil
		},
	},
	{
		name: "redrive beside a redrive", setup: dead, drain: emptied,
		roles: []role{changes(operator, adapters.ParkedRedrive), changes(relayB, adapters.ParkedRedrive), works(relayA, 0, claimCalls{claims, settles(outbox.OutcomeRetry)})},
		ends: func(w *world) error {
			return w.want("rows that were redriven once and keep their failed attempt", 0, "SELECT count(*) FROM "+events+" WHERE id = 'g1' AND retry_count > 1")
		},
	},
}

func TestInterleavingsOfAQueue(t *testing.T) {
	t.Parallel()
	w := queueWorld(t, queueDatabase(t), nil)
	for _, sc := range queueScenarios {
		w.play(t, sc)
	}
}
