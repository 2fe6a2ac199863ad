package statestore_test

import (
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/mysql/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

func TestStateConformance(t *testing.T) {
	t.Parallel()
	adaptertest.StateStore(t, adaptertest.StateHarness{New: func(tb testing.TB) func() adapters.OperatorStore {
		url := testenv.MySQL(tb)
		return func() adapters.OperatorStore { return openState(tb, url) }
	}})
}

func TestDedupeConformance(t *testing.T) {
	t.Parallel()
	adaptertest.DedupeStore(t, func(tb testing.TB) func() adapters.DedupeStore {
		url := testenv.MySQL(tb)
		return func() adapters.DedupeStore {
			state := openState(tb, url)
			if err := state.Migrate(tb.Context()); err != nil {
				tb.Fatal(err)
			}
			return state
		}
	})
}

// openState opens a store that is closed when the test ends.
func openState(tb testing.TB, url string) *statestore.Store {
	tb.Helper()
	state, err := statestore.New(tb.Context(), statestore.Config{URL: url})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = state.Close() })
	return state
}
