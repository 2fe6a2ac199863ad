package queue

import (
	"fmt"
	"os"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

func TestMain(m *testing.M) {
	if err := testenv.LimitChecks(1000, 20_000); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
