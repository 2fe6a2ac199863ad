package main

import (
	"bytes"
	"testing"
)

func TestTheForwarderGetsWhatWasCommitted(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = `orders: o-1 "an order" by heron
invoices: i-1 "an invoice" by heron
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
}
