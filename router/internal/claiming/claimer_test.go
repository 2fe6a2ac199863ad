package claiming

import (
	"testing"

	"github.com/outriderhq/outrider/router/internal/polling"
)

// A claim of two tables of which one has a backlog brings half of what it asks for. It keeps its size; one that
// brings little begins small again.
func TestClaimsGrow(t *testing.T) {
	t.Parallel()
	c := &Claimer{poll: polling.Config{Batch: 8000, Min: 1, Max: 1000}}
	for _, step := range []struct{ rows, limit, want int }{
		{0, 8000, 1000}, {1000, 1000, 2000}, {2000, 2000, 4000}, {4000, 4000, 8000}, {4000, 8000, 8000}, {2000, 8000, 8000}, {1999, 8000, 1000}, {0, 1000, 1000},
	} {
		if c.grow(step.rows, step.limit); c.batch != step.want {
			t.Errorf("after %d of %d rows the next claim is of %d, want %d", step.rows, step.limit, c.batch, step.want)
		}
	}
}
