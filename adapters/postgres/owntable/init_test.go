package owntable

import (
	"testing"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// TestInitRefusesATableOfAnotherShape: init of the own layout meets a table of
// the application's.
func TestInitRefusesATableOfAnotherShape(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	e.Exec("CREATE TABLE events (id uuid, body jsonb)")
	_, err := Init(e.Ctx, e.Pool, "events")
	pgtest.WantError(t, err, "another shape", "layout: custom", "column slot is missing")
}
