package adapters

import (
	"testing"
	"time"
)

func TestAnchorText(t *testing.T) {
	t.Parallel()
	anchor := Anchor{Slot: 3, Born: -5, Sum: 1<<63 + 7, Newest: 12}
	for name, tt := range map[string]struct {
		cursor Cursor
		lanes  string
	}{
		"both":   {Cursor{Position: -42, Anchor: anchor}, `column "a:b" or column "id"`},
		"anchor": {Cursor{Position: 42, Anchor: anchor}, ""},
		"lanes":  {Cursor{Position: 42}, "its column slot"},
		"none":   {Cursor{Position: 42}, ""},
	} {
		text := AnchorText(tt.cursor, Table{Lanes: tt.lanes})
		got, table := Cursor{Position: tt.cursor.Position}, Table{}
		if err := ReadAnchorText(text, &got, &table); err != nil || got != tt.cursor || table.Lanes != tt.lanes {
			t.Errorf("%s: %q became %+v, %q, %v", name, text, got, table.Lanes, err)
		}
		if former, err := ParseAnchor(text); err != nil || former.IsZero() != tt.cursor.Anchor.IsZero() || former.Sum != tt.cursor.Anchor.Sum {
			t.Errorf("%s: a former version reads %+v of %q, %v", name, former, text, err)
		}
		// A version that knows no anchors has moved the cursor and left the text as it was.
		moved := Cursor{Position: tt.cursor.Position + 1}
		if err := ReadAnchorText(text, &moved, &table); err != nil || !moved.Anchor.IsZero() || table.Lanes != tt.lanes {
			t.Errorf("%s: after a move by a former version: %+v, %v", name, moved, err)
		}
	}
	var got Cursor
	if err := ReadAnchorText("3:-5:8000000000000007", &got, &Table{}); err != nil || got.Anchor != (Anchor{Slot: 3, Born: -5, Sum: 1<<63 + 7}) {
		t.Errorf("what a former version wrote is read as %+v, %v", got, err)
	}
}

// A row keeps its anchor when it is given an earlier date, as `outrider retention` says for rows that are dated ahead.
func TestAnchorOfARowThatIsDatedAnew(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(id string, created time.Time) Anchor { return (&Row{ID: id, CreatedAt: created}).Anchor() }
	was := at("a", now)
	for name, tt := range map[string]struct {
		there Anchor
		want  bool
	}{
		"the same":            {at("a", now), true},
		"earlier":             {at("a", now.Add(-time.Hour)), true},
		"later":               {at("a", now.Add(time.Hour)), false},
		"another one":         {at("b", now), false},
		"another one, before": {at("b", now.Add(-time.Hour)), false},
	} {
		if tt.there.Matches(was) != tt.want {
			t.Errorf("%s: got %v", name, !tt.want)
		}
	}
}
