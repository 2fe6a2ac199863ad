package adapters

import (
	"testing"
	"time"
)

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
