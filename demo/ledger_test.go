package demo

import (
	"testing"
)

// sale is an order of account "heron-1".
func sale(id int64, number int) order {
	return order{ID: id, Customer: "heron", Account: "heron-1", Number: number}
}

// The demo's result depends on the checker: it must find planted errors.
func TestTheLedgerFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	other := order{ID: 9, Customer: "heron", Account: "heron-2", Number: 1}
	for name, tt := range map[string]struct {
		arrivals  []order
		committed []int64
		want      Tally
		clean     bool
	}{
		"nothing": {nil, nil, Tally{}, true},
		"all well": {[]order{sale(1, 1), other, sale(2, 2)}, []int64{1, 2, 9},
			Tally{Committed: 3, Delivered: 3}, true},
		"a gap of a rolled back order": {[]order{sale(1, 1), sale(3, 2)}, []int64{1, 3},
			Tally{Committed: 2, Delivered: 2}, true},
		"duplicate": {[]order{sale(1, 1), sale(2, 2), sale(2, 2)}, []int64{1, 2},
			Tally{Committed: 2, Delivered: 2, Duplicates: 1}, false},
		"late duplicate is no inversion": {[]order{sale(1, 1), sale(2, 2), sale(1, 1)}, []int64{1, 2},
			Tally{Committed: 2, Delivered: 2, Duplicates: 1}, false},
		"inversion": {[]order{sale(2, 2), sale(1, 1), sale(3, 3)}, []int64{1, 2, 3},
			Tally{Committed: 3, Delivered: 3, OutOfOrder: 1}, false},
		"two behind one": {[]order{sale(3, 3), sale(1, 1), sale(2, 2)}, []int64{1, 2, 3},
			Tally{Committed: 3, Delivered: 3, OutOfOrder: 2}, false},
		"loss": {[]order{sale(1, 1), sale(3, 3)}, []int64{1, 2, 3},
			Tally{Committed: 3, Delivered: 2, Lost: 1}, false},
		"loss at the end": {[]order{sale(1, 1)}, []int64{1, 2},
			Tally{Committed: 2, Delivered: 1, Lost: 1}, false},
		"an order that was rolled back": {[]order{sale(1, 1), sale(2, 2)}, []int64{1},
			Tally{Committed: 1, Delivered: 2}, false},
		"one lost and another never committed": {[]order{sale(2, 1)}, []int64{1},
			Tally{Committed: 1, Delivered: 1, Lost: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			l.receive("north", tt.arrivals)
			got := l.tally(tt.committed)
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got.Clean() != tt.clean {
				t.Errorf("clean: %v, want %v", got.Clean(), tt.clean)
			}
		})
	}
}

func TestPhantomsAreCountedBesideLosses(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.receive("north", []order{sale(2, 1), sale(3, 2)})
	if got := l.tally([]int64{1, 3}).Phantoms(); got != 1 {
		t.Errorf("%d phantoms, want 1", got)
	}
}
