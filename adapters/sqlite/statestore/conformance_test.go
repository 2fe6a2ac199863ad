package statestore_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/sqlite/statestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStateConformance(t *testing.T) {
	t.Parallel()
	adaptertest.StateStore(t, adaptertest.StateHarness{SingleInstance: true, Many: 300, New: func(tb testing.TB) func() adapters.OperatorStore {
		path := filepath.Join(tb.TempDir(), "a file.db")
		return func() adapters.OperatorStore { return openState(tb, path) }
	}})
}

func TestStateConformanceInMemory(t *testing.T) {
	t.Parallel()
	adaptertest.StateStore(t, adaptertest.StateHarness{SingleInstance: true, Many: 300, New: func(tb testing.TB) func() adapters.OperatorStore {
		path := memoryPath(tb)
		openState(tb, path) // keeps the database while stores come and go
		return func() adapters.OperatorStore { return openState(tb, path) }
	}})
}

// memoryPath names a database in memory after the test.
func memoryPath(tb testing.TB) string {
	return fmt.Sprintf("file:%s?mode=memory&cache=shared", strings.ReplaceAll(tb.Name(), "/", "_"))
}

// openState opens a store that is closed when the test ends.
func openState(tb testing.TB, path string) *statestore.Store {
	tb.Helper()
	state, err := statestore.New(tb.Context(), statestore.Config{Path: path})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = state.Close() })
	return state
}
