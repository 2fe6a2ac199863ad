package interleave_test

import (
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
)

// publish inserts rows in one transaction.
func publish(session string, ids ...string) role {
	return role{session: session, run: func(w *world) error {
		statements := []string{"BEGIN"}
		var events []event
		for _, id := range ids {
			statements = append(statements, insert(id))
			events = append(events, event{id, group, session})
		}
		if err := w.exec(session, append(statements, "COMMIT")...); err != nil {
			return err
		}
		w.commit(events...)
		return nil
	}}
}

// slowly inserts a row in the two steps that an INSERT takes: it draws the position before it has a transaction id.
func slowly(session, id string) role {
	return role{session: session, run: func(w *world) error {
		err := w.exec(session, "BEGIN", "SELECT nextval(pg_get_serial_sequence('outrider_outbox', 'position'))",
			fmt.Sprintf("INSERT INTO outrider_outbox (position, id, type, message_group, payload) OVERRIDING SYSTEM VALUE "+
				"VALUES (currval(pg_get_serial_sequence('outrider_outbox', 'position')), '%s', 't', '%s', '1')", id, group), "COMMIT")
		if err == nil {
			w.commit(event{id, group, session})
		}
		return err
	}}
}

func insert(id string) string {
	return fmt.Sprintf("INSERT INTO outrider_outbox (id, type, message_group, payload) VALUES ('%s', 't', '%s', '1')", id, group)
}

// published are rows that are there before a run.
func published(w *world, ids ...string) error {
	for _, id := range ids {
		if err := w.put(id); err != nil {
			return err
		}
		w.commit(event{id, group, drainer})
	}
	return nil
}

// calls are what an instance does, one after the other.
type calls []func(r *relay) error

// does is a role of an instance.
func does(name string, cuts int, calls calls) role {
	return role{session: name, cuts: cuts, run: func(w *world) error {
		for _, call := range calls {
			if err := call(w.relays[name]); err != nil {
				return err
			}
		}
		return nil
	}}
}

// aDies ends the lease of a, which runs on.
var aDies = role{session: operator, run: func(w *world) error { return w.exec(operator, fmt.Sprintf(w.endLease, relayA)) }}

// owned is a setup: a has the lane, and some rows are there.
func owned(ids ...string) func(w *world) error {
	return func(w *world) error {
		return errors.Join(w.relays[relayA].acquire(), published(w, ids...))
	}
}

// free is one in which nobody has.
func free(ids ...string) func(w *world) error {
	return func(w *world) error {
		w.relays[relayA].owns, w.relays[relayB].owns = false, false
		return published(w, ids...)
	}
}

// delivered drains the log: all instances but the drainer are dead.
func delivered(w *world) error {
	for _, name := range []string{relayA, relayB} {
		if err := w.exec(drainer, fmt.Sprintf(w.endLease, name)); err != nil {
			return err
		}
	}
	if err := w.exec(drainer, "DELETE FROM outrider_pause"); err != nil {
		return err
	}
	return w.relays[drainer].drain()
}

func acquire(r *relay) error { return r.acquire() }
func renew(r *relay) error   { return r.renew() }
func turn(r *relay) error    { return r.turns(1) }

// release gives the lane up.
func release(r *relay) error {
	if !r.owns {
		return nil
	}
	r.owns = false
	_, err := again(func() (struct{}, error) {
		return struct{}{}, r.store.Release(r.w.ctx, r.name, []adapters.LaneRef{r.lane.LaneRef})
	})
	return err
}

// parks reads, and parks what it has read, which failed.
func parks(r *relay) error {
	if !r.owns {
		return nil
	}
	got, err := again(func() (reading, error) { return r.read(r.w.ctx, r.lane.Cursor) })
	if err != nil {
		return err
	}
	s := r.settlement(got.next)
	s.Stored = s.NextSeq
	for _, id := range got.ids {
		s.Park = append(s.Park, message(s.NextSeq, id, 1))
		s.NextSeq++
	}
	return r.settle(s)
}

// message is one that is attempted again at once.
func message(seq int64, id string, attempts int) adapters.Parked {
	return adapters.Parked{Seq: seq, Group: group, Status: adapters.ParkedRetrying, Attempts: attempts, ID: id, Type: "t", LastError: "no", Payload: []byte("1"), Metadata: map[string]string{}}
}

// failed is a setup: the row r1 is parked, and a has its lane. Others wait behind it.
func failed(status adapters.ParkedStatus, others ...string) func(w *world) error {
	return func(w *world) error {
		r := w.relays[relayA]
		if err := r.acquire(); err != nil {
			return err
		}
		s := r.settlement(r.lane.Cursor)
		m := message(1, "r1", 1)
		m.Status = status
		s.Stored, s.NextSeq, s.Park = 1, 2, []adapters.Parked{m}
		w.commit(event{"r1", group, drainer})
		for _, id := range others {
			m := message(s.NextSeq, id, 0)
			m.Status = adapters.ParkedWaiting
			s.Park, s.NextSeq = append(s.Park, m), s.NextSeq+1
			w.commit(event{id, group, drainer})
		}
		return r.settle(s)
	}
}

// failsAgain settles a second failed attempt of r1.
func failsAgain(r *relay) error {
	s := r.settlement(r.lane.Cursor)
	m := message(1, "r1", 2)
	m.Was = 1
	s.Stored, s.Park = r.lane.NextSeq, []adapters.Parked{m}
	return r.settle(s)
}

// succeeds delivers r1, which is parked.
func succeeds(r *relay) error {
	s := r.settlement(r.lane.Cursor)
	s.Stored, s.Unpark = r.lane.NextSeq, []int64{1}
	r.w.receive("r1")
	return r.settle(s, "r1")
}

// orders is an operator's command on the parked messages.
func orders(session string, action adapters.ParkedAction) role {
	return role{session: session, run: func(w *world) error {
		step, err := w.relays[session].store.ChangeParked(w.ctx, adapters.ParkedCommand{Action: action, Filter: adapters.ParkedFilter{Route: route}, By: session})
		w.note(string(action), step.Changed)
		return err
	}}
}

// want checks counts in tables.
func (w *world) want(what string, want int, query string) error {
	got, err := w.count(query)
	if err == nil && got != want {
		err = fmt.Errorf("%s: got %d, want %d", what, got, want)
	}
	return err
}
