package main

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHotPath(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), testenv.Postgres(t), &out); err != nil || out.String() != "welcome, heron\n" {
		t.Errorf("the program wrote %q and ended with %v", out.String(), err)
	}
}
