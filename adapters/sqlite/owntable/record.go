package owntable

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqlvalue"
	"github.com/outriderhq/outrider/outbox/format"
)

// record is an outbox row as the database returned it. SQLite's columns take
// values of any type, so that everything is read as text or bytes.
type record struct {
	mapped                                       bool // the payload has one column for all that there is
	position                                     int64
	id, kind, group, aggregateType, aggregateID  sql.NullString
	tenant, tags, headers, occurredAt, createdAt sql.NullString
	payload, payloadBytes                        sqlvalue.Bytes
	stored                                       int64 // bytes of a payload that was left out; 0: none was
	maxRow                                       int64 // bytes of payload that are read

	created    time.Time // of createdAt
	createdErr error
	newest     int64 // becomes [adapters.Row].Newest
}

// scan reads the current row; its columns are those of [selected].
func (r *record) scan(rows *sql.Rows) error {
	r.payload, r.payloadBytes = nil, nil
	err := rows.Scan(&r.position, &r.id, &r.kind, &r.group, &r.aggregateType, &r.aggregateID, &r.tenant,
		&r.tags, &r.headers, &r.payload, &r.payloadBytes, &r.occurredAt, &r.createdAt, &r.stored)
	if r.created, r.createdErr = lite.Instant("created_at", r.createdAt); !r.created.IsZero() {
		r.newest = max(r.newest, r.created.UnixMicro())
	}
	return err
}

func (r *record) slot() int { return adapters.SlotOf(r.group.String, r.id.String) }

// decode makes the row. Errors of decoding are in its Err; the rest of
// the row is there all the same.
func (r *record) decode(slot int) *adapters.Row {
	row := &adapters.Row{
		ID: r.id.String, Type: r.kind.String, Group: r.group.String,
		AggregateType: r.aggregateType.String, AggregateID: r.aggregateID.String, Tenant: r.tenant.String,
		Slot: slot, Position: r.position, CreatedAt: r.created, Newest: r.newest,
	}
	errs := [6]error{4: r.createdErr}
	row.Payload, row.Binary, errs[0] = r.content()
	row.Tags, errs[1] = sqlvalue.Object("tags", r.tags)
	row.Headers, errs[2] = sqlvalue.Object("headers", r.headers)
	row.OccurredAt, errs[3] = lite.Instant("occurred_at", r.occurredAt)
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
