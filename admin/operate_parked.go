package admin

import (
	"context"
	"math"

	"golang.org/x/time/rate"

	"github.com/outriderhq/outrider/adapters"
)

// Parked lists parked messages, by route, slot and sequence.
func (op *Operator) Parked(ctx context.Context, f adapters.ParkedFilter) ([]adapters.Parked, error) {
	var out []adapters.Parked
	for _, s := range op.stores {
		rows, err := s.ListParked(ctx, f)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// CountParked says how many messages a command would change, by route and
// status. It changes nothing and reads no message.
func (op *Operator) CountParked(ctx context.Context, c adapters.ParkedCommand) ([]adapters.ParkedCount, error) {
	var out []adapters.ParkedCount
	for _, s := range op.stores {
		counts, err := s.CountParked(ctx, c)
		if err != nil {
			return nil, err
		}
		out = append(out, counts...)
	}
	return out, nil
}

// Pace says how a command that changes many messages goes.
type Pace struct {
	// Rate bounds the messages per second. 0: as fast as the database goes.
	Rate float64

	// Progress is told after each step how many were changed so far; optional.
	Progress func(changed int)
}

// ChangeParked redrives, skips or purges what the command selects, and returns
// how many messages that were. It goes in steps of at most
// [adapters.DefaultParkedStep] messages, or of what the rate lets through in a
// second, so neither memory nor transactions grow with their number; each step
// is audited. The filter's limit bounds the whole command; 0: all.
//
// When ctx ends, the step under way is finished, and the error is that of ctx:
// what was changed stays changed.
func (op *Operator) ChangeParked(ctx context.Context, c adapters.ParkedCommand, p Pace) (changed int, err error) {
	left := math.MaxInt
	if c.Filter.Limit > 0 {
		left = c.Filter.Limit
	}
	size, limiter := adapters.DefaultParkedStep, rate.NewLimiter(rate.Inf, 0)
	if p.Rate > 0 {
		size = max(1, int(math.Ceil(min(p.Rate, adapters.DefaultParkedStep))))
		limiter = rate.NewLimiter(rate.Limit(p.Rate), size)
	}
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
	return changed, nil
}
