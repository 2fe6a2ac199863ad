package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/outbox"
)

// claimless is a table whose rows have no status while they are processed: who has a lane delivers them, and claims live in memory.
var claimless = layout.OutboxFramework().Queue

// insertUser publishes a row there.
const insertUser = "INSERT INTO public.outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload, status, available_at, created_at) VALUES ('%s', 't', 'User', '%s', '{}', 0, now(), clock_timestamp())"

// claimlessScenarios are those of such a table.
var claimlessScenarios = []*scenario{
	{
		name: "a lane is lost between a look and a settle", setup: owned("g1", "g2"), drain: looked,
		roles: []role{does(relayA, calls{look, finish(outbox.OutcomeDelivered), look, finish(outbox.OutcomeRetry)}), aDies, does(relayB, calls{acquire, look, finish(outbox.OutcomeDelivered)})},
	},
	{
		name: "another processor finishes a row that was looked at", setup: owned("g1", "g2"), drain: looked,
		roles: []role{does(relayA, calls{look, finish(outbox.OutcomeDelivered)}), does(operator, calls{finishElsewhere})},
	},
	{
		name: "rows from memory beside those of the table", setup: announced, drain: looked,
		roles: []role{does(publisher, calls{publishHot}), does(relayA, calls{renew, lookHot, look, finish(outbox.OutcomeDelivered), lookHot, finish(outbox.OutcomeDelivered)}), publishes(another, "g4")},
	},
}

// claimlessMutants are changes of its statements.
var claimlessMutants = []*mutant{
	{name: "settle: any epoch", by: "a lane is lost between a look and a settle", within: "WITH lanes AS", find: "AND c.epoch = l.epoch", replace: ""},
	{name: "settle: rows that are final too", by: "another processor finishes a row that was looked at", within: "WITH lanes AS", find: "(t.\"status\" IN ('0', '2')) IS TRUE", replace: "true"},
	{name: "hot: what waits before the row does not count", by: "rows from memory beside those of the table", within: "AS hot_xmin", find: "LIMIT 65\n", replace: "LIMIT 0\n"},
}

// claimlessDatabase makes such a table, with the state store's beside it.
func claimlessDatabase(t *testing.T) string {
	t.Helper()
	url := logDatabase(t)
	_, err := queuetable.Init(context.Background(), pooled(t, url), *claimless, true, claimless.Tables...)
	must(t, err)
	return url
}

// claimlessWorld opens relays on it. What their queues know is new in each run.
func claimlessWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	w := newWorld(t, url, m)
	w.group, w.insert = group, insertUser
	w.endLease = "UPDATE outrider_instance SET lease_until = '-infinity' WHERE id = '%s'"
	w.clean = append(slices.Clone(cleanState), "TRUNCATE outrider_settled, outbox_event", "UPDATE outrider_instance SET lease_until = now() + interval '1 hour'")
	w.keepState(t, func(url string) (adapters.OperatorStore, error) {
		return statestore.New(w.ctx, statestore.Config{URL: url, Logger: quiet})
	})
	shut := func() (err error) {
		for _, r := range w.relays {
			if r.queue != nil {
				err, r.queue = errors.Join(err, r.queue.Close()), nil
			}
		}
		return err
	}
	w.closers = append(w.closers, shut)
	state := w.fresh
	w.fresh = func() error {
		err := errors.Join(shut(), state())
		for _, name := range []string{relayA, relayB, drainer} {
			q, openErr := queuetable.New(w.ctx, queuetable.Config{URL: w.session(name).url, Tables: claimless.Tables, Layout: *claimless,
				Fence: queuetable.Fence{Here: true}, Logger: quiet})
			if err = errors.Join(err, openErr); openErr == nil {
				r := w.relays[name]
				r.queue, r.held, r.hot, r.slot = q, nil, nil, adapters.SlotOf("User:"+group, "")
			}
		}
		return err
	}
	return w
}

// request is a claim in the lane that the relay has.
func (r *relay) request() adapters.ClaimRequest {
	return adapters.ClaimRequest{Slots: []int{r.slot}, Limit: rowsOfRead, Terms: slices.Repeat([]uint64{uint64(r.lane.Epoch)}, adapters.Slots)}
}

// look takes rows and delivers them.
func look(r *relay) error {
	if !r.owns {
		return nil
	}
	rows, err := again(func() ([]*adapters.Row, error) { return r.queue.Claim(r.w.ctx, r.request()) })
	r.have(rows)
	return err
}

// lookHot takes rows from memory whose transaction has committed.
func lookHot(r *relay) error {
	r.w.mu.Lock()
	ready := r.w.notes["hot"] > 0
	r.w.mu.Unlock()
	if ready {
		rows, _ := r.queue.(adapters.HotQueue).ClaimHot(r.request(), r.hot.Rows())
		r.have(rows)
	}
	return nil
}

func (r *relay) have(rows []*adapters.Row) {
	for _, row := range rows {
		r.w.receive(row.ID)
	}
	r.held = append(r.held, rows...)
}

// finish settles what is held. It must be refused if another relay had the lane before.
func finish(outcome outbox.Outcome) call {
	return func(r *relay) error {
		if len(r.held) == 0 {
			return nil
		}
		r.w.mu.Lock()
		fenced := slices.ContainsFunc(r.w.sessions, func(s *session) bool { o := r.w.relays[s.name]; return o != r && o.owns && o.lane.Epoch > r.lane.Epoch })
		r.w.mu.Unlock()
		results := r.results(outcome)
		for i := range results {
			results[i].Lane, results[i].Epoch = r.lane.LaneRef, r.lane.Epoch
		}
		lost, err := again(func() ([]*adapters.Claim, error) { return r.queue.Settle(r.w.ctx, results) })
		if err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		if fenced && len(lost) < len(results) {
			r.w.fault("%s settled rows of a lane that another relay had acquired", r.name)
		}
		r.settled(outcome, lost)
		return nil
	}
}

// finishElsewhere is another processor, which finishes the first row if it waits.
func finishElsewhere(r *relay) error {
	const mark = "elsewhere"
	err := r.w.exec(operator, "UPDATE outbox_event SET status = 1, last_error = '"+mark+"' WHERE event_id = 'g1' AND status IN (0, 2)")
	n, countErr := r.w.count("outbox_event WHERE last_error = '" + mark + "'")
	if n > 0 {
		r.w.receive("g1")
		r.w.settle("g1")
	}
	return errors.Join(err, countErr)
}

// announced is a setup: a has the lane, g1 waits, and a knows of g2, which is to be inserted.
func announced(w *world) error {
	a := w.relays[relayA]
	err := owned()(w)
	if _, claimErr := a.queue.Claim(w.ctx, a.request()); claimErr != nil { // from now on it knows its table
		return claimErr
	}
	if a.hot = a.queue.(adapters.HotQueue).Announce(fmt.Sprintf(insertUser, "g2", group)); a.hot == nil {
		return errors.New("no row is claimed from memory")
	}
	return errors.Join(err, published(w, "g1"))
}

// publishHot commits g2, which a may deliver from memory.
func publishHot(r *relay) error {
	hot := r.w.relays[relayA].hot
	if err := r.w.exec(r.name, "BEGIN"); err != nil {
		return err
	}
	rows, err := r.w.conns[r.name].QueryContext(r.w.ctx, hot.Statement())
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err has the error
	names, err := rows.Columns()
	for err == nil && rows.Next() {
		columns, to := make([]*string, len(names)), make([]any, len(names))
		for i := range columns {
			to[i] = &columns[i]
		}
		err = rows.Scan(to...)
		hot.Inserted(columns)
	}
	if err = errors.Join(err, rows.Err(), rows.Close()); err == nil {
		err = r.w.exec(r.name, "COMMIT")
	}
	r.w.commit(drainer, "g2") // whose g1 is before it
	r.w.note("hot", 1)
	return err
}

// looked drains the table: all others are dead.
func looked(w *world) error {
	r := w.relays[drainer]
	if err := errors.Join(w.exec(drainer, fmt.Sprintf(w.endLease, relayA), fmt.Sprintf(w.endLease, relayB), "UPDATE outbox_event SET available_at = now()"), acquire(r)); err != nil {
		return err
	}
	for range 20 {
		if err := errors.Join(look(r), finish(outbox.OutcomeDelivered)(r)); err != nil {
			return err
		}
		if n, err := w.count("outbox_event WHERE status IN (0, 2)"); err != nil || n == 0 {
			return err
		}
	}
	return errors.New("rows wait, and are not claimed")
}
