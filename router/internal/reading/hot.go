package reading

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/internal/failpoint"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// The hot path of tables that are read by cursor: right after a commit of this process its rows are claimed from memory if that is
// certain to be in order, and the slots that it wrote to are read, between two polls. That is an ordinary read: order, late commits, parking,
// hand-over and operators' commands work as always. Rows that do not fit are left to a poll. See docs/design.md, "The hot path of own tables".

// hotSlots are the slots in which rows were committed that no read is known to have seen. It is a set, a bit for each, so it has room for
// any number of rows.
type hotSlots struct {
	set       atomic.Uint32
	committed chan struct{}
}

// Committed has the reader read slots, a bit for each, in which this process has committed rows. It does not wait.
func (r *Reader) Committed(slots uint32) {
	r.hot.set.Or(slots)
	signal.Send(r.hot.committed)
}

// Insert is an INSERT into the table of the source whose rows are read right after the commit.
type Insert struct {
	adapters.HotRead
	reader *Reader
	rows   []expected
	Slots  uint32 // that it wrote to, a bit for each
}

// expected is a row and the streams that may claim it. It counts only in the session of a lane in which it began.
type expected struct {
	row     adapters.HotLogRow
	streams []*lane.Stream
}

// Announce prepares an INSERT.
func (r *Reader) Announce(src adapters.HotSource, insert string) *Insert {
	return &Insert{HotRead: src.Announce(insert), reader: r}
}

// Inserted takes a row that the statement returned. Streams know of it before it is visible, so a read that brings it is noticed.
func (in *Insert) Inserted(columns []*string) {
	row, slot, ok := in.HotRead.Inserted(columns)
	if slot >= 0 {
		in.Slots |= 1 << slot
	}
	if !ok {
		return
	}
	e := expected{row: row}
	for _, rt := range in.reader.routes.All() {
		if rt.pace != nil || rt.Order == adapters.OrderGlobal {
			continue
		}
		if s := rt.Lanes[slot].Session(); s != nil {
			str := s.Streams()[0] // the only one: order is not global
			str.Expect(row.Position)
			e.streams = append(e.streams, str)
		}
	}
	in.rows = append(in.rows, e)
}

// Versions implements outbox.HotVersions.
func (in *Insert) Versions() (xid string, places []string) {
	for _, e := range in.rows {
		xid, places = e.row.XID, append(places, e.row.Place)
	}
	return xid, places
}

// Committed has the rows claimed from memory. It does not wait. Afterwards their slots have to be read: see [Reader.Committed].
func (in *Insert) Committed() {
	failpoint.Hit(failpoint.Hot)
	for _, e := range in.rows {
		for _, str := range e.streams {
			str.Claim(e.row)
		}
	}
}

// Forget says that the transaction was rolled back.
func (in *Insert) Forget() {
	for _, e := range in.rows {
		for _, str := range e.streams {
			str.Unexpect(e.row.Position)
		}
	}
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
