// Package sqlvalue reads values of columns by database/sql: bytes, and JSON objects of strings.
package sqlvalue

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
)

// Bytes is a value of bytes or text; nil: NULL. SQLite's driver yields an empty one as a
// nil slice, which database/sql would hand on to a plain []byte.
type Bytes []byte

// Scan implements sql.Scanner.
func (b *Bytes) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*b = nil
	case []byte:
		*b = append(make(Bytes, 0, len(v)), v...)
	case string:
		*b = append(make(Bytes, 0, len(v)), v...)
	default:
		var text sql.NullString
		if err := text.Scan(v); err != nil {
			return err
		}
		*b = Bytes(text.String)
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
