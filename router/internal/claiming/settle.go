package claiming

import (
	"context"
	"log/slog"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// write is what the queue's settler does: it writes what became of claimed rows
// and, now and then, extends the claims that last. Both are done by the settler
// alone, one after the other.
func (c *Claimer) write(ctx context.Context, e settling.Extent) error {
	c.ledger.again(c.claims.Recover, e >= settling.Everything)
	taken, results := c.ledger.take()
	if len(taken) > 0 {
		failpoint.Hit(failpoint.BeforeSettle)
		lost, err := c.settle(ctx, taken, results)
		failpoint.Hit(failpoint.AfterSettle)
		if c.Settler.Report(err); err != nil {
			return err
		}
		if len(lost) > 0 {
			c.lost.Add(int64(len(lost)))
			c.log.Warn("rows were no longer ours when they were settled: another processor or instance has taken, ended or put them back, "+
				"and they may be delivered again", "rows", len(lost), "first", lost[0].Key)
		}
		c.RoomFreed()
	}
	if e >= settling.Passed {
		c.extend(ctx)
	}
	err := c.ledger.lockedIn(nil) // the settler tries again
	c.locking.Report(c.log, slog.LevelWarn, err, "results cannot be written: another session has locked the rows; other rows go on", "all results are written again")
	return err
}

// extend keeps claims that last from being taken for stuck. Those that were are
// dropped.
func (c *Claimer) extend(ctx context.Context) {
	now := time.Now()
	claims := c.ledger.stale(now.Add(-c.claims.Timeout / 4))
	if len(claims) == 0 {
		return
	}
	var lost []*adapters.Claim
	_, err := byHalves(claims, func(part []*adapters.Claim) error {
		more, err := c.Queue.Extend(ctx, part)
		lost = append(lost, more...)
		return err
	}, func(*adapters.Claim, error) error { return nil }) // settling the row says so
	if err != nil {
		if ctx.Err() == nil {
			c.extending.Fail(c.log, slog.LevelWarn, "claims cannot be extended, trying again", err, "rows", len(claims))
		}
		return
	}
	c.extending.End(c.log, "claims can be extended again")
	for _, it := range c.ledger.extended(claims, lost, now) {
		c.loseClaim(it)
	}
	if len(lost) > 0 {
		c.lost.Add(int64(len(lost)))
		c.log.Warn("waiting rows are no longer ours: another processor or instance has taken, ended or put them back; they are dropped here",
			"rows", len(lost), "first", lost[0].Key)
	}
	c.RoomFreed()
}

// Maintain extends claims and recovers stuck rows until ctx ends, which is after
// the drain.
func (c *Claimer) Maintain(ctx context.Context) {
	tick := signal.Every(min(c.claims.Timeout/4, c.claims.Recover))
	defer tick.Stop()
	var recovered time.Time
	for {
		_ = c.Settler.Flush(ctx, settling.Passed) // the settler has told
		if _, works := c.sessions(); works && time.Since(recovered) >= c.claims.Recover {
			recovered = time.Now()
			c.recover(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// recover puts rows back that were left marked by a crash.
func (c *Claimer) recover(ctx context.Context) {
	n := 0
	err := c.recoverLimit.Call(ctx, func(ctx context.Context) (err error) { // meanwhile the queue may claim nothing
		n, err = c.Queue.Recover(ctx)
		return err
	})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.recovering.Fail(c.log, slog.LevelWarn, "stuck rows cannot be recovered, trying again", err)
		return
	case n > 0:
		c.recovered.Add(int64(n))
		c.log.Warn("rows that were marked as being processed for too long were put back; some may be delivered again", "rows", n)
		signal.Send(c.wake)
	}
	if err == nil {
		c.recovering.End(c.log, "stuck rows can be recovered again")
	}
}

// longestError is how many characters of an error tables of queues keep.
const longestError = 4000
