package interleave_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/adapters"
)

// publishes inserts rows in one transaction.
func publishes(session string, ids ...string) role {
	return does(session, calls{func(r *relay) error {
		statements := []string{"BEGIN"}
		for _, id := range ids {
			statements = append(statements, r.w.row(id))
		}
		return r.publish(append(statements, "COMMIT"), ids...)
	}})
}

// slowly inserts a row in the two steps that an INSERT takes: it draws the position before it has a transaction id.
func slowly(session, id string) role {
	return does(session, calls{func(r *relay) error {
		const sequence = "(pg_get_serial_sequence('outrider_outbox', 'position'))"
		insert := strings.NewReplacer("(id", "(position, id", "VALUES (", "OVERRIDING SYSTEM VALUE VALUES (currval"+sequence+", ").Replace(r.w.row(id))
		return r.publish([]string{"BEGIN", "SELECT nextval" + sequence, insert, "COMMIT"}, id)
	}})
}

// publish runs statements that commit rows.
func (r *relay) publish(statements []string, ids ...string) error {
	err := r.w.exec(r.name, statements...)
	if err == nil {
		r.w.commit(r.name, ids...)
	}
	return err
}

// published are rows that are there before a run.
func published(w *world, ids ...string) error {
	for _, id := range ids {
		if err := w.put(id); err != nil {
			return err
		}
	}
	w.commit(drainer, ids...)
	return nil
}

// aDies ends the lease of a, which runs on.
var aDies = does(operator, calls{func(r *relay) error { return r.w.exec(operator, fmt.Sprintf(r.w.endLease, relayA)) }})

// locksParked is a session that looks at messages with a lock, and lets go of them.
var locksParked = runs(operator, "BEGIN", "SELECT * FROM outrider_parked FOR UPDATE", "ROLLBACK")

// owned is a setup: a has the lane, and some rows are there.
func owned(ids ...string) func(w *world) error {
	return func(w *world) error { return errors.Join(acquire(w.relays[relayA]), published(w, ids...)) }
}

// free is one in which no relay has it.
func free(ids ...string) func(w *world) error {
	return func(w *world) error { return published(w, ids...) }
}

// failed is one in which the row r1 is parked, and a has its lane. Others wait behind it.
func failed(status adapters.ParkedStatus, others ...string) func(w *world) error {
	return func(w *world) error {
		r := w.relays[relayA]
		if err := acquire(r); err != nil {
			return err
		}
		s := r.settlement(r.lane.Cursor)
		s.Stored = 1
		for i, id := range append([]string{"r1"}, others...) {
			m := message(s.NextSeq, id, 1)
			if m.Status = status; i > 0 {
				m.Status, m.Attempts = adapters.ParkedWaiting, 0
			}
			s.Park, s.NextSeq = append(s.Park, m), s.NextSeq+1
			w.commit(drainer, id)
		}
		return r.settle(s)
	}
}

// orders is an operator's command on the parked messages.
func orders(session string, action adapters.ParkedAction) role {
	return does(session, calls{func(r *relay) error {
		step, err := r.store.ChangeParked(r.w.ctx, adapters.ParkedCommand{Action: action, Filter: adapters.ParkedFilter{Route: route}, By: session})
		r.w.note(string(action), step.Changed)
		return err
	}})
}

// delivered drains the log: all instances but the drainer are dead.
func delivered(w *world) error {
	err := w.exec(drainer, fmt.Sprintf(w.endLease, relayA), fmt.Sprintf(w.endLease, relayB), "DELETE FROM outrider_pause")
	if err != nil {
		return err
	}
	return w.relays[drainer].drain()
}

// settledOnce is a setup: a has settled r1 and r2, and r3 is there.
func settledOnce(w *world) error {
	return errors.Join(owned("r1", "r2")(w), turn(w.relays[relayA]), published(w, "r3"))
}

// uncommitted is one in which a has read nothing, and the transaction with p1, of a row between others, is open.
func uncommitted(w *world) error {
	return errors.Join(owned("r1")(w), w.exec(publisher, "BEGIN", w.row("p1")), published(w, "r2"))
}

// commits ends such a transaction.
func commits(ids ...string) call {
	return func(r *relay) error { return r.publish([]string{"COMMIT"}, ids...) }
}

// fourLanes is one in which a has four lanes, and is dead.
func fourLanes(w *world) error {
	return errors.Join(acquireFour(w.relays[relayA]), w.exec(drainer, fmt.Sprintf(w.endLease, relayA)))
}

// seenByTheOwner is an end: the lane says that there was a command.
var seenByTheOwner = wants("commands that the lane's owner sees", 1, "outrider_cursor WHERE commands = 1")
