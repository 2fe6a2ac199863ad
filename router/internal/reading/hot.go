package reading

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/internal/failpoint"

	"github.com/outriderhq/outrider/router/internal/signal"
)

// The hot path of tables that are read by cursor: right after a commit of this process, the slots that it wrote to are read, between two
// polls. It is a read like any other, so order, late commits, parking, hand-over and operators' commands need nothing else. What does not
// fit is left to a poll. See docs/design.md, "The hot path of own tables".

// hotSlots are the slots in which rows were committed that no read is known to have seen. It is a set, a bit for each, so it has room for
// any number of rows.
type hotSlots struct {
	set       atomic.Uint32
	committed chan struct{}
}

// Committed has the reader look into slots, a bit for each, in which this process has committed rows. It waits for nothing.
func (r *Reader) Committed(slots uint32) {
	failpoint.Hit(failpoint.Hot)
	r.hot.set.Or(slots)
	signal.Send(r.hot.committed)
}

// readHot reads the slots in which rows were committed. False: a poll has to follow at once.
func (r *Reader) readHot(ctx context.Context) bool {
	began := time.Now()
	plan := r.plan(r.hot.set.Swap(0))
	if _, err := r.fetch(ctx, plan); err != nil {
		return true // the next poll finds the rows, or the same error, at its own pace
	}
	if r.hot.set.Load() != 0 { // commits in quick succession share reads, which take half of the time at most
		signal.Sleep(time.Since(began), ctx.Done())
	}
	return !plan.again
}
