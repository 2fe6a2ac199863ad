package interleave_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// stateScenarios are those of a state store in any database.
var stateScenarios = []*scenario{
	{
		name: "the fence", setup: owned("r1", "r2"), drain: delivered,
		roles: []role{cut(does(relayA, calls{turn, renew, turn})), aDies, does(relayB, calls{acquire, turn})},
	},
	{
		name: "two acquire", setup: free("r1"), drain: delivered,
		roles: []role{cut(does(relayA, calls{acquire, turn})), does(relayB, calls{acquire, turn})},
		ends: func(w *world) error {
			if w.relays[relayA].owns == w.relays[relayB].owns {
				return fmt.Errorf("a owns the lane: %v, b owns it: %v", w.relays[relayA].owns, w.relays[relayB].owns)
			}
			return nil
		},
	},
	{
		name: "an instance acquires its own lane again", setup: free(),
		roles: []role{does(relayA, calls{acquireOne, acquireOne})},
	},
	{
		name: "acquire beside a settle", setup: fourLanes,
		roles: []role{does(relayA, calls{settlesCursor}), does(relayB, calls{acquireFour})},
		ends:  wants("lanes of b", 4, "outrider_cursor WHERE owner = 'b'"),
	},
	{
		name: "two share lanes", setup: free(),
		roles: []role{does(relayA, calls{acquireOne}), does(relayB, calls{acquireOne})},
		ends:  wants("lanes with an owner", 2, "(SELECT DISTINCT owner FROM outrider_cursor WHERE owner IS NOT NULL) AS t"),
	},
	{
		name: "hand over", setup: owned("r1"), drain: delivered,
		roles: []role{cut(does(relayA, calls{turn, release, acquire})), does(relayB, calls{acquire, turn, renew})},
	},
	{
		name: "release of a lane that was lost", setup: owned("r1"), drain: delivered,
		roles: []role{does(relayA, calls{turn, release}), aDies, does(relayB, calls{acquire})},
		ends: func(w *world) error {
			if !w.relays[relayB].owns {
				return nil
			}
			return w.want("lanes of b", 1, "outrider_cursor WHERE owner = 'b'")
		},
	},
	{
		name: "the state store is put back", setup: settledOnce,
		roles: []role{does(relayA, calls{turnAfterRestore, turnAfterRestore}), does(operator, calls{func(r *relay) error {
			err := r.w.exec(operator, "UPDATE outrider_cursor SET position = 0, revision = 0")
			r.w.note("put back", 1)
			return err
		}})},
	},
	{
		name: "one of two parked messages is delivered", setup: failed(adapters.ParkedRetrying, "r2"), drain: delivered,
		roles: []role{cut(does(relayA, calls{succeeds})), does(relayB, calls{acquire}), aDies},
	},
	{
		name: "pause", setup: free("r1"), drain: delivered,
		roles: []role{does(operator, calls{pause}), does(relayA, calls{acquireUnpaused, acquireUnpaused}), does(relayB, calls{acquireUnpaused})},
	},
	{
		name: "an instance is removed", setup: owned("r1", "r2"), drain: delivered,
		roles: []role{does(relayA, calls{turn, turn}), does(operator, calls{removeA}), does(relayB, calls{acquire, turn})},
		ends:  wants("lanes of an instance that was removed", 0, "outrider_cursor WHERE owner = 'a'"),
	},
	{
		name: "a route is forgotten", setup: settledOnce,
		roles: []role{aDies, does(another, calls{forget}), does(relayA, calls{turn}), does(relayB, calls{acquire})},
		ends: func(w *world) error {
			if !w.relays[relayB].owns { // it found another owner
				return nil
			}
			return w.want("lanes of b", 1, "outrider_cursor WHERE owner = 'b'")
		},
	},
	{
		name: "an operator's session locks a message", setup: failed(adapters.ParkedRetrying, "r2"), drain: delivered,
		roles: []role{cut(does(relayA, calls{succeeds})), locksParked, orders(another, adapters.ParkedRedrive), does(relayB, calls{acquire})},
	},
	{
		name: "skip beside a session that locks a message", setup: failed(adapters.ParkedRetrying),
		roles: []role{does(relayA, calls{failsAgain}), locksParked, orders(another, adapters.ParkedSkip)},
		ends:  all(wants("messages that were skipped and are there", 0, "outrider_parked"), seenByTheOwner),
	},
	{
		name: "purge and skip of held messages that a session locks", setup: failed(adapters.ParkedHeld),
		roles: []role{orders(another, adapters.ParkedPurge), locksParked, orders(relayB, adapters.ParkedSkip)},
		ends: all(wants("messages that were skipped and are there", 0, "outrider_parked"), seenByTheOwner, func(w *world) error {
			return errors.Join(w.noted(0, "purge"), w.noted(1, "skip"))
		}),
	},
	{
		name: "purge beside a session that locks a dead message", setup: failed(adapters.ParkedDead, "r2"), drain: delivered,
		roles: []role{orders(another, adapters.ParkedPurge), locksParked, does(relayA, calls{turn})},
		ends: func(w *world) error {
			w.committed = w.committed[1:]
			return all(wants("messages that were purged and are there", 1, "outrider_parked"), func(w *world) error { return w.noted(1, "purge") })(w)
		},
	},
	{
		name: "bind", setup: owned(),
		roles: []role{does(relayA, calls{bind("one")}), does(relayB, calls{bind("other")})},
		ends:  func(w *world) error { return w.noted(1, "refused") },
	},
	{
		name: "seek", setup: owned("r1", "r2"),
		roles: []role{does(relayA, calls{turn, turn}), does(operator, calls{seek})},
		ends:  wants("lanes at the place that was ordered", 1, "outrider_cursor WHERE position = 777 AND owner IS NULL"),
	},
	{
		name: "park beside a takeover", setup: owned("r1"), drain: delivered,
		roles: []role{cut(does(relayA, calls{parks, turn})), aDies, does(relayB, calls{acquire, parks})},
		ends:  wants("messages that are parked twice", 0, "(SELECT event_id FROM outrider_parked GROUP BY event_id HAVING count(*) > 1) AS t"),
	},
	{
		name: "redrive beside a failed attempt", setup: failed(adapters.ParkedRetrying), drain: delivered,
		roles: []role{does(relayA, calls{failsAgain}), orders(operator, adapters.ParkedRedrive)},
		ends:  all(wants("messages without attempts", 1, "outrider_parked WHERE attempts = 0 AND status = 'retrying'"), seenByTheOwner),
	},
	{
		name: "skip beside a failed attempt", setup: failed(adapters.ParkedRetrying),
		roles: []role{does(relayA, calls{failsAgain}), orders(operator, adapters.ParkedSkip)},
		ends:  all(wants("messages that were skipped and are there", 0, "outrider_parked"), seenByTheOwner),
	},
	{
		name: "redrive beside a delivery", setup: failed(adapters.ParkedRetrying), drain: delivered,
		roles: []role{cut(does(relayA, calls{succeeds})), orders(operator, adapters.ParkedRedrive)},
		ends:  wants("messages that were delivered and are there", 0, "outrider_parked"),
	},
	{
		name: "purge beside a redrive", setup: failed(adapters.ParkedDead),
		roles: []role{orders(operator, adapters.ParkedPurge), orders(another, adapters.ParkedRedrive), does(relayA, calls{turn})},
		ends: func(w *world) error {
			return all(wants("messages", w.notes["redrive"], "outrider_parked"), func(w *world) error { return w.noted(1, "purge", "redrive") })(w)
		},
	},
}

// logScenarios are those of Outrider's own table with its state store in PostgreSQL.
var logScenarios = slices.Concat([]*scenario{
	{
		name: "late rows", setup: owned(), drain: delivered,
		roles: []role{publishes(publisher, "p1", "p2"), publishes(another, "q1"), does(relayA, calls{turn, turn})},
	},
	{
		name: "late rows behind settled ones", setup: settledOnce, drain: delivered,
		roles: []role{publishes(publisher, "p1"), publishes(another, "q1"), does(relayA, calls{turn, turn, turn})},
	},
	{
		name: "late rows of a slow insert", setup: owned(), drain: delivered,
		roles: []role{slowly(publisher, "p1"), publishes(another, "q1"), does(relayA, calls{turn, turn})},
	},
	{
		name: "late rows while the owner changes", setup: owned("r1"), drain: delivered,
		roles: []role{publishes(publisher, "p1"), publishes(another, "q1"), does(relayA, calls{turn}), aDies, does(relayB, calls{acquire, turn})},
	},
	{
		name: "retention beside late rows", setup: owned("r1"), drain: delivered,
		roles: []role{publishes(publisher, "p1"), publishes(another, "q1"), does(relayA, calls{turn, retainRows, turn})},
	},
	{
		name: "rebase beside late rows", setup: uncommitted, drain: delivered,
		roles: []role{does(publisher, calls{commits("p1")}), does(relayB, calls{rebase, acquire, turn})},
	},
	{
		name: "exactly once", setup: owned("r1", "r2"), drain: sunk,
		roles: []role{cut(does(relayA, calls{turnTx, turnTx})), aDies, does(relayB, calls{acquire, turnTx})},
	},
	{
		name: "exactly once over a lost connection", setup: owned("r1", "r2"), drain: sunk,
		roles: []role{cut(does(relayA, calls{turnTx}))},
	},
	{
		name: "skip beside a delivery in a transaction", setup: failed(adapters.ParkedRetrying),
		roles: []role{does(relayA, calls{succeedsTx}), orders(operator, adapters.ParkedSkip)},
		ends: func(w *world) error {
			return all(wants("deliveries of a message that was not skipped", 1-w.notes["skip"], "sink"), wants("messages that are there", 0, "outrider_parked"))(w)
		},
	},
}, stateScenarios)

// asideScenarios are those in which settles beside an old snapshot meet others: they are written to outrider_settled.
var asideScenarios = only(logScenarios, "late rows", "late rows behind settled ones", "the fence", "hand over", "park beside a takeover", "redrive beside a failed attempt")

// partScenarios are those of a table with partitions.
var partScenarios = []*scenario{{
	name: "retention of partitions beside late rows", setup: settledOnce, drain: delivered,
	roles: []role{publishes(publisher, "p1"), publishes(another, "q1", "q2"), does(relayA, calls{turn, turn, retainParts, turn, retainParts})},
}}

// The scenarios of databases whose default is REPEATABLE READ.
var (
	repeatableLogs = only(logScenarios, "late rows", "late rows behind settled ones", "retention beside late rows", "rebase beside late rows", "exactly once", "the fence", "two acquire",
		"park beside a takeover", "redrive beside a failed attempt", "redrive beside a delivery")
	repeatableQueues = only(queueScenarios, "two claim", "another session locks the first row of a group", "claims that count as stuck", "redrive beside a purge", "retention beside deliveries")
)

// only are those scenarios that have one of the names.
func only(of []*scenario, names ...string) []*scenario {
	return slices.DeleteFunc(slices.Clone(of), func(sc *scenario) bool { return !slices.Contains(names, sc.name) })
}
