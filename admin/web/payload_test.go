package web

import (
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// JSON is shown with a line for each value, unless it is nested so deep that nearly all of the page would be spaces.
func TestG7_APageIsNotMadeOfSpaces(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 9_999) + "1" + strings.Repeat("]", 9_999)
	wide := `{"a": [` + strings.Repeat("1, ", 100_000) + `1]}`
	for payload, lines := range map[string]bool{deep: false, `{"a": [1, "]]"]}`: true, wide: true} {
		for _, shown := range []bool{true, false} {
			m := operate.ParkedMessage{Parked: adapters.Parked{Payload: []byte(payload), Size: int64(len(payload))}}
			text := describe(&m, shown).Text
			if int64(len(text)) > 3*operate.GlanceBytes || strings.Contains(text, "\n") != lines || text == "" {
				t.Errorf("%.20s..., %d bytes: %d bytes are shown, in lines: %v", payload, len(payload), len(text), strings.Contains(text, "\n"))
			}
		}
	}
}
