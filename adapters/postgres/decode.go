package postgres

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// Columns of the fetch's result. The two before the position are the fetch's
// own; the others are fetchColumns.
const (
	fetchRead = iota
	fetchLate
	fetchPosition
	fetchID
	fetchType
	fetchGroup
	fetchAggregateType
	fetchAggregateID
	fetchTenant
	fetchTags
	fetchHeaders
	fetchPayload
	fetchPayloadBytes
	fetchOccurredAt
	fetchCreatedAt
	fetchStored // bytes that are stored of a payload that was left out; see limits
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

// row decodes what does not depend on the read. What cannot be decoded is told
// in the row's Err.
func (d *decoder) row(v [][]byte) *outbox.Row {
	row := d.rows.next(size(v))
	row.ID = d.texts.copy(v[fetchID])
	row.Type = d.intern(v[fetchType])
	row.Group = d.texts.copy(v[fetchGroup])
	row.AggregateType = d.intern(v[fetchAggregateType])
	row.AggregateID = d.texts.copy(v[fetchAggregateID])
	row.Tenant = d.intern(v[fetchTenant])

	if payload := v[fetchPayload]; payload != nil {
		row.Payload = d.payloads.copy(payload)
	} else if payload := v[fetchPayloadBytes]; payload != nil {
		row.Payload, row.Binary = d.payloads.copy(payload), true
	} else if stored := v[fetchStored]; stored != nil {
		d.fail(row, "payload", d.tooLarge(stored, v[fetchPosition]))
	} else {
		d.fail(row, "payload", errors.New("both payload and payload_bytes are null"))
	}
	var err error
	if row.Tags, err = stringMap(v[fetchTags]); err != nil {
		d.fail(row, "tags", err)
	}
	if row.Headers, err = stringMap(v[fetchHeaders]); err != nil {
		d.fail(row, "headers", err)
	}
	if row.OccurredAt, err = timeFromBinary(v[fetchOccurredAt]); err != nil {
		d.fail(row, "occurred_at", err)
	}
	if row.CreatedAt, err = timeFromBinary(v[fetchCreatedAt]); err != nil {
		d.fail(row, "created_at", err)
	}
	d.limit(row, row.Limit())
	return row
}

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

// postgresEpoch is PostgreSQL's zero of time, 2000-01-01, as Unix microseconds.
const postgresEpoch = 946_684_800_000_000

// timeFromBinary decodes a timestamptz; null is the zero time.
func timeFromBinary(v []byte) (time.Time, error) {
	if v == nil {
		return time.Time{}, nil
	}
	micros := int64FromBinary(v)
	if micros == math.MaxInt64 || micros == math.MinInt64 {
		return time.Time{}, errors.New("infinity is no time that a message can carry")
	}
	return time.UnixMicro(micros + postgresEpoch).UTC(), nil
}

func int32FromBinary(v []byte) int32 { return int32(binary.BigEndian.Uint32(v)) }

func int64FromBinary(v []byte) int64 { return int64(binary.BigEndian.Uint64(v)) }
