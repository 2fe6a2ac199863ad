package statestore_test

import (
	"path/filepath"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
)

func TestDedupeConformance(t *testing.T) {
	t.Parallel()
	adaptertest.DedupeStore(t, func(tb testing.TB) func() adapters.DedupeStore {
		path := filepath.Join(tb.TempDir(), "state.db")
		return func() adapters.DedupeStore {
			state := openState(tb, path)
			if err := state.Migrate(tb.Context()); err != nil {
				tb.Fatal(err)
			}
			return state
		}
	})
}
