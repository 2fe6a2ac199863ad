package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
)

func TestDedupeConformance(t *testing.T) {
	t.Parallel()
	adaptertest.DedupeStore(t, func(tb testing.TB) func() outbox.DedupeStore {
		path := filepath.Join(tb.TempDir(), "state.db")
		return func() outbox.DedupeStore {
			state := openState(tb, path)
			if err := state.Migrate(tb.Context()); err != nil {
				tb.Fatal(err)
			}
			return state
		}
	})
}
