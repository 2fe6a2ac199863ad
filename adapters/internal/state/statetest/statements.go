// Package statetest is for the tests of state stores.
package statetest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/internal/state"
)

var update = flag.Bool("update", false, "write testdata/statements.sql")

// Statements compares all statements that a database is given for operators with testdata/statements.sql: what a
// change of the shared ground does to the SQL of each database is read there.
func Statements(t *testing.T, db state.Database) {
	t.Helper()
	r := &recorder{}
	db.Pool, db.Wrap = r, func(_ string, err error) error { return err }
	db.Transact = func(_ context.Context, f func(tx state.Tx) error) error { return f(r) }
	db.EndSession = nil
	r.run(t, state.NewOperators(db))
	const golden = "testdata/statements.sql"
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(r.text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, expected := strings.Split(r.text.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(expected)) {
		if i >= len(got) || i >= len(expected) || got[i] != expected[i] {
			t.Fatalf("the statements differ from %s in line %d; compare them with -update and git diff", golden, i+1)
		}
	}
}

// recorder is a database that writes down what it is asked. Its tables have one row each where the next statement depends on one.
type recorder struct{ text strings.Builder }

// run calls everything that makes statements of its own.
func (r *recorder) run(t *testing.T, o *state.Operators) {
	ctx := t.Context()
	lane := adapters.LaneRef{Route: "r", Slot: 3}
	filter := adapters.ParkedFilter{Route: "r", Group: "g", ID: "e", Status: adapters.ParkedDead, Type: "t", Error: "50%_!", Failure: 9, Before: given, Limit: 5,
		After: adapters.ParkedKey{LaneRef: lane, Seq: 4}}
	for name, call := range calls(ctx, o, lane, filter) {
		fmt.Fprintf(&r.text, "-- %s\n", name)
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// calls are in a fixed order.
func calls(ctx context.Context, o *state.Operators, lane adapters.LaneRef, f adapters.ParkedFilter) func(yield func(string, func() error) bool) {
	second := func(_ any, err error) error { return err }
	command := func(a adapters.ParkedAction) adapters.ParkedCommand {
		return adapters.ParkedCommand{Action: a, Filter: f, By: "b"}
	}
	move := adapters.Move{Route: "r", Cursors: map[int]adapters.Cursor{3: {Position: 8}}, Beyond: map[int][]int64{3: {9}}, Table: adapters.Table{Cluster: "c", Name: "n"},
		Same: true, Action: "seek", Detail: "end", By: "b"}
	all := []struct {
		name string
		call func() error
	}{
		{"ListParked", func() error { return second(o.ListParked(ctx, f, 100)) }},
		{"ListParked, everything", func() error { return second(o.ListParked(ctx, adapters.ParkedFilter{}, 100)) }},
		{"ParkedQueue", func() error { return second(o.ParkedQueue(ctx, lane, "g", 4, 10, 100)) }},
		{"ParkedQueue, no group", func() error { return second(o.ParkedQueue(ctx, lane, "", 4, 10, 100)) }},
		{"ParkedGroups", func() error { return second(o.ParkedGroups(ctx, "r", []int{3, 4})) }},
		{"CountParked", func() error { return second(o.CountParked(ctx, command(adapters.ParkedPurge))) }},
		{"ChangeParked, redrive", func() error { return second(o.ChangeParked(ctx, command(adapters.ParkedRedrive))) }},
		{"ChangeParked, purge", func() error { return second(o.ChangeParked(ctx, command(adapters.ParkedPurge))) }},
		{"Audit", func() error { return o.Audit(ctx, "b", adapters.ParkedPurge, f, "t", 3) }},
		{"WriteAudit", func() error { return o.WriteAudit(ctx, "b", "a", 3, "k", "v") }},
		{"ReadAudit", func() error { return second(o.ReadAudit(ctx, 7, 10)) }},
		{"CountFailures", func() error { _, _, err := o.CountFailures(ctx, "r", 2); return err }},
		{"Pauses", func() error { return second(o.Pauses(ctx, "r")) }},
		{"Pause", func() error {
			return second(o.Pause(ctx, adapters.Pause{Route: "r", Address: "a", Reason: "x", By: "b"}))
		}},
		{"Resume", func() error { return second(o.Resume(ctx, adapters.Pause{Route: "r", Group: "g", By: "b"})) }},
		{"Move", func() error { return o.Move(ctx, move) }},
		{"Forget", func() error { return second(o.Forget(ctx, "r", true, "b")) }},
		{"RemoveInstance", func() error { return second(o.RemoveInstance(ctx, "i", "b")) }},
		{"Lanes", func() error { return second(o.Lanes(ctx)) }},
		{"Cursors", func() error { return second(o.Cursors(ctx, []string{"r", "s"})) }},
		{"CountLanes", func() error { return second(o.CountLanes(ctx)) }},
		{"Instances", func() error { return second(o.Instances(ctx)) }},
		{"ListOperations", func() error {
			return second(o.ListOperations(ctx, adapters.OperationFilter{ID: "i", Active: true, Before: "j", Limit: 3}))
		}},
		{"CreateOperation", func() error {
			return second(o.CreateOperation(ctx, adapters.Operation{ID: "i", Kind: adapters.OperationRedrive, All: true, By: "b"}))
		}},
		{"TakeOperation", func() error { return second(o.TakeOperation(ctx, "i", "w", time.Minute)) }},
		{"StepOperation", func() error {
			return second(o.StepOperation(ctx, adapters.OperationStep{ID: "i", Epoch: 7, Lease: time.Minute, Move: &move}))
		}},
		{"StepOperation, the last", func() error {
			return second(o.StepOperation(ctx, adapters.OperationStep{ID: "i", Epoch: 7, End: adapters.OperationDone}))
		}},
		{"StopOperation", func() error { return second(o.StopOperation(ctx, "i", "b")) }},
	}
	return func(yield func(string, func() error) bool) {
		for _, c := range all {
			if !yield(c.name, c.call) {
				return
			}
		}
	}
}

var spaces = regexp.MustCompile(`\s+`)

func (r *recorder) record(s *sqltext.Statement) string {
	text := strings.TrimSpace(spaces.ReplaceAllString(s.SQL(), " "))
	fmt.Fprintf(&r.text, "%s; --", text)
	for _, arg := range s.Args {
		fmt.Fprintf(&r.text, " %q", shown(arg))
	}
	r.text.WriteByte('\n')
	return text
}

// given is a time that the test gives.
var given = time.Unix(1700000000, 0)

// shown is an argument as text. That of a clock is not the same in two runs.
func shown(arg any) string {
	if at, is := arg.(time.Time); is {
		arg = at.UnixMicro()
	}
	if micros, is := arg.(int64); is && micros > given.UnixMicro() {
		return "the clock"
	}
	return fmt.Sprint(arg)
}

// Exec implements [state.Tx].
func (r *recorder) Exec(_ context.Context, s *sqltext.Statement) (int64, error) {
	r.record(s)
	return 1, nil
}

// Each implements [state.Tx].
func (r *recorder) Each(_ context.Context, s *sqltext.Statement, row func(scan func(...any) error) error) error {
	text := r.record(s)
	operation := strings.Contains(text, "FROM outrider_operation WHERE")
	if !operation && !strings.Contains(text, "failure") && !strings.HasPrefix(text, "SELECT route, slot, max(seq)") {
		return nil
	}
	return row(func(into ...any) error {
		for i, v := range into {
			switch v := v.(type) {
			case *string:
				if *v = "{}"; operation && i == 6 {
					*v = string(adapters.OperationRunning)
				}
			case *int:
				*v = 7
			case *int64:
				*v = 7
			}
		}
		return nil
	})
}
