package system_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// operated judges what operators see of the table's rows and do with them.
func (r *anyReceiver) operated(t *testing.T, a *anyTable) {
	t.Helper()
	asOperator(t, a.cfg, func(op *operate.Operator) {
		a.listed(t, op)
		a.found(t, op)
		a.purged(t, op)
		r.mu.Lock()
		r.open = true
		r.mu.Unlock()
		a.redriven(t, op)
	})
}

// deadRows are those of the table by their ids.
func (a *anyTable) deadRows(t *testing.T) map[string]anyState {
	t.Helper()
	dead := map[string]anyState{}
	for _, s := range a.states(t) {
		if a.dead(s) {
			dead[s.id] = s
		}
	}
	return dead
}

// ctx limits calls that do not return.
func (a *anyTable) ctx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (a *anyTable) listed(t *testing.T, op *operate.Operator) {
	t.Helper()
	list, err := op.Parked(a.ctx(t), adapters.ParkedFilter{Route: a.name, Limit: 2 * anyRows})
	if err != nil {
		a.isWrong("parked list: %v", err)
	}
	got := map[string]bool{}
	for _, m := range list {
		if got[m.ID] = true; m.LastError == "" && a.queue.Columns.Error != "" {
			a.isWrong("parked list: row %q has no error", m.ID)
		}
	}
	want := a.deadRows(t)
	if !maps.EqualFunc(got, want, func(bool, anyState) bool { return true }) {
		a.isWrong("parked list has the rows %q, the dead ones are %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	status, _, err := op.Status(a.ctx(t), nil, func(route string) bool { return route == a.name })
	if err != nil || len(status) != 1 || status[0].Dead != len(want) || status[0].SourceError != "" || status[0].Stopped != "" {
		a.isWrong("status: %+v, %v; want %d dead rows", status, err, len(want))
	}
}

// found judges `event` of each row, and of ids that are no row's.
func (a *anyTable) found(t *testing.T, op *operate.Operator) {
	t.Helper()
	states := a.states(t)
	for i, row := range a.rows {
		s, there := states[row.mark]
		if row.free || !there || s.id == "" || i > len(a.kinds["key"].values) && i%6 > 0 {
			continue
		}
		want := operate.EventSettled
		if a.dead(s) {
			want = operate.EventDead
		}
		j, err := op.Journey(a.ctx(t), s.id)
		if err != nil || len(j.Places) != 1 || j.Places[0].Where != want {
			a.isWrong("event %q: %+v, %v; want one that is %s", s.id, j, err, want)
		}
	}
	for _, id := range a.noIDs(t) {
		if j, err := op.Journey(a.ctx(t), id); err == nil && len(j.Places) > 0 {
			a.isWrong("event %q, an id that no row has: %s", id, j.Places[0].Text)
		}
	}
}

// noIDs are ids that are like those of dead rows, and of none.
func (a *anyTable) noIDs(t *testing.T) (ids []string) {
	t.Helper()
	known := map[string]bool{}
	for _, s := range a.states(t) {
		known[s.id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(a.deadRows(t))) {
		for _, other := range []string{id + "x", id + "f3c9a1e-1b2c-4d5e-8f90-a1b2c3d4e5f6", id + "e0", id + ".0", "0" + id, " " + id + " x"} {
			if !known[other] && len(ids) < 12 {
				ids = append(ids, other)
			}
		}
	}
	return ids
}

func (a *anyTable) purged(t *testing.T, op *operate.Operator) {
	t.Helper()
	change := func(what string, f adapters.ParkedFilter, want int) {
		t.Helper()
		f.Route = a.name
		n, err := op.ChangeParked(a.ctx(t), adapters.ParkedCommand{Action: adapters.ParkedPurge, Filter: f, By: "me"}, operate.RateLimit{})
		if n != want || err != nil && want > 0 {
			a.isWrong("purge of %s: %d rows, %v; want %d", what, n, err, want)
		}
	}
	dead := a.deadRows(t)
	for _, id := range a.noIDs(t) {
		change(fmt.Sprintf("the id %q, which no row has", id), adapters.ParkedFilter{ID: id}, 0)
	}
	groups := map[string]bool{}
	for _, s := range dead {
		groups[s.group] = true
	}
	for g := range groups {
		if g != "" && !groups[":"+g] {
			change(fmt.Sprintf("the group %q, which no row has", ":"+g), adapters.ParkedFilter{Group: ":" + g}, 0)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(dead)) {
		if id != "" {
			change(fmt.Sprintf("the id %q", id), adapters.ParkedFilter{ID: id}, 1)
			break
		}
	}
	if left := a.deadRows(t); len(left) < len(dead)-1 {
		a.isWrong("%d of %d dead rows are left after the purge of one", len(left), len(dead))
	}
	states := a.states(t)
	a.rows = slices.DeleteFunc(a.rows, func(r anyRow) bool {
		_, there := states[r.mark]
		return !there && (r.deny || r.dies) // it was purged
	})
}

func (a *anyTable) redriven(t *testing.T, op *operate.Operator) {
	t.Helper()
	redrive := func(what string, f adapters.ParkedFilter, want int) {
		t.Helper()
		f.Route = a.name
		n, err := op.ChangeParked(a.ctx(t), adapters.ParkedCommand{Action: adapters.ParkedRedrive, Filter: f, By: "me"}, operate.RateLimit{})
		if n != want || err != nil {
			a.isWrong("redrive of %s: %d rows, %v; want %d", what, n, err, want)
		}
	}
	dead := a.deadRows(t)
	for _, id := range slices.Sorted(maps.Keys(dead)) {
		if id != "" {
			redrive(fmt.Sprintf("the id %q", id), adapters.ParkedFilter{ID: id}, 1)
			break
		}
	}
	// The one row may be dead again, or not yet.
	n, err := op.ChangeParked(a.ctx(t), adapters.ParkedCommand{Action: adapters.ParkedRedrive, Filter: adapters.ParkedFilter{Route: a.name}, By: "me"}, operate.RateLimit{})
	if n < len(dead)-1 || err != nil {
		a.isWrong("redrive of all: %d rows, %v; want %d", n, err, len(dead)-1)
	}
}
