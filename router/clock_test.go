package router

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// jumpy is a state store that is used with a clock which jumps. The clock of a
// bubble cannot; but all that a jump of the process's clock can do is to make
// times that were written down look earlier or later by it, and that is done here.
type jumpy struct {
	*memState
	ahead atomic.Int64 // by how much the process's clock is wrong, in nanoseconds
}

// written is a time as the process's clock has it.
func (j *jumpy) written(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(time.Duration(j.ahead.Load()))
}

// read is what a written time means by the process's clock now.
func (j *jumpy) read(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-time.Duration(j.ahead.Load()))
}

func (j *jumpy) Settle(ctx context.Context, all []adapters.Settlement) ([]adapters.LaneRef, error) {
	for i := range all {
		all[i].Park = slices.Clone(all[i].Park)
		for k := range all[i].Park {
			p := &all[i].Park[k]
			p.NextAttemptAt = j.written(p.NextAttemptAt)
		}
	}
	return j.memState.Settle(ctx, all)
}

func (j *jumpy) ParkedGroups(ctx context.Context, route string, slots []int) ([]adapters.ParkedGroup, error) {
	groups, err := j.memState.ParkedGroups(ctx, route, slots)
	for i := range groups {
		groups[i].Due = j.read(groups[i].Due)
	}
	return groups, err
}

func (j *jumpy) ParkedQueue(ctx context.Context, ref adapters.LaneRef, group string, after int64, limit int, bytes int64) ([]adapters.Parked, error) {
	rows, err := j.memState.ParkedQueue(ctx, ref, group, after, limit, bytes)
	for i := range rows {
		rows[i].NextAttemptAt = j.read(rows[i].NextAttemptAt)
	}
	return rows, err
}

// The clock of the instance jumps by an hour while one group of two waits for
// its next attempt. Lanes and leases stay, the other group notices nothing, and
// the attempt is late by the jump at most, also when a restart comes between.
func TestG1_G2_G3_TheClockJumps(t *testing.T) {
	for name, jump := range map[string]time.Duration{"forwards": time.Hour, "backwards": -time.Hour} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restart), func(t *testing.T) {
				inBubble(t, group, func(r *rig) {
					state := &jumpy{memState: r.state}
					route := r.route(func(rt *Route) { rt.State, rt.Poll.Max = state, 3*time.Second })
					var failed atomic.Int32
					r.dest.setFail(func(_ string, msg *message.Message) error {
						if msg.UUID == "g0-0" && failed.Add(1) == 1 {
							return outbox.Transient(errInjected, 30*time.Second)
						}
						return nil
					})
					r.start(route)
					r.fill(2, 5)
					r.until("one group waits, the other has arrived", func() bool { return r.dest.count() == 5 && len(r.parked()) == 5 })
					state.ahead.Store(int64(jump))
					jumped := time.Now()
					if restart {
						r.stop()
						r.start(route)
					}
					r.fillFrom(2, 5, 8)
					r.until("the other group goes on", func() bool { return r.dest.count() >= 8 })
					if took := time.Since(jumped); took > 5*time.Second {
						t.Errorf("the other group went on after %v", took)
					}
					time.Sleep(max(-jump, 0) + time.Minute)
					r.stop()
					r.wantParked()
					r.checkOrdered(2, 8)
					if n := failed.Load(); r.dest.count() != 16 || n != 2 {
						t.Errorf("%d arrivals, and %d attempts of the message that failed, want 16 and 2", r.dest.count(), n)
					}
				})
			})
		}
	}
}
