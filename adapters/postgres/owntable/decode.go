package owntable

import (
	"errors"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// decodeRow decodes what does not depend on the read. The row's Err says what cannot
// be decoded.
func decodeRow(d *wire.Decoder, v [][]byte) *adapters.Row {
	row := d.Rows.Next(wire.Size(v))
	row.ID = d.Texts.Copy(v[reader.FetchID])
	row.Type = d.Intern(v[reader.FetchType])
	row.Group = d.Texts.Copy(v[reader.FetchGroup])
	row.AggregateType = d.Intern(v[reader.FetchAggregateType])
	row.AggregateID = d.Texts.Copy(v[reader.FetchAggregateID])
	row.Tenant = d.Intern(v[reader.FetchTenant])

	if payload := v[reader.FetchPayload]; payload != nil {
		row.Payload = d.Payloads.Copy(payload)
	} else if payload := v[reader.FetchPayloadBytes]; payload != nil {
		row.Payload, row.Binary = d.Payloads.Copy(payload), true
	} else if stored := v[reader.FetchStored]; stored != nil {
		d.Fail(row, "payload", d.TooLarge(stored, v[reader.FetchPosition]))
	} else {
		d.Fail(row, "payload", errors.New("both payload and payload_bytes are null"))
	}
	var err error
	if row.Tags, err = wire.StringMap(v[reader.FetchTags]); err != nil {
		d.Fail(row, "tags", err)
	}
	if row.Headers, err = wire.StringMap(v[reader.FetchHeaders]); err != nil {
		d.Fail(row, "headers", err)
	}
	if row.OccurredAt, err = wire.TimeFromBinary(v[reader.FetchOccurredAt]); err != nil {
		d.Fail(row, "occurred_at", err)
	}
	d.Created(row, "created_at", v[reader.FetchCreatedAt])
	d.Limit(row, row.Limit())
	return row
}
