package statestore

import (
	"testing"

	"github.com/outriderhq/outrider/adapters/internal/state/statetest"
)

func TestStatementsOfOperators(t *testing.T) {
	t.Parallel()
	statetest.Statements(t, (&Store{}).database())
}
