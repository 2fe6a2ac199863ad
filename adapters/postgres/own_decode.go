package postgres

import (
	"errors"

	"github.com/outriderhq/outrider/outbox"
)

// decodeRow decodes what does not depend on the read. The row's Err says what cannot
// be decoded.
func decodeRow(d *decoder, v [][]byte) *outbox.Row {
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
