package router

import "testing"

func TestAShareHasPlentyWhenHalfOfWhatItCouldHaveIsFree(t *testing.T) {
	b := &budget{limit: 1000, wake: func() {}}
	one, two := share{budget: b}, share{budget: b}
	if !one.plenty() {
		t.Error("nothing is used, and yet there is not plenty")
	}
	for one.take(10) {
	}
	if used := one.used.Load(); used != 800 {
		t.Errorf("a route alone took %d of 1000, want four fifths", used)
	}
	if free, most := two.room(); free != 160 || most != 160 {
		t.Errorf("beside it there is room for %d of %d, want four fifths of the rest", free, most)
	}
	if one.plenty() || !two.plenty() {
		t.Error("only the one that uses nothing has plenty")
	}
	one.give(390)
	if one.plenty() {
		t.Error("410 of 800 are used: not plenty")
	}
	one.give(10)
	if !one.plenty() {
		t.Error("400 of 800 are used: plenty")
	}
}

func TestAReaderThatWaitsForPlentyIsWoken(t *testing.T) {
	woken := 0
	b := &budget{limit: 1000, wake: func() { woken++ }}
	s := share{budget: b}
	s.take(450)
	s.low.Store(true)
	s.give(40)
	if woken != 0 {
		t.Error("woken before there was plenty")
	}
	s.give(10)
	s.give(10)
	if woken != 1 {
		t.Errorf("woken %d times, want once", woken)
	}
}
