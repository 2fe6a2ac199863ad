package retention

import "testing"

func TestMissingPartitions(t *testing.T) {
	t.Parallel()
	parts := func(bounds ...int64) (p partitions) {
		for _, low := range bounds {
			p.ranges = append(p.ranges, partition{low: low, high: low + 10})
		}
		return p
	}
	type next struct {
		low            int64
		quiet, missing bool
	}
	for name, tt := range map[string]struct {
		have partitions
		last int64
		want next
	}{
		"new":                      {parts(), 0, next{0, false, true}},
		"enough":                   {parts(0, 10, 20, 30), 0, next{}},
		"one more":                 {parts(0, 10, 20, 30), 1, next{40, false, true}},
		"far enough ahead":         {parts(0, 10, 20, 30), 30, next{40, false, true}},
		"too close for those that": {parts(0, 10, 20, 30), 31, next{40, true, true}},
		"at the last position":     {parts(0, 10, 20, 30), 39, next{40, true, true}},
		"run past":                 {parts(0, 10), 25, next{20, true, true}},
		"all dropped":              {parts(), 57, next{0, true, true}},
	} {
		var got next
		if got.low, got.quiet, got.missing = tt.have.next(tt.last, 10); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	for last, want := range map[int64]int64{0: 30, 9: 30, 10: 40, 57: 80} {
		if got := clearOf(last, 10); got != want {
			t.Errorf("behind position %d: %d, want %d", last, got, want)
		}
	}
}
