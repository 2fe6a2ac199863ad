package wire

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/outriderhq/outrider/adapters"
)

// Decoder turns rows from PostgreSQL's binary form into outbox rows. Its
// values are only valid until the next row, so everything kept is copied.
type Decoder struct {
	Table    string
	MaxRow   int64 // for errors: what was larger was left out by the statement
	Texts    textArena
	Payloads byteArena
	Rows     rowSlab
	interned map[string]string
	Newest   int64 // becomes [adapters.Row].Newest
}

// Created decodes when the row was created.
func (d *Decoder) Created(row *adapters.Row, column string, raw []byte) {
	var err error
	if row.CreatedAt, err = TimeFromBinary(raw); err != nil {
		d.Fail(row, column, err)
	} else if at := row.CreatedAt.UnixMicro(); row.CreatedAt.IsZero() || at < d.Newest {
		row.Newest = d.Newest
	} else {
		d.Newest = at
	}
}

// Saw completes the anchors at which reads end by what was newest, whichever read it was for: streams
// at one place have one cursor. A bounded read ends at its bound as it is.
func (d *Decoder) Saw(reads []adapters.Read, results []adapters.ReadResult) {
	for i := range results {
		if reads[i].Until == nil {
			results[i].Next.Anchor = results[i].Next.Anchor.Seen(d.Newest)
		}
	}
}

// shownID is how much of an id an error of its row says.
const shownID = 128

// TooLarge is the error of a row of a log whose payload was left out.
func (d *Decoder) TooLarge(stored, position []byte) error {
	return adapters.PayloadTooLarge(Int64FromBinary(stored), d.MaxRow,
		fmt.Sprintf("seek the route to position %d", Int64FromBinary(position)-1))
}

// Limit notes which names of the row were too long.
func (d *Decoder) Limit(row *adapters.Row, err error) {
	if err != nil {
		row.Err = errors.Join(row.Err, fmt.Errorf("outbox table %s: row %s: %w", d.Table, shorten.To(row.ID, shownID), err))
	}
}

// Fail notes what is wrong with a column of the row, besides what already is.
func (d *Decoder) Fail(row *adapters.Row, column string, err error) {
	err = fmt.Errorf("outbox table %s: row %s: column %s: %w", d.Table, shorten.To(row.ID, shownID), column, err)
	row.Err = errors.Join(row.Err, err)
}

// Intern returns text that comes again and again as one string. Once there are
// too many of them it copies.
func (d *Decoder) Intern(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if s, ok := d.interned[string(text)]; ok {
		return s
	}
	if len(d.interned) >= internLimit || len(text) > 256 {
		return d.Texts.Copy(text)
	}
	if d.interned == nil {
		d.interned = make(map[string]string)
	}
	s := string(text)
	d.interned[s] = s
	return s
}

// StringMap decodes a JSON object of strings; null is none.
func StringMap(text []byte) (map[string]string, error) {
	if text == nil || string(text) == "{}" {
		return nil, nil
	}
	if err := CheckPairs(text); err != nil {
		return nil, err
	}
	var raw map[string]*string
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, adapters.NotStrings(err)
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

// CheckPairs reports tags or headers that are too many, or too long.
func CheckPairs(text []byte) error {
	if string(text) == TooLong {
		return fmt.Errorf("%w: it has more than %d bytes", adapters.ErrTooLarge, adapters.MaxRowMetadataBytes)
	}
	return adapters.CheckPairs(text)
}
