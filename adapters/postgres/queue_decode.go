package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// queued decodes a row of a look. What cannot be decoded is told in its Err.
func (d *decoder) queued(t *queueTable, g *queueGroup, v [][]byte) *outbox.Row {
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
		d.queuedPayload(row, t, v[lookPayload])
	}
	d.limit(row, row.LimitAttributes())
	return row
}

// queuedPayload decodes the payload and takes the type out of it.
func (d *decoder) queuedPayload(row *outbox.Row, t *queueTable, payload []byte) {
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

// tid is the place of a version of a row in its table.
type tid struct {
	block  uint32
	offset uint16
}

func tidFromBinary(v []byte) tid {
	return tid{block: binary.BigEndian.Uint32(v), offset: binary.BigEndian.Uint16(v[4:])}
}

// arrayText builds the text of a one-dimensional array.
type arrayText struct{ b []byte }

// Bytes that elements take with what is around them, going by those of FlowCatalyst.
const (
	keyBytes    = 16
	tidBytes    = 14
	numberBytes = 4
)

// newArrayText returns an array with room for elements of some size.
func newArrayText(elements, each int) arrayText {
	return arrayText{make([]byte, 0, 2+elements*each)}
}

func (a *arrayText) sep() {
	if len(a.b) == 0 {
		a.b = append(a.b, '{')
	} else {
		a.b = append(a.b, ',')
	}
}

// text appends an element of any content.
func (a *arrayText) text(s string) {
	a.sep()
	a.b = append(a.b, '"')
	for {
		i := strings.IndexAny(s, `"\`)
		if i < 0 {
			break
		}
		a.b = append(append(a.b, s[:i]...), '\\', s[i])
		s = s[i+1:]
	}
	a.b = append(append(a.b, s...), '"')
}

// tid appends a place.
func (a *arrayText) tid(t tid) {
	a.sep()
	a.b = strconv.AppendUint(append(a.b, `"(`...), uint64(t.block), 10)
	a.b = strconv.AppendUint(append(a.b, ','), uint64(t.offset), 10)
	a.b = append(a.b, `)"`...)
}

// number appends a number.
func (a *arrayText) number(n int) {
	a.sep()
	a.b = strconv.AppendInt(a.b, int64(n), 10)
}

// truth appends a truth value.
func (a *arrayText) truth(b bool) {
	a.sep()
	a.b = strconv.AppendBool(a.b, b)
}

func (a *arrayText) null() {
	a.sep()
	a.b = append(a.b, "NULL"...)
}

// String returns the array.
func (a *arrayText) String() string {
	if len(a.b) == 0 {
		return "{}"
	}
	return string(a.b) + "}"
}
