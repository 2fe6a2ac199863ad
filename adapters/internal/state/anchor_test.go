package state

import (
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

func TestAnchorText(t *testing.T) {
	t.Parallel()
	anchor := adapters.Anchor{Slot: 3, Born: -5, Sum: 1<<63 + 7, Newest: 12}
	for name, tt := range map[string]struct {
		cursor adapters.Cursor
		lanes  string
	}{
		"both":   {adapters.Cursor{Position: -42, Anchor: anchor}, `column "a:b" or column "id"`},
		"anchor": {adapters.Cursor{Position: 42, Anchor: anchor}, ""},
		"lanes":  {adapters.Cursor{Position: 42}, "its column slot"},
		"none":   {adapters.Cursor{Position: 42}, ""},
	} {
		text := AnchorText(tt.cursor, adapters.Table{Lanes: tt.lanes})
		got, table := adapters.Cursor{Position: tt.cursor.Position}, adapters.Table{}
		if err := ReadAnchorText(text, &got, &table); err != nil || got != tt.cursor || table.Lanes != tt.lanes {
			t.Errorf("%s: %q became %+v, %q, %v", name, text, got, table.Lanes, err)
		}
		if former, err := parseAnchor(text); err != nil || former.IsZero() != tt.cursor.Anchor.IsZero() || former.Sum != tt.cursor.Anchor.Sum {
			t.Errorf("%s: a former version reads %+v of %q, %v", name, former, text, err)
		}
		// A version that knows no anchors has moved the cursor and left the text as it was.
		moved := adapters.Cursor{Position: tt.cursor.Position + 1}
		if err := ReadAnchorText(text, &moved, &table); err != nil || !moved.Anchor.IsZero() || table.Lanes != tt.lanes {
			t.Errorf("%s: after a move by a former version: %+v, %v", name, moved, err)
		}
	}
	var got adapters.Cursor
	if err := ReadAnchorText("3:-5:8000000000000007", &got, &adapters.Table{}); err != nil || got.Anchor != (adapters.Anchor{Slot: 3, Born: -5, Sum: 1<<63 + 7}) {
		t.Errorf("what a former version wrote is read as %+v, %v", got, err)
	}
}
