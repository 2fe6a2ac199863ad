package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/internal/faults/check"
)

// rows are three groups of ten messages, interleaved.
func rows() []check.Row {
	var out []check.Row
	for i := range 30 {
		out = append(out, check.Row{ID: fmt.Sprint("m", i), Group: fmt.Sprint("g", i%3), Position: int64(100 + i)})
	}
	return out
}

// deliver is the delivery of all rows by two streams, without a fault: groups 0
// and 2 by one, 1 by the other.
func deliver(rows []check.Row) (one, other []check.Delivery) {
	for _, r := range rows {
		d := check.Delivery{ID: r.ID, Group: r.Group}
		if r.Group == "g1" {
			other = append(other, d)
		} else {
			one = append(one, d)
		}
	}
	return one, other
}

// faulty is the report of a whole delivery, changed.
func faulty(change func(*check.Report)) check.Report {
	r := check.Report{Committed: 30, Delivered: 30}
	change(&r)
	return r
}

// plantedFaults change what two streams delivered, by name.
var plantedFaults = map[string]struct {
	plant   func(one, other []check.Delivery) ([]check.Delivery, []check.Delivery)
	want    check.Report
	example string
}{
	"nothing": {
		func(one, other []check.Delivery) ([]check.Delivery, []check.Delivery) { return one, other },
		faulty(func(*check.Report) {}), "",
	},
	"a loss": {
		func(one, other []check.Delivery) ([]check.Delivery, []check.Delivery) {
			return slices.Delete(one, 4, 5), other
		},
		faulty(func(r *check.Report) { r.Delivered, r.Lost = 29, 1 }), `m6 (position 106) of group "g0" was lost`,
	},
	"the loss of the last": {
		func(one, other []check.Delivery) ([]check.Delivery, []check.Delivery) {
			return one, other[:len(other)-1]
		},
		faulty(func(r *check.Report) { r.Delivered, r.Lost = 29, 1 }), `m28 (position 128) of group "g1" was lost`,
	},
	"a duplicate at once": {
		func(one, other []check.Delivery) ([]check.Delivery, []check.Delivery) {
			return slices.Insert(one, 4, one[3]), other
		},
		faulty(func(r *check.Report) { r.Delivered, r.Duplicates = 31, 1 }), "",
	},
	"a duplicate long after, by the other stream": {
		func(one, other []check.Delivery) ([]check.Delivery, []check.Delivery) {
			return one, append(other, one[0])
		},
		faulty(func(r *check.Report) { r.Delivered, r.Duplicates = 31, 1 }), "",
	},
	"an inversion": {
		func(one, other []check.Delivery) ([]check.Delivery, []check.Delivery) {
			other[2], other[3] = other[3], other[2]
			return one, other
		},
		faulty(func(r *check.Report) { r.OutOfOrder = 1 }), `m7 (position 107) of group "g1" arrived behind m10 (position 110)`,
	},
	"an inversion healed by a duplicate": {
		func(one, other []check.Delivery) ([]check.Delivery, []check.Delivery) {
			return one, slices.Insert(other, 2, other[4])
		},
		faulty(func(r *check.Report) { r.Delivered, r.Duplicates, r.OutOfOrder = 31, 1, 2 }), "arrived behind m13",
	},
	"a group in two streams": {
		func(one, other []check.Delivery) ([]check.Delivery, []check.Delivery) {
			return one[1:], slices.Insert(other, 0, one[0])
		},
		faulty(func(r *check.Report) { r.OutOfOrder = 1 }), `came by stream 1, its group by 0`,
	},
	"what was rolled back": {
		func(one, other []check.Delivery) ([]check.Delivery, []check.Delivery) {
			return append(one, check.Delivery{ID: "ghost", Group: "g0"}), other
		},
		faulty(func(r *check.Report) { r.Delivered, r.Unknown = 31, 1 }), "never committed",
	},
	"another group": {
		func(one, other []check.Delivery) ([]check.Delivery, []check.Delivery) {
			return append(one, check.Delivery{ID: "m0", Group: "g2"}), other
		},
		faulty(func(r *check.Report) { r.Delivered, r.Unknown = 31, 1 }), `under group "g2"`,
	},
}

func TestCompareFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range plantedFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := deliver(rows())
			one, other = tt.plant(slices.Clone(one), slices.Clone(other))
			got := check.Compare(rows(), one, other)
			examples := strings.Join(got.Examples, "; ")
			got.Examples = nil
			if got.String() != tt.want.String() {
				t.Errorf("got %v, want %v (%s)", got, tt.want, examples)
			}
			if !strings.Contains(examples, tt.example) || tt.example == "" && examples != "" {
				t.Errorf("examples are %q, want %q", examples, tt.example)
			}
			if got.Clean() != (tt.want.Lost+tt.want.OutOfOrder+tt.want.Unknown == 0) {
				t.Errorf("Clean is %v for %v", got.Clean(), got)
			}
		})
	}
}

func TestCompareWithoutGroupsKnowsNoOrder(t *testing.T) {
	t.Parallel()
	rows := []check.Row{{ID: "a", Position: 1}, {ID: "b", Position: 2}}
	got := check.Compare(rows, []check.Delivery{{ID: "b"}}, []check.Delivery{{ID: "a"}})
	if !got.Clean() || got.Duplicates != 0 {
		t.Errorf("got %v, want a clean report", got)
	}
}

func TestExamplesAreBounded(t *testing.T) {
	t.Parallel()
	got := check.Compare(rows())
	if got.Lost != 30 || len(got.Examples) != 10 {
		t.Errorf("lost %d with %d examples, want 30 and 10", got.Lost, len(got.Examples))
	}
	if want := "committed 30, delivered 0, duplicates 0, lost 30, out of order 0; m0 "; !strings.HasPrefix(got.String(), want) {
		t.Errorf("got %q, want %q...", got.String(), want)
	}
}
