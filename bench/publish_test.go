package main

import "testing"

func TestPublishingIsMeasured(t *testing.T) {
	r := measureSmall(t, "-runs", "1", "-scenario", "publish", "-peers", "insert")
	if got, want := len(r.Scenarios[0].Results), 10; got != want {
		t.Fatalf("%d results, want %d", got, want)
	}
	for _, res := range r.Scenarios[0].Results {
		if res.Rate <= 0 {
			t.Errorf("%s with %s was not measured: %+v", res.Peer, res.With, res)
		}
	}
	if n := len(r.Scenarios[0].Remarks); n != 8 {
		t.Errorf("%d remarks, want one for each but the plain INSERT", n)
	}
}
