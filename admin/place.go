package admin

import (
	"fmt"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// ParsePlace reads a place in a table: beginning, end, a time, a span before now, a
// position.
func ParsePlace(text string, now time.Time) (Place, error) {
	at := func(t time.Time) (Place, error) {
		return Place{Start: adapters.Start{Kind: adapters.StartTime, Time: t}}, nil
	}
	switch text {
	case string(adapters.StartBeginning), string(adapters.StartEnd), string(adapters.StartOffsets):
		return Place{Start: adapters.Start{Kind: adapters.StartKind(text)}}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		return Place{Position: n}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return at(t)
		}
	}
	if parsed, err := config.ParseDuration(text); err == nil && parsed > 0 {
		return at(now.Add(-parsed.Std()))
	}
	return Place{}, fmt.Errorf("%q is none of beginning, end, offsets (of watermill-sql), a time such as 2026-01-31T08:00:00Z, a span such as 90m, a position", text)
}
