package adapters_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
)

// The slots of these groups are kept in cursors on disk: they may never change.
func TestSlotOfIsFixedForever(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		group, id string
		want      int
	}{
		// The published test vectors of FNV-1a, 32 bits, modulo 16.
		{"", "", 0x811c9dc5 & 15}, {"a", "ignored", 0xe40c292c & 15}, {"foobar", "", 0xbf9cf968 & 15},
		// Without a group the id decides.
		{"", "a", 0xe40c292c & 15}, {"", "foobar", 0xbf9cf968 & 15},
	} {
		if got := adapters.SlotOf(tt.group, tt.id); got != tt.want {
			t.Errorf("SlotOf(%q, %q) = %d, want %d", tt.group, tt.id, got, tt.want)
		}
	}
}

func TestSlotOfStaysInRange(t *testing.T) {
	t.Parallel()
	used := make(map[int]bool)
	rapid.Check(t, func(t *rapid.T) {
		slot := adapters.SlotOf(rapid.String().Draw(t, "group"), rapid.String().Draw(t, "id"))
		if slot < 0 || slot >= adapters.Slots {
			t.Fatalf("slot %d", slot)
		}
		used[slot] = true
	})
	if len(used) < adapters.Slots/2 {
		t.Errorf("only slots %v are used", used)
	}
}

func TestAfterAFreshRowTheCursorTakesTheReadsSnapshot(t *testing.T) {
	t.Parallel()
	page := &adapters.Page{
		From:     adapters.Cursor{Position: 10, Snapshot: "S", Window: "W", Paged: 4, Base: 2},
		Snapshot: "S'",
	}
	row := &adapters.Row{Position: 12, Page: page}
	if got, want := row.After(), (adapters.Cursor{Position: 12, Snapshot: "S'", Base: 2, Anchor: row.Anchor()}); got != want {
		t.Errorf("got %+v, want %+v: the window closed, the base kept", got, want)
	}
}

func TestAfterALateRowTheCursorStaysAndPagesTheWindow(t *testing.T) {
	t.Parallel()
	from := adapters.Cursor{Position: 10, Snapshot: "S", Window: "W", Paged: 4, Base: 2}
	row := &adapters.Row{Position: 7, Late: true, Page: &adapters.Page{From: from, Snapshot: "S'"}}
	if got, want := row.After(), (adapters.Cursor{Position: 10, Snapshot: "S", Window: "S'", Paged: 7, Base: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if from.Paged != 4 {
		t.Error("the page that all rows share was changed")
	}
}

func TestCursorIsZeroOnlyWhenNeverSet(t *testing.T) {
	t.Parallel()
	if !(adapters.Cursor{}).IsZero() {
		t.Error("a new cursor is not zero")
	}
	for _, c := range []adapters.Cursor{{Position: 1}, {Snapshot: "S"}, {Window: "W"}, {Paged: 1}, {Base: 1}} {
		if c.IsZero() {
			t.Errorf("%+v is zero", c)
		}
	}
}

func TestSizeCountsEverythingThatARowHolds(t *testing.T) {
	t.Parallel()
	empty := (&adapters.Row{}).Size()
	const text = "0123456789"
	for name, row := range map[string]*adapters.Row{
		"id": {ID: text}, "type": {Type: text}, "group": {Group: text}, "aggregate type": {AggregateType: text},
		"aggregate id": {AggregateID: text}, "tenant": {Tenant: text}, "payload": {Payload: []byte(text)},
		"header": {Headers: map[string]string{"01234": "56789"}}, "tag": {Tags: map[string]string{"01234": "56789"}},
	} {
		if got := row.Size() - empty; got < len(text) {
			t.Errorf("%s: %d bytes, want at least %d", name, got, len(text))
		}
	}
}
