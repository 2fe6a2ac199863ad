package main

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/outridertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A test of the shop: publish in a transaction, and see what was delivered.
func TestOrdersAreConfirmed(t *testing.T) {
	var out bytes.Buffer
	shop := &Shop{Out: &out}
	kit := outridertest.Start(t, outridertest.WithListeners(shop.Listeners()))
	shop.DB, shop.Client = kit.DB, kit.Client
	if _, err := kit.DB.ExecContext(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	if err := shop.Place(t.Context(), Order{Number: 1, Customer: "heron", Total: 12}); err != nil {
		t.Fatal(err)
	}
	if err := shop.Place(t.Context(), Order{Number: 2, Customer: "heron", Total: -1}); err == nil {
		t.Error("an impossible order was placed")
	}
	kit.Delivered() // waits for it
	if want := "dear heron, order 1 costs 12\naudit: order.placed of heron\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestTheProgramRuns(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if want := "dear heron, order 1 costs 12\naudit: order.placed of heron\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
