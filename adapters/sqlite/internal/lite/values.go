package lite

import (
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/outriderhq/outrider/adapters"
)

// Bounded is a column for a name or a time as a read selects it.
func Bounded(column string) string {
	return fmt.Sprintf("CASE WHEN octet_length(%[1]s) > %[2]d THEN substr(%[1]s, 1, %[2]d + 1) ELSE %[1]s END", column, adapters.MaxRowNameBytes)
}

// timeLayouts are the forms in which drivers write a time in a text column; a text
// without a zone is UTC, as SQLite's own functions have it.
var timeLayouts = []string{
	time.RFC3339Nano,
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02 15:04:05.999999999 -0700 MST", // Go's time.Time.String
}

// Instant decodes a column that holds a time.
func Instant(column string, text sql.NullString) (time.Time, error) {
	if text.String == "" {
		return time.Time{}, nil
	}
	value, _, _ := strings.Cut(text.String, " m=") // Go's monotonic clock
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, value); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is %q, not a time as RFC 3339 writes it", column, shorten.Text(text.String))
}
