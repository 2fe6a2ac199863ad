package queuetable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
	"github.com/outriderhq/outrider/outbox/format"
)

// decode decodes a row of a look. Its Err says what cannot be decoded.
func (t *queueTable) decode(d *wire.Decoder, g *queueGroup, v [][]byte) *adapters.Row {
	row := d.Rows.Next(wire.Size(v))
	d.Table = t.name

	row.ID = d.Texts.Copy(v[lookID])
	row.Kind, row.Type = t.kind, d.Intern(v[lookType])
	if t.sql.layout.KindInType {
		row.Kind = row.Type
	}
	row.Group, row.Slot = g.key, g.slot
	if !g.ordered() {
		row.Slot = adapters.SlotOf("", row.ID)
	}
	row.AggregateType = d.Intern(v[lookAggregateType])
	row.AggregateID = d.Texts.Copy(v[lookAggregateID])
	row.Tenant = d.Intern(v[lookTenant])

	columns := &t.sql.layout.Columns
	var err error
	if row.Headers, err = wire.StringMap(v[lookHeaders]); err != nil {
		d.Fail(row, columns.Headers, err)
	}
	for i, h := range t.sql.layout.Headers {
		if value := v[lookExtra+i]; value != nil {
			if row.Headers == nil {
				row.Headers = make(map[string]string, len(t.sql.layout.Headers))
			}
			row.Headers[h.Name] = d.Texts.Copy(value)
		}
	}
	if row.CreatedAt, err = wire.TimeFromBinary(v[lookCreated]); err != nil {
		d.Fail(row, columns.Created, err)
	}
	if err = row.TakeOccurred(t.sql.layout.CreatedIsOccurred); err != nil {
		d.Fail(row, columns.Headers, err)
	}
	row.Position = row.CreatedAt.UnixMicro()
	if stored := v[lookStored]; v[lookPayload] == nil && stored != nil {
		d.Fail(row, columns.Payload, adapters.PayloadTooLarge(wire.Int64FromBinary(stored), d.MaxRow, "make the row wait again: set its status back"))
	} else {
		t.decodePayload(d, row, v[lookPayload])
	}
	d.Limit(row, row.LimitAttributes())
	if max(len(row.ID), len(row.Group)) > adapters.MaxRowNameBytes { // the row is claimed and settled by them as they are
		names := adapters.Row{ID: row.ID, Group: row.Group}
		d.Limit(row, names.Limit())
	}
	return row
}

// decodePayload decodes the payload and takes the type out of it.
func (t *queueTable) decodePayload(d *wire.Decoder, row *adapters.Row, payload []byte) {
	column := t.sql.layout.Columns.Payload
	if payload == nil {
		d.Fail(row, column, errors.New("is null"))
		return
	}
	row.Payload = d.Payloads.Copy(payload)
	if t.sql.types.payload == "bytea" {
		row.Binary = !t.sql.layout.JSONBytes || !format.ValidJSON(row.Payload)
		return
	}
	if err := queue.JSON(row, t.sql.layout); err != nil {
		d.Fail(row, column, err)
		return
	}
	if t.sql.layout.TypeInPayload {
		row.Type = d.Intern([]byte(row.Type)) // which keeps no payload alive
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
	t := wire.Time(micros)
	if year := t.Year(); year <= 0 { // there is no year 0: before 1 comes 1 BC
		return fmt.Sprintf("%04d-%sZ BC", 1-year, t.Format("01-02 15:04:05.000000"))
	}
	return t.Format("2006-01-02 15:04:05.000000Z")
}

func float64FromBinary(v []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(v)) }

// textOrNull copies a text.
func textOrNull(v []byte) *string {
	if v == nil {
		return nil
	}
	s := string(v)
	return &s
}

// Bytes that elements of arrays take with what is around them, going by those of
// FlowCatalyst.
const (
	keyBytes    = 16
	tidBytes    = 14
	numberBytes = 4
)
