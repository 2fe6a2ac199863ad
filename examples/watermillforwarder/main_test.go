package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/outriderhq/outrider"
)

func TestTheConfigurationHasNoWarnings(t *testing.T) {
	cfg, err := outrider.ParseConfig("example", []byte(os.Expand(config, func(string) string { return "app.db" })))
	if err != nil || len(cfg.Warnings) > 0 {
		t.Errorf("%v, warnings %v", err, cfg.Warnings)
	}
}

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
