package main

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnlyCommittedOrdersArriveInOrder(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = `order o-2: refused and rolled back: the price is negative
arrived: {"id":"o-1","customer":"heron","cents":1200} of group heron
arrived: {"id":"o-3","customer":"heron","cents":800} of group heron
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
}
