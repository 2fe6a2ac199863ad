package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// running is a row of an operation.
func running(kind adapters.OperationKind, state adapters.OperationState, epoch int64, subject string) []any {
	return []any{"o", string(kind), subject, `{"parked":{"route":"r","slot":2,"seq":5}}`, 0.0, "by", string(state), 10, 4, 1, "", int64(1), int64(2), int64(3), int64(0), "w", epoch, int64(7), int64(0), 0}
}

// A step of an operation is written by the worker that has it, and by no other: the epoch says which took it last.
func TestStepsAreFencedByEpoch(t *testing.T) {
	t.Parallel()
	const some, all = `{"route":"r"}`, `{}`
	for name, tt := range map[string]struct {
		row    []any // nil: there is none
		step   adapters.OperationStep
		want   error
		says   string
		writes []string
	}{
		"gone":          {nil, adapters.OperationStep{Epoch: 3}, adapters.ErrNoOperation, "", nil},
		"taken since":   {running(adapters.OperationRedrive, adapters.OperationRunning, 4, some), adapters.OperationStep{Epoch: 3, Done: 1}, adapters.ErrOperationLost, "", nil},
		"an older one":  {running(adapters.OperationRedrive, adapters.OperationRunning, 2, some), adapters.OperationStep{Epoch: 3, Done: 1}, adapters.ErrOperationLost, "", nil},
		"stopped":       {running(adapters.OperationRedrive, adapters.OperationStopped, 3, some), adapters.OperationStep{Epoch: 3, Done: 1}, adapters.ErrOperationLost, "", nil},
		"progress":      {running(adapters.OperationRedrive, adapters.OperationRunning, 3, some), adapters.OperationStep{Epoch: 3, Done: 1, Lease: time.Second}, nil, "lease_until = later(?)", []string{"UPDATE outrider_operation"}},
		"given back":    {running(adapters.OperationRedrive, adapters.OperationRunning, 3, some), adapters.OperationStep{Epoch: 3}, nil, "owner = '', lease_until = NULL WHERE", []string{"UPDATE outrider_operation"}},
		"the last":      {running(adapters.OperationRedrive, adapters.OperationRunning, 3, some), adapters.OperationStep{Epoch: 3, Done: 2, End: adapters.OperationDone}, nil, `"event":"done"`, []string{"UPDATE outrider_operation", "INSERT INTO outrider_audit"}},
		"messages":      {running(adapters.OperationRedrive, adapters.OperationRunning, 3, some), adapters.OperationStep{Epoch: 3, Parked: 2}, nil, "seq <= ?", []string{"UPDATE outrider_cursor", "UPDATE outrider_parked", "UPDATE outrider_operation"}},
		"not all meant": {running(adapters.OperationRedrive, adapters.OperationRunning, 3, all), adapters.OperationStep{Epoch: 3, Parked: 2}, nil, "", nil},
		"unreadable":    {running(adapters.OperationRedrive, adapters.OperationRunning, 3, "["), adapters.OperationStep{Epoch: 3}, nil, "", nil},
	} {
		a := &answers{rows: map[string][][]any{"max(seq)": {{"r", 2, int64(9), 2}}}}
		if tt.row != nil {
			a.rows["FROM outrider_operation"] = [][]any{tt.row}
		}
		tt.step.ID = "o"
		_, err := a.store(nil).StepOperation(t.Context(), tt.step)
		refused := tt.writes == nil
		if refused != (err != nil) || tt.want != nil && !errors.Is(err, tt.want) || !slices.Equal(a.writes(), tt.writes) || !a.has(tt.says) {
			t.Errorf("%s: %v, written %q with %q", name, err, a.writes(), a.sent)
		}
		if tt.want != nil && strings.HasPrefix(err.Error(), "store:") {
			t.Errorf("%s: an error of the operation itself is reported as one of the database: %v", name, err)
		}
	}
}

func TestOperationsChangeTheirStates(t *testing.T) {
	t.Parallel()
	all := []adapters.OperationState{adapters.OperationPlanned, adapters.OperationRunning, adapters.OperationDone, adapters.OperationStopped, adapters.OperationFailed}
	for _, state := range all {
		for action, from := range map[string][]adapters.OperationState{"stop": all[:2], "resume": all[3:]} {
			a := &answers{rows: map[string][][]any{"FROM outrider_operation": {running(adapters.OperationSkip, state, 1, `{"route":"r"}`)}}}
			o := a.store(nil)
			call := o.StopOperation
			if action == "resume" {
				call = o.ResumeOperation
			}
			changed, err := call(t.Context(), "o", "b")
			if want := slices.Contains(from, state); err != nil || changed != want || a.has("INSERT INTO outrider_audit") != want {
				t.Errorf("%s of an operation that is %s: %v, %v, %q", action, state, changed, err, a.writes())
			}
		}
	}
	if _, err := (&answers{}).store(nil).StopOperation(t.Context(), "o", "b"); !errors.Is(err, adapters.ErrNoOperation) {
		t.Error(err)
	}
}

func TestTakingAnOperation(t *testing.T) {
	t.Parallel()
	row := map[string][][]any{"FROM outrider_operation": {running(adapters.OperationSkip, adapters.OperationRunning, 8, `{"route":"r"}`)}}
	a := &answers{rows: row, changed: map[string]int64{"UPDATE outrider_operation": 0}}
	if taken, err := a.store(nil).TakeOperation(t.Context(), "o", "w", time.Second); taken != nil || err != nil {
		t.Errorf("an operation of another worker was taken: %+v, %v", taken, err)
	}
	a = &answers{rows: row}
	taken, err := a.store(nil).TakeOperation(t.Context(), "o", "w", time.Second)
	if err != nil || taken.Epoch != 8 || taken.Left != 7*time.Microsecond || taken.Place.Parked.Seq != 5 || !a.has("epoch = epoch + 1, lease_until = later(?)") || !a.has("[w 1000000 o w]") {
		t.Errorf("%+v, %v, %q", taken, err, a.sent)
	}
}

func TestOperationsAreChecked(t *testing.T) {
	t.Parallel()
	of := adapters.ParkedFilter{Route: "r"}
	for want, o := range map[string]adapters.Operation{
		"changes no messages":  {Kind: adapters.OperationRedrive, Filter: adapters.ParkedFilter{Status: "lost"}},
		"needs routes":         {Kind: adapters.OperationSeek, To: "end"},
		"and a place":          {Kind: adapters.OperationSeek, Routes: []string{"r"}},
		"is negative":          {Kind: adapters.OperationSkip, Filter: of, Rate: -1},
		"needs a condition":    {Kind: adapters.OperationPurge},
		"limit -1 is negative": {Kind: adapters.OperationPurge, Filter: adapters.ParkedFilter{Route: "r", Limit: -1}},
	} {
		a := &answers{}
		if _, err := a.store(nil).CreateOperation(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) || a.sent != nil {
			t.Errorf("%+v: %v, sent %q", o, err, a.sent)
		}
	}
	for _, own := range []bool{false, true} {
		a := &answers{rows: map[string][][]any{"FROM outrider_operation": {running(adapters.OperationPurge, adapters.OperationPlanned, 0, `{"all":true}`)}}}
		created, err := a.store(func(db *Database) { db.OwnClock = own }).CreateOperation(t.Context(), adapters.Operation{ID: "o", Kind: adapters.OperationPurge, All: true})
		if err != nil || !created.All || a.has("now(), now())") == own || !a.has(`"event":"begin"`) {
			t.Errorf("by this host's clock %v: %+v, %v, %q", own, created, err, a.sent)
		}
	}
}

// What changes nothing notifies no owner and is not in the audit log.
func TestPausesThatChangeNothing(t *testing.T) {
	t.Parallel()
	pause := func(o *Operators, p adapters.Pause) (bool, error) { return o.Pause(t.Context(), p) }
	resume := func(o *Operators, p adapters.Pause) (bool, error) { return o.Resume(t.Context(), p) }
	for name, tt := range map[string]struct {
		call func(*Operators, adapters.Pause) (bool, error)
		n    int64
		want []string
	}{
		"pause":         {pause, 1, []string{"INSERT INTO outrider_pause", "UPDATE outrider_cursor", "INSERT INTO outrider_audit"}},
		"a second time": {pause, 0, []string{"INSERT INTO outrider_pause"}},
		"resume":        {resume, 1, []string{"DELETE FROM outrider_pause", "UPDATE outrider_cursor", "INSERT INTO outrider_audit"}},
		"of no pause":   {resume, 0, []string{"DELETE FROM outrider_pause"}},
	} {
		locked := 0
		a := &answers{changed: map[string]int64{"outrider_pause": tt.n}}
		o := a.store(func(db *Database) {
			db.LockRoute = func(context.Context, Tx, string) error { locked = len(a.sent) + 1; return nil }
		})
		changed, err := tt.call(o, adapters.Pause{Route: "r", Group: "g", Reason: "x\x00", By: "b"})
		if err != nil || changed != (tt.n > 0) || !slices.Equal(a.writes(), tt.want) || locked != 1 || !a.has("group g") {
			t.Errorf("%s: %v, %v, %q, the route was locked before statement %d", name, changed, err, a.sent, locked)
		}
	}
}

func TestForgettingARoute(t *testing.T) {
	t.Parallel()
	alive := map[string][][]any{"JOIN outrider_instance": {{"i"}}}
	for name, tt := range map[string]struct {
		rows  map[string][][]any
		force bool
		fails string
		want  string
		n     int
	}{
		"unowned": {nil, false, "", "", 5}, "alive": {alive, false, "", "store: forget route", 0}, "forced": {alive, true, "", "", 5},
		"database": {nil, false, "outrider_pause", "broken", 4},
	} {
		a := &answers{rows: tt.rows, fails: tt.fails, changed: map[string]int64{"outrider_cursor": 16, "outrider_parked": 3, "outrider_pause": 0}}
		gone, err := a.store(func(db *Database) { db.RouteTables = []string{"outrider_more"} }).Forget(t.Context(), "r", tt.force, "b")
		switch {
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || gone != (adapters.DeletedRoute{})),
			tt.want == "" && (err != nil || gone != (adapters.DeletedRoute{Lanes: 16, Parked: 3}) || !a.has("19]") || !a.has("DELETE FROM outrider_more")):
			t.Errorf("%s: %+v, %v, %q", name, gone, err, a.sent)
		case name == "alive" && (!errors.Is(err, adapters.ErrAlive) || a.writes() != nil):
			t.Errorf("%v, %q", err, a.writes())
		}
	}
}

func TestRemovingAnInstance(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lanes, rows int64
		ends        error
		removed     bool
		writes      int
	}{
		"there": {3, 1, nil, true, 3}, "without a row": {3, 0, nil, false, 3}, "not there": {0, 0, nil, false, 2}, "its session does not end": {3, 1, errBroken, false, 0},
	} {
		a := &answers{changed: map[string]int64{"outrider_cursor": tt.lanes, "outrider_instance": tt.rows}}
		removed, err := a.store(func(db *Database) { db.EndSession = func(context.Context, string) error { return tt.ends } }).RemoveInstance(t.Context(), "i", "b")
		if removed != tt.removed || !errors.Is(err, tt.ends) || len(a.writes()) != tt.writes {
			t.Errorf("%s: %v, %v, %q", name, removed, err, a.writes())
		}
	}
}

// A route that has read one table does not go on with another one.
func TestBindingARoute(t *testing.T) {
	t.Parallel()
	table := adapters.Table{Cluster: "c", Name: "n"}
	a := &answers{}
	if err := a.store(nil).Bind(t.Context(), "r", table); err != nil || !slices.Equal(a.writes(), []string{"UPDATE outrider_cursor"}) {
		t.Errorf("%v, %q", err, a.writes())
	}
	a = &answers{rows: map[string][][]any{"SELECT c.cluster": {{"c", "other"}}}}
	err := a.store(nil).Bind(t.Context(), "r", table)
	if other, ok := errors.AsType[*adapters.OtherTable](err); !ok || other.Source != table || other.Cursor.Name != "other" || a.writes() != nil || strings.HasPrefix(err.Error(), "store:") {
		t.Errorf("%v, %q", err, a.writes())
	}
	a = &answers{}
	o := a.store(func(db *Database) { db.LockOwners = func(context.Context, Tx, string) error { return errBroken } })
	if err := o.Bind(t.Context(), "r", table); !errors.Is(err, errBroken) || a.sent != nil {
		t.Errorf("%v, %q", err, a.sent)
	}
}

// A command changes the rows that it has found, lane by lane, and no others; the owners of messages that flow load them again.
func TestStepsOfCommands(t *testing.T) {
	t.Parallel()
	found := [][]any{{"r", 1, int64(40), 2}, {"r", 2, int64(7), 3}}
	for name, tt := range map[string]struct {
		action adapters.ParkedAction
		rows   [][]any
		want   []string
		more   bool
	}{
		"redrive": {adapters.ParkedRedrive, found, []string{"UPDATE outrider_cursor", "UPDATE outrider_parked", "INSERT INTO outrider_audit"}, true},
		"skip":    {adapters.ParkedSkip, found[:1], []string{"UPDATE outrider_cursor", "DELETE FROM outrider_parked", "INSERT INTO outrider_audit"}, false},
		"purge":   {adapters.ParkedPurge, found, []string{"DELETE FROM outrider_parked", "INSERT INTO outrider_audit"}, true},
		"nothing": {adapters.ParkedPurge, nil, []string{"INSERT INTO outrider_audit"}, false},
	} {
		a := &answers{rows: map[string][][]any{"max(seq)": tt.rows}, changed: map[string]int64{"outrider_parked": 5}}
		after := adapters.ParkedKey{LaneRef: adapters.LaneRef{Route: "r", Slot: 1}, Seq: 30}
		step, err := a.store(nil).ChangeParked(t.Context(), adapters.ParkedCommand{Action: tt.action, Filter: adapters.ParkedFilter{Route: "r", Limit: 5, After: after}, By: "b"})
		if err != nil || !slices.Equal(a.writes(), tt.want) || step.More != tt.more || (step.Changed == 5) != (tt.rows != nil) {
			t.Errorf("%s: %+v, %v, %q", name, step, err, a.writes())
		}
		if last := "(route = ? AND slot = ? AND seq > ? OR route = ? AND slot = ? AND seq <= ?)"; len(tt.rows) == 2 && (!a.has(last) || !a.has("r 1 30 r 2 7]")) {
			t.Errorf("%s is not bounded by %s: %q", name, last, a.sent)
		}
	}
	a := &answers{fails: "max(seq)"}
	if step, err := a.store(nil).ChangeParked(t.Context(), adapters.ParkedCommand{Action: adapters.ParkedSkip, All: true}); !errors.Is(err, errBroken) || step != (adapters.ParkedStep{}) {
		t.Errorf("%+v, %v", step, err)
	}
	if _, err := a.store(nil).ChangeParked(t.Context(), adapters.ParkedCommand{Action: "burn", All: true}); err == nil || !strings.Contains(fmt.Sprint(err), "none of redrive, skip, purge") {
		t.Error(err)
	}
}
