package format

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// shape is the type that Debezium infers for a JSON value; nil: it infers none, and leaves the value out.
type shape struct {
	kind   kind
	names  []string // of an object's fields, in order
	fields map[string]*shape
	item   *shape // of an array
}

type kind int

const (
	kindNone kind = iota // null
	kindText
	kindBool
	kindInt
	kindLong
	kindDouble
	kindArray
	kindObject
)

// errShape is the error of a value that Debezium does not expand.
var errShape = errors.New("the types of the payload are not those of a record")

// kindOf returns the kind of a value. A number that is no int, long or double is an error.
func kindOf(v gjson.Result) (kind, error) {
	switch {
	case v.Type == gjson.Null:
		return kindNone, nil
	case v.Type == gjson.String:
		return kindText, nil
	case v.Type == gjson.True, v.Type == gjson.False:
		return kindBool, nil
	case v.IsObject():
		return kindObject, nil
	case v.IsArray():
		return kindArray, nil
	case strings.ContainsAny(v.Raw, ".eE"):
		if math.IsInf(v.Num, 0) {
			return 0, errShape
		}
		return kindDouble, nil
	}
	n, err := strconv.ParseInt(v.Raw, 10, 64)
	switch {
	case err != nil:
		return 0, errShape
	case int64(int32(n)) == n:
		return kindInt, nil
	}
	return kindLong, nil
}

// shapeOf infers the type of a value.
func shapeOf(v gjson.Result) (*shape, error) {
	k, err := kindOf(v)
	if err != nil || k == kindNone {
		return nil, err
	}
	s := &shape{kind: k}
	if k == kindObject {
		s.fields = map[string]*shape{}
		err = s.merge(v)
	}
	if k == kindArray {
		items := v.Array()
		if len(items) == 0 {
			return nil, nil //nolint:nilnil // no type, and no mistake
		}
		s.item, err = itemOf(items)
	}
	return s, err
}

// merge adds the fields of an object that the shape does not have yet.
func (s *shape) merge(object gjson.Result) error {
	names, values := members(object)
	for _, name := range names {
		if s.fields[name] != nil {
			continue
		}
		f, err := shapeOf(values[name])
		if err != nil {
			return err
		}
		if f != nil {
			s.names, s.fields[name] = append(s.names, name), f
		}
	}
	return nil
}

// itemOf infers the one type of all items of an array: objects have the fields of all, other items the type of the first.
func itemOf(items []gjson.Result) (*shape, error) {
	var s *shape
	first := kindNone
	for _, v := range items {
		k, err := kindOf(v)
		switch {
		case err != nil:
			return nil, err
		case k == kindNone:
			continue
		case first == kindNone:
			first = k
			if s, err = shapeOf(v); err != nil {
				return nil, err
			}
		case k != first:
			return nil, errShape
		case k == kindObject:
			if err := s.merge(v); err != nil {
				return nil, err
			}
		}
	}
	if s == nil {
		return nil, errShape
	}
	return s, nil
}

// members returns the fields of an object, in order. Of a name that comes twice the last value counts.
func members(object gjson.Result) (names []string, values map[string]gjson.Result) {
	values = map[string]gjson.Result{}
	object.ForEach(func(k, v gjson.Result) bool {
		name := k.String()
		if _, again := values[name]; !again {
			names = append(names, name)
		}
		values[name] = v
		return true
	})
	return names, values
}

// append appends a value as Kafka Connect's JsonConverter writes it. One of another type than the shape's is an error.
func (s *shape) append(dst []byte, v gjson.Result) ([]byte, error) {
	k, err := kindOf(v)
	switch {
	case err != nil:
		return nil, err
	case k == kindNone:
		return append(dst, "null"...), nil
	case k != s.kind:
		return nil, errShape
	case k == kindText:
		return appendJackson(dst, v.Str), nil
	case k == kindDouble:
		return appendDouble(dst, v.Num), nil
	case k == kindInt, k == kindLong:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case k == kindArray:
		return s.appendItems(dst, v.Array())
	case k == kindObject:
		return s.appendFields(dst, v)
	}
	return append(dst, v.Raw...), nil
}

func (s *shape) appendItems(dst []byte, items []gjson.Result) (_ []byte, err error) {
	dst = append(dst, '[')
	for i, v := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = s.item.append(dst, v); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func (s *shape) appendFields(dst []byte, object gjson.Result) (_ []byte, err error) {
	_, values := members(object)
	dst = append(dst, '{')
	for i, name := range s.names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendJackson(dst, name), ':')
		if dst, err = s.fields[name].append(dst, values[name]); err != nil { // the zero Result is null
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// appendDouble appends a number as Java writes a double.
func appendDouble(dst []byte, n float64) []byte {
	const plainFrom, plainTo = 1e-3, 1e7
	if abs := math.Abs(n); abs == 0 || abs >= plainFrom && abs < plainTo {
		from := len(dst)
		dst = strconv.AppendFloat(dst, n, 'f', -1, 64)
		if !strings.Contains(string(dst[from:]), ".") {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(n, 'e', -1, 64), "e")
	if !strings.Contains(digits, ".") {
		digits += ".0"
	}
	power, _ := strconv.Atoi(exponent)
	return strconv.AppendInt(append(append(dst, digits...), 'E'), int64(power), 10)
}

// appendJackson appends a JSON string as Jackson writes it to bytes: characters beyond the basic plane are escaped.
func appendJackson(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	escape := func(unit rune) {
		dst = append(dst, '\\', 'u', hex[unit>>12&15], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
	}
	dst = append(dst, '"')
	for _, r := range s {
		switch short := strings.IndexRune("\b\t\n\f\r\"\\", r); {
		case short >= 0:
			dst = append(dst, '\\', `btnfr"\`[short])
		case r < ' ':
			escape(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			escape(high)
			escape(low)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
