package postgres

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

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

// tid is the place of a version of a row in its table.
type tid struct {
	block  uint32
	offset uint16
}

func tidFromBinary(v []byte) tid {
	return tid{block: binary.BigEndian.Uint32(v), offset: binary.BigEndian.Uint16(v[4:])}
}

// arrayText builds the text of a one-dimensional array. The zero value is an
// empty array.
type arrayText struct{ b []byte }

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

// textOrNull appends a text, or NULL for an empty one.
func (a *arrayText) textOrNull(s string) {
	if s == "" {
		a.null()
		return
	}
	a.text(s)
}

// number appends a number.
func (a *arrayText) number(n int64) {
	a.sep()
	a.b = strconv.AppendInt(a.b, n, 10)
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

// tid appends a place.
func (a *arrayText) tid(t tid) {
	a.sep()
	a.b = strconv.AppendUint(append(a.b, `"(`...), uint64(t.block), 10)
	a.b = strconv.AppendUint(append(a.b, ','), uint64(t.offset), 10)
	a.b = append(a.b, `)"`...)
}

// end returns the array, which then takes nothing more.
func (a *arrayText) end() []byte {
	if len(a.b) == 0 {
		a.b = append(a.b, '{')
	}
	return append(a.b, '}')
}

// String returns the array.
func (a *arrayText) String() string {
	if len(a.b) == 0 {
		return "{}"
	}
	return string(a.b) + "}"
}

// numbersText returns numbers as the text of an array.
func numbersText(numbers []int64) string {
	a := newArrayText(len(numbers), 12)
	for _, n := range numbers {
		a.number(n)
	}
	return a.String()
}

// size returns the bytes of a row.
func size(values [][]byte) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}

// rawResults asks pgx for all columns in binary, which is what is decoded here.
var rawResults = pgx.QueryResultFormats{pgx.BinaryFormatCode}
