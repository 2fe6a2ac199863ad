package lite

import (
	"database/sql"
	"encoding/json"
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

// Blob is a value of bytes or text; nil: NULL. The driver yields an empty one as a
// nil slice, which database/sql would hand on to a plain []byte.
type Blob []byte

// Scan implements sql.Scanner.
func (b *Blob) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*b = nil
	case []byte:
		*b = append(make(Blob, 0, len(v)), v...)
	case string:
		*b = append(make(Blob, 0, len(v)), v...)
	default:
		var text sql.NullString
		if err := text.Scan(v); err != nil {
			return err
		}
		*b = Blob(text.String)
	}
	return nil
}

// Object decodes a column that holds a JSON object of strings.
func Object(column string, text sql.NullString) (map[string]string, error) {
	if text.String == "" {
		return nil, nil
	}
	if err := adapters.CheckPairs([]byte(text.String)); err != nil {
		return nil, fmt.Errorf("%s: %w", column, err)
	}
	var m map[string]string
	if err := json.Unmarshal([]byte(text.String), &m); err != nil {
		return nil, fmt.Errorf("%s: %w", column, adapters.NotStrings(err))
	}
	return m, nil
}

// timeLayouts are what drivers write for a time in a text column; a text
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
