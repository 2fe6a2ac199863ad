package interleave_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// The statements with which the ends of scenarios are checked.
const (
	parkedRows    = "SELECT count(*) FROM outrider_parked"
	commandsGiven = "SELECT coalesce(max(commands), 0) FROM outrider_cursor"
)

// stateScenarios are those of a state store in any database.
var stateScenarios = []*scenario{
	{
		name: "the fence", setup: owned("r1", "r2"), drain: delivered,
		roles: []role{does(relayA, 1, calls{turn, renew, turn}), aDies, does(relayB, 0, calls{acquire, turn})},
	},
	{
		name: "two acquire", setup: free("r1"), drain: delivered,
		roles: []role{does(relayA, 1, calls{acquire, turn}), does(relayB, 0, calls{acquire, turn})},
		ends: func(w *world) error {
			if w.relays[relayA].owns == w.relays[relayB].owns {
				return fmt.Errorf("a owns the lane: %v, b owns it: %v", w.relays[relayA].owns, w.relays[relayB].owns)
			}
			return nil
		},
	},
	{
		name: "an instance acquires its own lane again", setup: free(),
		roles: []role{does(relayA, 0, calls{acquireOne, acquireOne})},
	},
	{
		name: "acquire beside a settle", setup: fourLanes,
		roles: []role{does(relayA, 0, calls{settleOne}), does(relayB, 0, calls{acquireFour})},
		ends: func(w *world) error {
			return w.want("lanes of b", 4, "SELECT count(*) FROM outrider_cursor WHERE owner = 'b'")
		},
	},
	{
		name: "two share lanes", setup: free(),
		roles: []role{does(relayA, 0, calls{acquireOne}), does(relayB, 0, calls{acquireOne})},
		ends: func(w *world) error {
			return w.want("lanes with an owner", 2, "SELECT count(DISTINCT owner) FROM outrider_cursor WHERE owner IS NOT NULL")
		},
	},
	{
		name: "hand over", setup: owned("r1"), drain: delivered,
		roles: []role{does(relayA, 1, calls{turn, release, acquire}), does(relayB, 0, calls{acquire, turn, renew})},
	},
	{
		name: "release of a lane that was lost", setup: owned("r1"), drain: delivered,
		roles: []role{does(relayA, 0, calls{turn, release}), aDies, does(relayB, 0, calls{acquire})},
		ends: func(w *world) error {
			if !w.relays[relayB].owns {
				return nil
			}
			return w.want("lanes of b", 1, "SELECT count(*) FROM outrider_cursor WHERE owner = 'b'")
		},
	},
	{
		name: "the state store is put back", setup: settledOnce,
		roles: []role{does(relayA, 0, calls{turnAfterRestore, turnAfterRestore}), {session: operator, run: func(w *world) error {
			err := w.exec(operator, "UPDATE outrider_cursor SET position = 0, revision = 0")
			w.note("put back", 1)
			return err
		}}},
	},
	{
		name: "one of two parked messages is delivered", setup: failed(adapters.ParkedRetrying, "r2"), drain: delivered,
		roles: []role{does(relayA, 1, calls{succeeds}), does(relayB, 0, calls{acquire}), aDies},
	},
	{
		name: "pause", setup: free("r1"), drain: delivered,
		roles: []role{
			{session: operator, run: func(w *world) error {
				_, err := w.relays[operator].store.Pause(w.ctx, adapters.Pause{Route: route, By: operator})
				w.note("paused", 1)
				return err
			}},
			does(relayA, 0, calls{acquireUnpaused, acquireUnpaused}), does(relayB, 0, calls{acquireUnpaused}),
		},
	},
	{
		name: "bind", setup: owned(),
		roles: []role{does(relayA, 0, calls{bind("one")}), does(relayB, 0, calls{bind("other")})},
		ends: func(w *world) error {
			return w.want("instances that were refused", 1, fmt.Sprintf("SELECT %d", w.notes["refused"]))
		},
	},
	{
		name: "seek", setup: owned("r1", "r2"),
		roles: []role{does(relayA, 0, calls{turn, turn}), {session: operator, run: func(w *world) error {
			return w.relays[operator].store.Move(w.ctx, adapters.Move{Route: route, Cursors: map[int]adapters.Cursor{w.relays[operator].slot: {Position: 777, Snapshot: w.start.Snapshot}},
				Table: w.relays[operator].table, Action: "seek", By: operator})
		}}},
		ends: func(w *world) error {
			return w.want("lanes at the place that was ordered", 1, "SELECT count(*) FROM outrider_cursor WHERE position = 777 AND owner IS NULL")
		},
	},
	{
		name: "park beside a takeover", setup: owned("r1"), drain: delivered,
		roles: []role{does(relayA, 1, calls{parks, turn}), aDies, does(relayB, 0, calls{acquire, parks})},
		ends: func(w *world) error {
			return w.want("parked messages of r1 twice", 0, parkedRows+" HAVING count(*) > 1 UNION ALL SELECT 0 LIMIT 1")
		},
	},
	{
		name: "redrive beside a failed attempt", setup: failed(adapters.ParkedRetrying), drain: delivered,
		roles: []role{does(relayA, 0, calls{failsAgain}), orders(operator, adapters.ParkedRedrive)},
		ends: func(w *world) error {
			return errors.Join(w.want("messages without attempts", 1, parkedRows+" WHERE attempts = 0 AND status = 'retrying'"),
				w.want("commands that the lane's owner sees", 1, commandsGiven))
		},
	},
	{
		name: "skip beside a failed attempt", setup: failed(adapters.ParkedRetrying),
		roles: []role{does(relayA, 0, calls{failsAgain}), orders(operator, adapters.ParkedSkip)},
		ends: func(w *world) error {
			return errors.Join(w.want("messages that were skipped and are there", 0, parkedRows), w.want("commands that the lane's owner sees", 1, commandsGiven))
		},
	},
	{
		name: "redrive beside a delivery", setup: failed(adapters.ParkedRetrying), drain: delivered,
		roles: []role{does(relayA, 1, calls{succeeds}), orders(operator, adapters.ParkedRedrive)},
		ends:  func(w *world) error { return w.want("messages that were delivered and are there", 0, parkedRows) },
	},
	{
		name: "purge beside a redrive", setup: failed(adapters.ParkedDead),
		roles: []role{orders(operator, adapters.ParkedPurge), orders(another, adapters.ParkedRedrive), does(relayA, 0, calls{turn})},
		ends: func(w *world) error {
			if w.notes["purge"]+w.notes["redrive"] != 1 {
				return fmt.Errorf("purge changed %d messages and redrive %d", w.notes["purge"], w.notes["redrive"])
			}
			return w.want("messages", w.notes["redrive"], parkedRows)
		},
	},
}

// fourLanes is a setup: a has four lanes, and is dead.
func fourLanes(w *world) error {
	r := w.relays[relayA]
	lanes, err := r.store.Acquire(w.ctx, r.name, route, []int{0, 1, 2, 3}, 4)
	if err == nil && len(lanes) == 4 {
		r.take(lanes[0])
	}
	return errors.Join(err, w.exec(drainer, fmt.Sprintf(w.endLease, relayA)))
}

// settleOne settles one of the four lanes.
func settleOne(r *relay) error { return r.settle(r.settlement(r.lane.Cursor)) }

// acquireFour takes them.
func acquireFour(r *relay) error {
	lanes, err := r.store.Acquire(r.w.ctx, r.name, route, []int{0, 1, 2, 3}, 4)
	r.w.own(r.name, lanes)
	return err
}

// acquireOne takes one of two lanes.
func acquireOne(r *relay) error {
	lanes, err := r.store.Acquire(r.w.ctx, r.name, route, []int{0, 1}, 1)
	r.w.own(r.name, lanes)
	if err == nil && len(lanes) != 1 {
		r.w.fault("%s acquired %d lanes of two, and wanted one", r.name, len(lanes))
		return nil
	}
	if own := "slot of " + r.name; err == nil && r.w.notes[own] == 0 {
		r.w.note(own, 1+lanes[0].Slot)
	} else if err == nil && r.w.notes[own] != 1+lanes[0].Slot {
		r.w.fault("%s acquired another lane than its own", r.name)
	}
	return err
}

// settledOnce is a setup: a has settled r1 and r2, and r3 is there.
func settledOnce(w *world) error {
	return errors.Join(owned("r1", "r2")(w), turn(w.relays[relayA]), published(w, "r3"))
}

// turnAfterRestore is a turn that must be fenced if the cursor was put back before, over what was settled.
func turnAfterRestore(r *relay) error {
	r.w.mu.Lock()
	back := r.w.notes["put back"] > 0
	r.w.mu.Unlock()
	err := turn(r)
	if back && r.owns {
		r.w.fault("a settle went on from a cursor that was put back")
	}
	return err
}

// acquireUnpaused acquires, and must not when the route was paused before.
func acquireUnpaused(r *relay) error {
	r.w.mu.Lock()
	paused := r.w.notes["paused"] > 0
	r.w.mu.Unlock()
	before := r.lane.Epoch
	if err := r.acquire(); err != nil {
		return err
	}
	if paused && r.owns && r.lane.Epoch != before {
		r.w.fault("%s acquired a lane of a paused route", r.name)
	}
	return nil
}

// bind binds the route to a table.
func bind(table string) func(r *relay) error {
	return func(r *relay) error {
		err := r.store.Bind(r.w.ctx, route, adapters.Table{Name: table})
		if _, refused := errors.AsType[*adapters.OtherTable](err); refused {
			r.w.note("refused", 1)
			return nil
		}
		return err
	}
}

// logScenarios are those of Outrider's own table with its state store in PostgreSQL.
var logScenarios = slices.Concat([]*scenario{
	{
		name: "late rows", setup: owned(), drain: delivered,
		roles: []role{publish(publisher, "p1", "p2"), publish(another, "q1"), does(relayA, 0, calls{turn, turn})},
	},
	{
		name: "late rows behind settled ones", setup: settledOnce, drain: delivered,
		roles: []role{publish(publisher, "p1"), publish(another, "q1"), does(relayA, 0, calls{turn, turn, turn})},
	},
	{
		name: "late rows of a slow insert", setup: owned(), drain: delivered,
		roles: []role{slowly(publisher, "p1"), publish(another, "q1"), does(relayA, 0, calls{turn, turn})},
	},
	{
		name: "late rows while the owner changes", setup: owned("r1"), drain: delivered,
		roles: []role{publish(publisher, "p1"), publish(another, "q1"), does(relayA, 0, calls{turn}), aDies, does(relayB, 0, calls{acquire, turn})},
	},
	{
		name: "retention beside late rows", setup: owned("r1"), drain: delivered,
		roles: []role{publish(publisher, "p1"), publish(another, "q1"), does(relayA, 0, calls{turn, retain, turn})},
	},
	{
		name: "exactly once", setup: owned("r1", "r2"), drain: sunk,
		roles: []role{does(relayA, 1, calls{turnTx, turnTx}), aDies, does(relayB, 0, calls{acquire, turnTx})},
	},
	{
		name: "exactly once over a lost connection", setup: owned("r1", "r2"), drain: sunk,
		roles: []role{does(relayA, 1, calls{turnTx})},
	},
	{
		name: "skip beside a delivery in a transaction", setup: failed(adapters.ParkedRetrying),
		roles: []role{does(relayA, 0, calls{succeedsTx}), orders(operator, adapters.ParkedSkip)},
		ends: func(w *world) error {
			return errors.Join(w.want("deliveries of a message that was not skipped", 1-w.notes["skip"], "SELECT count(*) FROM sink"),
				w.want("messages that are there", 0, parkedRows))
		},
	},
}, stateScenarios)

func TestInterleavingsOfALog(t *testing.T) {
	t.Parallel()
	w := logWorld(t, logDatabase(t), nil)
	for _, sc := range logScenarios {
		w.play(t, sc)
	}
}
