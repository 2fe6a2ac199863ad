package state

import (
	"errors"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// Who did what is written as a database keeps it, and read page by page, the newest first.
func TestAuditRecords(t *testing.T) {
	t.Parallel()
	for own, want := range map[bool]string{false: "INSERT INTO outrider_audit (by, action, filter, changed) VALUES (?, ?, ?, ?)", true: "INSERT INTO outrider_audit (at, by, action, filter, changed) VALUES (now(), ?, ?, ?, ?)"} {
		a := &answers{}
		o := a.store(func(db *Database) { db.AuditTime = own })
		if err := o.WriteAudit(t.Context(), "me\x00", "seek", 3, "route", "r", "group", "", "to"); err != nil || !a.has(want) || !a.has("me\uFFFD seek {\"route\":\"r\"} 3") {
			t.Errorf("%v, %q", err, a.sent)
		}
		if err := o.Audit(t.Context(), "me", adapters.ParkedPurge, adapters.ParkedFilter{Route: "r", Failure: 255}, "t", 3); err != nil || !a.has(`{"failure":"00000000000000ff","route":"r","table":"t"} 3`) {
			t.Errorf("%v, %q", err, a.sent)
		}
	}
	row := []any{int64(7), int64(5), "me", "role", "seek", "{}", 3}
	a := &answers{rows: map[string][][]any{"FROM outrider_audit": {row}}}
	for before, want := range map[int64]string{0: "FROM outrider_audit ORDER BY id DESC LIMIT ? [9]", 8: "FROM outrider_audit WHERE id < ? ORDER BY id DESC LIMIT ? [8 9]"} {
		got, err := a.store(nil).ReadAudit(t.Context(), before, 9)
		if err != nil || len(got) != 1 || got[0].ID != 7 || got[0].At.UnixMicro() != 5 || got[0].Role != "role" || !a.has(want) {
			t.Errorf("before %d: %+v, %v, %q", before, got, err, a.sent)
		}
	}
	a.fails = "outrider_audit"
	if err := a.store(nil).WriteAudit(t.Context(), "me", "seek", 3); !errors.Is(err, errBroken) || err.Error() != "store: write an audit record: audit: broken" {
		t.Error(err)
	}
}

// What a command would change is counted by the same condition as it is changed.
func TestCountingWhatACommandChanges(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		c    adapters.ParkedCommand
		want string // of the condition; "": no statement is sent
	}{
		"redrive":           {adapters.ParkedCommand{Action: adapters.ParkedRedrive, Filter: adapters.ParkedFilter{Route: "r"}}, "route = ? AND status IN ('retrying', 'held', 'dead')"},
		"one status":        {adapters.ParkedCommand{Action: adapters.ParkedRedrive, Filter: adapters.ParkedFilter{Status: adapters.ParkedDead}}, "true AND status IN ('dead')"},
		"purge":             {adapters.ParkedCommand{Action: adapters.ParkedPurge, All: true}, "true AND status IN ('dead')"},
		"none of its kinds": {adapters.ParkedCommand{Action: adapters.ParkedPurge, Filter: adapters.ParkedFilter{Status: adapters.ParkedHeld}}, ""},
	} {
		a := &answers{rows: map[string][][]any{"GROUP BY route": {{"r", "dead", 4}}}}
		got, err := a.store(nil).CountParked(t.Context(), tt.c)
		if err != nil || (len(got) == 1) != (tt.want != "") || !a.has(tt.want) && tt.want != "" || tt.want == "" && a.sent != nil {
			t.Errorf("%s: %+v, %v, %q", name, got, err, a.sent)
		}
	}
	if _, err := (&answers{}).store(nil).CountParked(t.Context(), adapters.ParkedCommand{Action: adapters.ParkedSkip}); err == nil || !strings.Contains(err.Error(), "needs a condition") {
		t.Error(err)
	}
}

// A lane is loaded from its row whole, or with an error that says which part cannot be read.
func TestScanningALane(t *testing.T) {
	t.Parallel()
	for want, row := range map[string][]any{
		"":                 {"r", 4, true, int64(70), "1:2:", "w", int64(60), int64(5), "[71]", int64(9), int64(3), int64(2), "c", "n", "3:5:00000000000000ff:70:9:by id", int64(6)},
		"beyond is not":    {"r", 4, true, int64(70), "", "", int64(0), int64(0), "x", int64(9), int64(3), int64(2), "c", "n", "", int64(6)},
		"anchor":           {"r", 4, true, int64(70), "", "", int64(0), int64(0), "[]", int64(9), int64(3), int64(2), "c", "n", "?", int64(6)},
		"columns are read": {"r"},
	} {
		a := &answers{rows: map[string][][]any{"": {row}}}
		var l adapters.LaneState
		err := a.Each(t.Context(), a.store(nil).db.query("SELECT"), func(scan func(...any) error) (err error) {
			l, err = ScanLane(scan)
			return err
		})
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
		if c := l.Cursor; want == "" && (err != nil || !l.New || c.Window != "w" || c.Paged != 60 || c.Base != 5 || l.NextSeq != 9 || l.Epoch != 3 || l.Revision != 2 || l.Commands != 6 || l.Beyond[0] != 71 || c.Anchor.Sum != 255 || l.Table.Lanes != "by id") {
			t.Errorf("%+v, %v", l, err)
		}
	}
}
