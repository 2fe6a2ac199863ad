package state

import (
	"reflect"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// An operation that forgot a condition of its filter would change messages that nobody meant: every field of the
// filter is kept, also those that are added one day. After is the operation's own.
func TestOperationsKeepTheWholeFilter(t *testing.T) {
	t.Parallel()
	var want adapters.ParkedFilter
	v := reflect.ValueOf(&want).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case v.Type().Field(i).Name == "After":
		case v.Type().Field(i).Name == "Status": // one of a few
			f.SetString(string(adapters.ParkedDead))
		case f.Kind() == reflect.String:
			f.SetString("\xff" + v.Type().Field(i).Name)
		case f.CanInt():
			f.SetInt(int64(i + 1))
		case f.Type() == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(time.Unix(1, 2).UTC()))
		default:
			t.Fatalf("field %s has a type that this test does not know", v.Type().Field(i).Name)
		}
	}
	o := adapters.Operation{Filter: want, All: true}
	var got adapters.Operation
	if err := decodeOperation(&got, encodeSubject(&o), encodePlace(&o.Place)); err != nil || got.Filter != want || !got.All {
		t.Errorf("kept %+v of %+v, %v", got.Filter, want, err)
	}
}
