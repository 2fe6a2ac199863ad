package statestore_test

import (
	"sync"
	"testing"

	"github.com/outriderhq/outrider/adapters/mysql/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

// MySQL commits each statement that creates a table, so a migration can end anywhere.
func TestAMigrationThatWasCutShortIsRepeated(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	state, db := openState(t, url), connect(t, url)
	for _, there := range [][]string{
		{"DROP TABLE outrider_note", "DELETE FROM outrider_migrations"},                                         // before the begin of the versions was noted
		{"DROP TABLE outrider_cursor, outrider_dedupe", "DELETE FROM outrider_migrations WHERE version_id > 0"}, // between two tables
		{"DELETE FROM outrider_migrations WHERE version_id > 0"},                                                // before the version was noted
	} {
		if err := state.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if present, newest, err := state.StateVersion(t.Context()); err != nil || present != newest || newest == 0 {
			t.Fatalf("version %d of %d, %v", present, newest, err)
		}
		execute(t, db, there...)
	}
	if err := state.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	acquireAll(t, joinedState(t, url, "a"), "a")
}

func TestInstancesMigrateInTurns(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	var all sync.WaitGroup
	for range 3 {
		state := openState(t, url)
		all.Go(func() {
			if err := state.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := statestore.InitSQL()
	if err != nil || text == "" {
		t.Fatal(err)
	}
}
