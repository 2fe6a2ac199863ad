package reading

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/internal/failpoint"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// The hot path of tables that are read by cursor: right after a commit of this process, the slots that it wrote to are read, between two
// polls. It is a read like any other, so order, late commits, parking, hand-over and operators' commands need nothing else. What does not
// fit is left to a poll. See docs/design.md, "The hot path of own tables".

// hotSlots are the slots in which rows were committed that no read is known to have seen. It is a set, a bit for each, so it has room for
// any number of rows.
type hotSlots struct {
	set  atomic.Uint32
	bell chan struct{}
}

// Committed has the reader look into slots, a bit for each, in which this process has committed rows. It waits for nothing.
func (r *Reader) Committed(slots uint32) {
	failpoint.Hit(failpoint.Hot)
	r.hot.set.Or(slots)
	signal.Send(r.hot.bell)
}

// readHot reads the slots in which rows were committed. False: a poll has to follow at once.
func (r *Reader) readHot(ctx context.Context) bool {
	began := time.Now()
	plan, whole := r.planHot(r.hot.set.Swap(0))
	if _, err := r.fetch(ctx, plan); err != nil {
		return true // the next poll finds the rows, or the same error, at its own pace
	}
	if r.hot.set.Load() != 0 { // commits in quick succession share reads, which take half of the time at most
		signal.Sleep(time.Since(began), ctx.Done())
	}
	return whole && !plan.again
}

// planHot plans the reads of slots. Whole is false if one needs a poll: its streams do not stand together at the end of the table, or a
// route with order global reads it.
func (r *Reader) planHot(slots uint32) (p *plan, whole bool) {
	p, whole = &plan{}, true
	starved := r.starved.Swap(true) // before looking: room that appears meanwhile wakes
	for slot := range adapters.Slots {
		if slots&(1<<slot) == 0 {
			continue
		}
		rd, fits, full := r.planHotSlot(slot)
		starved, whole = starved || full, whole && fits
		if rd != nil && fits {
			p.add(rd)
		}
	}
	r.starved.Store(starved)
	r.limit(p)
	return p, whole
}

// planHotSlot plans the read of a slot; nil: no stream of this process can be read there. A route without room falls behind, as in a poll, and
// is read when it has room; one with a pace of its own keeps that.
func (r *Reader) planHotSlot(slot int) (rd *read, fits, full bool) {
	for _, rt := range r.Routes {
		if r.paces[rt] != nil {
			continue
		}
		if rt.Order == adapters.OrderGlobal {
			return nil, false, full
		}
		s := rt.Lanes[slot].Session()
		if s == nil {
			continue
		}
		m := &member{session: s, stream: s.Streams()[0], room: s.Room()}
		if m.room < max(rt.Window/2, 1) || !rt.Share.Plenty() {
			full = true
			continue
		}
		at := m.stream.Fetched
		if !m.stream.Drained || at.Window != "" || rd != nil && rd.from != at {
			return nil, false, full
		}
		if rd == nil {
			rd = &read{slot: slot, from: at, drained: true}
		}
		m.read = rd
		rd.join(m)
	}
	return rd, true, full
}
