package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tidwall/gjson"

	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// decode decodes a row of a look. Its Err says what cannot be decoded.
func (t *queueTable) decode(d *decoder, g *queueGroup, v [][]byte) *outbox.Row {
	row := d.rows.next(size(v))
	d.table = t.name

	row.ID = d.texts.copy(v[lookID])
	row.Kind = t.kind
	row.Type = d.intern(v[lookType])
	row.Group, row.Slot = g.key, g.slot
	if !g.ordered() {
		row.Slot = outbox.SlotOf("", row.ID)
	}
	row.AggregateType = d.intern(v[lookAggregateType])
	row.AggregateID = d.texts.copy(v[lookAggregateID])
	row.Tenant = d.intern(v[lookTenant])

	columns := &t.sql.layout.Columns
	var err error
	if row.Headers, err = stringMap(v[lookHeaders]); err != nil {
		d.fail(row, columns.Headers, err)
	}
	if row.CreatedAt, err = timeFromBinary(v[lookCreated]); err != nil {
		d.fail(row, columns.Created, err)
	}
	row.Position = int64FromBinary(v[lookCreated])
	if stored := v[lookStored]; v[lookPayload] == nil && stored != nil {
		d.fail(row, columns.Payload, outbox.PayloadTooLarge(int64FromBinary(stored), d.maxRow, "make the row wait again: set its status back"))
	} else {
		t.decodePayload(d, row, v[lookPayload])
	}
	d.limit(row, row.LimitAttributes())
	return row
}

// decodePayload decodes the payload and takes the type out of it.
func (t *queueTable) decodePayload(d *decoder, row *outbox.Row, payload []byte) {
	column := t.sql.layout.Columns.Payload
	if payload == nil {
		d.fail(row, column, errors.New("is null"))
		return
	}
	row.Payload = d.payloads.copy(payload)
	if t.sql.types.payload == "bytea" {
		row.Binary = true
		return
	}
	if !format.ValidJSON(row.Payload) {
		d.fail(row, column, fmt.Errorf("is not valid JSON, or nested more than %d deep", format.MaxDepth))
		return
	}
	if !t.sql.layout.TypeInPayload {
		return
	}
	if typ := gjson.GetBytes(row.Payload, "type"); typ.Type == gjson.String && typ.Str != "" {
		row.Type = d.intern([]byte(typ.Str))
	}
}

// timeText writes a time, as PostgreSQL counts, as text for timestamps with
// and without time zone.
func timeText(micros int64) string {
	switch micros {
	case math.MinInt64:
		return "-infinity"
	case math.MaxInt64:
		return "infinity"
	}
	t := time.UnixMicro(micros + postgresEpoch).UTC()
	if year := t.Year(); year <= 0 { // there is no year 0: before 1 comes 1 BC
		return fmt.Sprintf("%04d-%sZ BC", 1-year, t.Format("01-02 15:04:05.000000"))
	}
	return t.Format("2006-01-02 15:04:05.000000Z")
}

func float64FromBinary(v []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(v)) }

// Bytes that elements of arrays take with what is around them, going by those of
// FlowCatalyst.
const (
	keyBytes    = 16
	tidBytes    = 14
	numberBytes = 4
)
