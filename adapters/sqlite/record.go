package sqlite

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox/format"
)

// record is an outbox row as the database returned it. SQLite's columns take
// values of any type, so that everything is read as text or bytes.
type record struct {
	mapped                                       bool // the payload has one column for all that there is
	position                                     int64
	id, kind, group, aggregateType, aggregateID  sql.NullString
	tenant, tags, headers, occurredAt, createdAt sql.NullString
	payload, payloadBytes                        blob
	stored                                       int64 // bytes of a payload that was left out; 0: none was
	maxRow                                       int64 // bytes of payload that are read
}

// blob is a value of bytes or text; nil: NULL. The driver yields an empty one as a
// nil slice, which database/sql would hand on to a plain []byte.
type blob []byte

// Scan implements sql.Scanner.
func (b *blob) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*b = nil
	case []byte:
		*b = append(make(blob, 0, len(v)), v...)
	case string:
		*b = append(make(blob, 0, len(v)), v...)
	default:
		var text sql.NullString
		if err := text.Scan(v); err != nil {
			return err
		}
		*b = blob(text.String)
	}
	return nil
}

// scan reads the current row; its columns are those of [selected].
func (r *record) scan(rows *sql.Rows) error {
	r.payload, r.payloadBytes = nil, nil
	return rows.Scan(&r.position, &r.id, &r.kind, &r.group, &r.aggregateType, &r.aggregateID, &r.tenant,
		&r.tags, &r.headers, &r.payload, &r.payloadBytes, &r.occurredAt, &r.createdAt, &r.stored)
}

func (r *record) slot() int { return adapters.SlotOf(r.group.String, r.id.String) }

// decode makes the row. Errors of decoding are in its Err; the rest of
// the row is there all the same.
func (r *record) decode(slot int) *adapters.Row {
	row := &adapters.Row{
		ID: r.id.String, Type: r.kind.String, Group: r.group.String,
		AggregateType: r.aggregateType.String, AggregateID: r.aggregateID.String, Tenant: r.tenant.String,
		Slot: slot, Position: r.position,
	}
	var errs [6]error
	row.Payload, row.Binary, errs[0] = r.content()
	row.Tags, errs[1] = object("tags", r.tags)
	row.Headers, errs[2] = object("headers", r.headers)
	row.OccurredAt, errs[3] = instant("occurred_at", r.occurredAt)
	row.CreatedAt, errs[4] = instant("created_at", r.createdAt)
	errs[5] = row.Limit()
	if err := errors.Join(errs[:]...); err != nil {
		row.Err = fmt.Errorf("outbox row %d (id %q) cannot be decoded: %w", r.position, shorten.To(row.ID, 128), err)
	}
	return row
}

// content returns the payload as it is stored.
func (r *record) content() (payload []byte, binary bool, err error) {
	switch {
	case r.stored > 0:
		return nil, false, fmt.Errorf("payload: %w", adapters.PayloadTooLarge(r.stored, r.maxRow,
			fmt.Sprintf("seek the route to position %d", r.position-1)))
	case r.mapped && r.payload != nil:
		return r.payload, !format.ValidJSON(r.payload), nil
	case r.mapped:
		return nil, false, errors.New("its payload is NULL")
	case r.payload != nil && r.payloadBytes != nil:
		return r.payload, false, errors.New("payload and payload_bytes are both set, one must be NULL")
	case r.payloadBytes != nil:
		return r.payloadBytes, true, nil
	case r.payload == nil:
		return nil, false, errors.New("payload and payload_bytes are both NULL, one must be set")
	case !format.ValidJSON(r.payload):
		return r.payload, false, errors.New("payload is not valid JSON; what is not JSON belongs into payload_bytes")
	}
	return r.payload, false, nil
}

// object decodes a column that holds a JSON object of strings.
func object(column string, text sql.NullString) (map[string]string, error) {
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

// instant decodes a column that holds a time.
func instant(column string, text sql.NullString) (time.Time, error) {
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
