package main

import "testing"

func TestPublishingIsMeasured(t *testing.T) {
	t.Parallel()
	s := measureSmall(t, []int{5, 6, 7, 8, 9}, "-runs", "1", "-scenario", "publish", "-peers", "insert")
	if got, want := len(s.Results), 5; got != want {
		t.Fatalf("%d results, want %d", got, want)
	}
	for _, res := range s.Results {
		if res.Rate <= 0 {
			t.Errorf("%s with %s was not measured: %+v", res.Peer, res.With, res)
		}
	}
	if n := len(s.Remarks); n != 4 {
		t.Errorf("%d remarks, want one for each but the plain INSERT", n)
	}
}
