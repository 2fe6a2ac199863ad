package main

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnlyCommittedOrdersArriveInOrder(t *testing.T) {
	for name, url := range map[string]string{"SQLite": "", "PostgreSQL": testenv.Postgres(t)} {
		var out bytes.Buffer
		if err := run(t.Context(), url, &out); err != nil {
			t.Fatal(name, err)
		}
		if out.String() != want {
			t.Errorf("%s: got:\n%s\nwant:\n%s", name, &out, want)
		}
	}
}

const want = `order o-2: refused and rolled back: the price is negative
arrived: {"id":"o-1","customer":"heron","cents":1200} of group heron
arrived: {"id":"o-3","customer":"heron","cents":800} of group heron
`
