package statestore_test

import (
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"

	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

func TestStateConformance(t *testing.T) {
	if !testenv.Full() {
		t.Skip("TestG12_StateConformanceWithGrantsAlone has the same cases with fewer rights; make race runs both")
	}
	t.Parallel()
	adaptertest.StateStore(t, adaptertest.StateHarness{New: func(tb testing.TB) func() adapters.OperatorStore {
		url := testenv.Postgres(tb)
		return func() adapters.OperatorStore { return openState(tb, statestore.Config{URL: url}) }
	}})
}

// openState opens a store that is closed when the test ends.
func openState(tb testing.TB, cfg statestore.Config) *statestore.Store {
	tb.Helper()
	state, err := statestore.New(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = state.Close() })
	return state
}
