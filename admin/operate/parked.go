package operate

import (
	"cmp"
	"context"
	"math"

	"golang.org/x/time/rate"

	"github.com/outriderhq/outrider/adapters"
)

// Parked lists what was taken out of the stream: first the parked messages of the state
// stores, by route, slot and sequence, then the dead rows in the tables of queues, by
// source, table, creation and key. The limit is that of the whole list; the filter's
// After concerns the first state store. Payloads and metadata are not read.
func (op *Operator) Parked(ctx context.Context, f adapters.ParkedFilter) ([]ParkedMessage, error) {
	return op.parked(ctx, f, PageToken{Parked: f.After}, 0)
}

// Bounds of what is read with [Operator.ParkedWhole]: for a page, and for an export.
const (
	GlanceBytes int64 = 1 << 20
	WholeBytes  int64 = 64 << 20
)

// ParkedWhole is [Operator.Parked] with payloads and metadata, as long as they fit into so many bytes together.
func (op *Operator) ParkedWhole(ctx context.Context, f adapters.ParkedFilter, bytes int64) ([]ParkedMessage, error) {
	return op.parked(ctx, f, PageToken{Parked: f.After}, bytes)
}

// ParkedAfter returns the part of that list which begins behind a place; the filter's After is not used.
func (op *Operator) ParkedAfter(ctx context.Context, f adapters.ParkedFilter, after PageToken) ([]ParkedMessage, error) {
	return op.parked(ctx, f, after, 0)
}

func (op *Operator) parked(ctx context.Context, f adapters.ParkedFilter, after PageToken, bytes int64) ([]ParkedMessage, error) {
	var out []ParkedMessage
	most := cmp.Or(f.Limit, adapters.DefaultParkedList)
	for i, s := range op.stores {
		if after.Source != "" || i < after.Store || len(out) >= most {
			continue
		}
		f.After, f.Limit = adapters.ParkedKey{}, most-len(out)
		if i == after.Store {
			f.After = after.Parked
		}
		rows, err := s.ListParked(ctx, f, bytes)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			bytes -= row.Size
			out = append(out, ParkedMessage{Parked: row, At: PageToken{Store: i, Parked: adapters.ParkedKey{LaneRef: row.LaneRef, Seq: row.Seq}}})
		}
	}
	dead, err := op.deadIn(ctx, f, after, most-len(out), bytes > 0)
	return append(out, dead...), err
}

// CountParked says how many messages a command would change, by route and
// status, parked ones and dead rows of queues. It changes nothing.
func (op *Operator) CountParked(ctx context.Context, c adapters.ParkedCommand) ([]adapters.ParkedCount, error) {
	var out []adapters.ParkedCount
	for _, s := range op.stores {
		counts, err := s.CountParked(ctx, c)
		if err != nil {
			return nil, err
		}
		out = append(out, counts...)
	}
	dead, err := op.countDead(ctx, c)
	return append(out, dead...), err
}

// RateLimit says how a command that changes many messages goes.
type RateLimit struct {
	// Rate bounds the messages per second. 0: as fast as the database goes.
	Rate float64

	// Progress receives after each step how many were changed so far; optional.
	Progress func(changed int)
}

// ChangeParked redrives, skips or purges what the command selects, and returns
// how many messages that were. It goes in steps of at most
// [adapters.DefaultParkedStep] messages, or of what the rate lets through in a
// second, so neither memory nor transactions grow with their number; each step
// is audited. The filter's limit bounds the whole command; 0: all.
//
// When ctx ends, the current step is finished, and the error is that of ctx:
// what was changed stays changed.
func (op *Operator) ChangeParked(ctx context.Context, c adapters.ParkedCommand, p RateLimit) (changed int, err error) {
	left := math.MaxInt
	if c.Filter.Limit > 0 {
		left = c.Filter.Limit
	}
	size, limiter := stepsOf(p.Rate)
	for _, s := range op.stores {
		step := adapters.ParkedStep{Last: c.Filter.After, More: true}
		for step.More && left > 0 {
			c.Filter.After, c.Filter.Limit = step.Last, min(size, left)
			if err := limiter.WaitN(ctx, c.Filter.Limit); err != nil {
				return changed, err
			}
			// Never cut off: whether the step counts must be known.
			if step, err = s.ChangeParked(context.WithoutCancel(ctx), c); err != nil {
				return changed, err
			}
			changed, left = changed+step.Changed, left-step.Changed
			if p.Progress != nil {
				p.Progress(changed)
			}
		}
		c.Filter.After = adapters.ParkedKey{}
	}
	if left <= 0 {
		return changed, nil
	}
	c.Filter.Limit = 0
	err = op.changeDead(ctx, c, size, func(n int) (int, error) {
		n = min(n, left)
		if n == 0 {
			return 0, nil
		}
		return n, limiter.WaitN(ctx, n)
	}, func(n int) {
		changed, left = changed+n, left-n
		if p.Progress != nil && n > 0 {
			p.Progress(changed)
		}
	})
	return changed, err
}

// stepsOf is how many messages a step has at most at a rate (0: no limit), and what limits the steps to it.
func stepsOf(perSecond float64) (size int, limiter *rate.Limiter) {
	if perSecond <= 0 {
		return adapters.DefaultParkedStep, rate.NewLimiter(rate.Inf, 0)
	}
	size = max(1, int(math.Ceil(min(perSecond, adapters.DefaultParkedStep))))
	return size, rate.NewLimiter(rate.Limit(perSecond), size)
}
