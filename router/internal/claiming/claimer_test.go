package claiming

import (
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
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

// lookedQueue is a queue of which only what has been read of it is asked for.
type lookedQueue struct {
	adapters.Queue
	coverage adapters.Coverage
}

func (q *lookedQueue) Coverage() adapters.Coverage { return q.coverage }

// A claimer whose queue has a table that rests goes on with the other one at once, and waits for the rest once that has been read.
func TestATableThatRestsHoldsUpNoClaim(t *testing.T) {
	t.Parallel()
	now := time.Now()
	resting, long := adapters.Coverage{Next: now.Add(10 * time.Second)}, adapters.Coverage{}
	for _, step := range []struct {
		since time.Time // of the other table
		want  time.Duration
	}{{time.Time{}, continuePause}, {now, 9 * time.Second}} {
		long.Since = step.since
		q := &lookedQueue{coverage: resting}
		q.coverage.Tables = []adapters.Coverage{resting, long}
		c := &Claimer{Queue: q, Backoff: &polling.Backoff{}, whole: now}
		if pause, more := c.continueSoon(time.Minute, time.Time{}); !more || pause < step.want || pause > step.want+time.Second {
			t.Errorf("where the other table was read at %v the pause is %v (%t), want about %v", step.since, pause, more, step.want)
		}
	}
}
