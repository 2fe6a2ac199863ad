package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresEpoch is PostgreSQL's zero of time, 2000-01-01, as Unix microseconds.
const PostgresEpoch = 946_684_800_000_000

// Time is a time in microseconds since 2000.
func Time(micros int64) time.Time {
	return time.Unix(PostgresEpoch/1_000_000+micros/1_000_000, micros%1_000_000*1000).UTC()
}

// Ordinary is an expression where a time is one that everything can carry and compute with, and NULL otherwise.
func Ordinary(time, expression string) string {
	return "CASE WHEN " + time + " BETWEEN '0001-01-01' AND '9999-12-31' THEN " + expression + " END"
}

// Instant is a time as it is shown.
func Instant(time string) string { return Ordinary(time, "("+time+")::timestamptz") }

// TimeFromBinary decodes a timestamptz; null is the zero time.
func TimeFromBinary(v []byte) (time.Time, error) {
	if v == nil {
		return time.Time{}, nil
	}
	micros := Int64FromBinary(v)
	if micros == math.MaxInt64 || micros == math.MinInt64 {
		return time.Time{}, errors.New("a message cannot carry the time infinity")
	}
	return Time(micros), nil
}

// Int32FromBinary decodes an integer.
func Int32FromBinary(v []byte) int32 { return int32(binary.BigEndian.Uint32(v)) }

// Int64FromBinary decodes a bigint.
func Int64FromBinary(v []byte) int64 { return int64(binary.BigEndian.Uint64(v)) }

// TID is the place of a version of a row in its table.
type TID struct {
	Block  uint32
	Offset uint16
}

// TIDFromBinary decodes a tid.
func TIDFromBinary(v []byte) TID {
	return TID{Block: binary.BigEndian.Uint32(v), Offset: binary.BigEndian.Uint16(v[4:])}
}

// Array builds the text of a one-dimensional array. The zero value is an
// empty array.
type Array struct{ b []byte }

// NewArray returns an array with room for elements of some size.
func NewArray(elements, each int) Array {
	return Array{make([]byte, 0, 2+elements*each)}
}

func (a *Array) sep() {
	if len(a.b) == 0 {
		a.b = append(a.b, '{')
	} else {
		a.b = append(a.b, ',')
	}
}

// Text appends an element of any content.
func (a *Array) Text(s string) {
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

// TextOrNull appends a text, or NULL for an empty one.
func (a *Array) TextOrNull(s string) {
	if s == "" {
		a.Null()
		return
	}
	a.Text(s)
}

// Number appends a number.
func (a *Array) Number(n int64) {
	a.sep()
	a.b = strconv.AppendInt(a.b, n, 10)
}

// Truth appends a truth value.
func (a *Array) Truth(b bool) {
	a.sep()
	a.b = strconv.AppendBool(a.b, b)
}

// Null appends NULL.
func (a *Array) Null() {
	a.sep()
	a.b = append(a.b, "NULL"...)
}

// TID appends a place.
func (a *Array) TID(t TID) {
	a.sep()
	a.b = strconv.AppendUint(append(a.b, `"(`...), uint64(t.Block), 10)
	a.b = strconv.AppendUint(append(a.b, ','), uint64(t.Offset), 10)
	a.b = append(a.b, `)"`...)
}

// End returns the array, which then takes nothing more.
func (a *Array) End() []byte {
	if len(a.b) == 0 {
		a.b = append(a.b, '{')
	}
	return append(a.b, '}')
}

// String returns the array.
func (a *Array) String() string {
	if len(a.b) == 0 {
		return "{}"
	}
	return string(a.b) + "}"
}

// Numbers returns numbers as the text of an array.
func Numbers(numbers []int64) string {
	a := NewArray(len(numbers), 12)
	for _, n := range numbers {
		a.Number(n)
	}
	return a.String()
}

// Size returns the bytes of a row.
func Size(values [][]byte) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}

// RawResults makes pgx request all columns in binary, which is decoded here.
var RawResults = pgx.QueryResultFormats{pgx.BinaryFormatCode}

// Texts returns texts as the text of an array.
func Texts(texts []string) string {
	var a Array
	for _, t := range texts {
		a.Text(t)
	}
	return a.String()
}
