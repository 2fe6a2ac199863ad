package postgres

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/outbox"
)

// decoder turns rows from PostgreSQL's binary form into outbox rows. Its
// values are only valid until the next row, so everything kept is copied.
type decoder struct {
	table    string
	maxRow   int64 // for errors: what was larger was left out by the statement
	texts    textArena
	payloads byteArena
	rows     rowSlab
	interned map[string]string
}

// shownID is how much of an id an error of its row says.
const shownID = 128

// tooLarge is the error of a row of a log whose payload was left out.
func (d *decoder) tooLarge(stored, position []byte) error {
	return outbox.PayloadTooLarge(int64FromBinary(stored), d.maxRow,
		fmt.Sprintf("seek the route to position %d", int64FromBinary(position)-1))
}

// limit notes which names of the row were too long.
func (d *decoder) limit(row *outbox.Row, err error) {
	if err != nil {
		row.Err = errors.Join(row.Err, fmt.Errorf("outbox table %s: row %s: %w", d.table, outbox.CutTo(row.ID, shownID), err))
	}
}

// fail notes what is wrong with a column of the row, besides what already is.
func (d *decoder) fail(row *outbox.Row, column string, err error) {
	err = fmt.Errorf("outbox table %s: row %s: column %s: %w", d.table, outbox.CutTo(row.ID, shownID), column, err)
	row.Err = errors.Join(row.Err, err)
}

// intern returns text that comes again and again as one string. Once there are
// too many of them it copies.
func (d *decoder) intern(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if s, ok := d.interned[string(text)]; ok {
		return s
	}
	if len(d.interned) >= internLimit || len(text) > 256 {
		return d.texts.copy(text)
	}
	if d.interned == nil {
		d.interned = make(map[string]string)
	}
	s := string(text)
	d.interned[s] = s
	return s
}

// stringMap decodes a JSON object of strings; null is none.
func stringMap(text []byte) (map[string]string, error) {
	if text == nil || string(text) == "{}" {
		return nil, nil
	}
	if err := checkPairs(text); err != nil {
		return nil, err
	}
	var raw map[string]*string
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("not a JSON object of strings: %w", err)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	decoded := make(map[string]string, len(raw))
	for k, v := range raw {
		if v == nil {
			return nil, fmt.Errorf("not a JSON object of strings: %q is null", k)
		}
		decoded[k] = *v
	}
	return decoded, nil
}

// checkPairs reports tags or headers that are too many, or too long.
func checkPairs(text []byte) error {
	if string(text) == tooLong {
		return fmt.Errorf("%w: it has more than %d bytes", outbox.ErrTooLarge, outbox.MaxRowMetadataBytes)
	}
	return outbox.CheckPairs(text)
}
