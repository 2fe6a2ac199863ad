package postgres

import "testing"

// TestInitRefusesATableOfAnotherShape: init of the own layout meets a table of
// the application's.
func TestInitRefusesATableOfAnotherShape(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.exec("CREATE TABLE events (id uuid, body jsonb)")
	_, err := Init(e.ctx, e.pool, "events")
	wantError(t, err, "another shape", "layout: custom", "column slot is missing")
}
