package memory

import "testing"

func TestAShareHasPlentyWhenHalfOfWhatItCouldHaveIsFree(t *testing.T) {
	b := &Budget{Limit: 1000, Wake: func() {}}
	one, two := Account{Budget: b}, Account{Budget: b}
	if !one.Plenty() {
		t.Error("nothing is used, and yet there is not plenty")
	}
	for one.Take(10) {
	}
	if used := one.used.Load(); used != 800 {
		t.Errorf("a route alone took %d of 1000, want four fifths", used)
	}
	if free, most := two.Room(); free != 160 || most != 160 {
		t.Errorf("beside it there is room for %d of %d, want four fifths of the rest", free, most)
	}
	if one.Plenty() || !two.Plenty() {
		t.Error("only the one that uses nothing has plenty")
	}
	one.Give(390)
	if one.Plenty() {
		t.Error("410 of 800 are used: not plenty")
	}
	one.Give(10)
	if !one.Plenty() {
		t.Error("400 of 800 are used: plenty")
	}
}

func TestAReaderThatWaitsForPlentyIsWoken(t *testing.T) {
	woken := 0
	b := &Budget{Limit: 1000, Wake: func() { woken++ }}
	s := Account{Budget: b}
	s.Take(450)
	s.Low.Store(true)
	s.Give(40)
	if woken != 0 {
		t.Error("woken before there was plenty")
	}
	s.Give(10)
	s.Give(10)
	if woken != 1 {
		t.Errorf("woken %d times, want once", woken)
	}
}
