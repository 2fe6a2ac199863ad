package router

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

var _ adapters.HotSource = (*memSource)(nil)

// Announce implements [adapters.HotSource].
func (m *memSource) Announce(string) adapters.HotRead { return memInsert{m} }

// memInsert inserts the row that comes next.
type memInsert struct{ source *memSource }

func (i memInsert) Statement() string { return "" }

// Inserted implements [adapters.HotRead].
func (i memInsert) Inserted([]*string) (row adapters.HotLogRow, slot int, ok bool) {
	m := i.source
	m.mu.Lock()
	defer m.mu.Unlock()
	copied, before := *m.coming, int64(0)
	copied.Position, copied.Payload = int64(len(m.rows)+1), m.lending.lend(copied.Payload)
	copied.Slot = adapters.SlotOf(copied.Group, copied.ID)
	for _, r := range m.rows {
		if r.Group == copied.Group {
			before = r.Position
		}
	}
	return adapters.HotLogRow{Row: &copied, Follows: func(c adapters.Cursor, known func(int64) bool) bool {
		return before <= c.Position || known(before)
	}}, copied.Slot, true
}

// publish has a row committed by this process, by the hot path. Some commits are heard of late, and in another order, and of some nothing is ever heard.
func (r *run) publish(row *adapters.Row) {
	r.source.mu.Lock()
	r.source.coming = row
	r.source.mu.Unlock()
	in := r.router.AnnounceRows(r.source, "")
	in.Inserted(nil)
	r.source.add(row)
	switch r.random.IntN(8) {
	case 0:
		r.untold = append(r.untold, in)
		return
	case 1:
		in.Forget()
		return
	}
	in.Committed()
	if r.random.IntN(4) == 0 {
		r.hearOf()
	}
	if r.random.IntN(2) == 0 {
		r.router.Committed(r.source, in.Slots)
	}
}

// hearOf has the commits heard of that were not yet.
func (r *run) hearOf() {
	r.random.Shuffle(len(r.untold), func(i, j int) { r.untold[i], r.untold[j] = r.untold[j], r.untold[i] })
	for _, in := range r.untold {
		in.Committed()
	}
	r.untold = nil
}

// hot inserts a row by the hot path, and commits.
func (r *rig) hot(row *adapters.Row) {
	r.source.mu.Lock()
	r.source.coming = row
	r.source.mu.Unlock()
	in := r.router.AnnounceRows(r.source, "")
	in.Inserted(nil)
	r.source.add(row)
	in.Committed()
}

// Rows are delivered from memory while the table does not answer, behind which one of another process is left to the read. A next
// owner, whose cursor is before all of them, delivers none of them again.
func TestG2_G3_HotRowsNeedNoRead(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		var hung atomic.Pointer[chan struct{}]
		r.source.slow = func() {
			if c := hung.Load(); c != nil {
				<-*c
			}
		}
		row := func(id string) *adapters.Row {
			return &adapters.Row{ID: id, Type: "t", Group: "g", Payload: []byte("{}"), CreatedAt: time.Now()}
		}
		r.start(r.route(nil))
		r.hot(row("0")) // nothing was read yet, and no lane is there
		r.await(1)
		time.Sleep(time.Second)
		hang := make(chan struct{})
		hung.Store(&hang)
		time.Sleep(time.Second) // the reader waits for an answer
		r.hot(row("1"))
		r.hot(row("2"))
		if synctest.Wait(); r.dest.count() != 3 {
			t.Errorf("%d messages have arrived, want 3", r.dest.count())
		}
		r.source.add(row("3"))
		r.hot(row("4"))
		time.Sleep(time.Second)
		if r.dest.count() != 3 {
			t.Errorf("%d messages have arrived, want 3: what another process has written was not read", r.dest.count())
		}
		r.cancel()
		synctest.Wait()
		hung.Store(nil)
		close(hang)
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.start(r.route(nil))
		r.await(5)
		time.Sleep(time.Second)
		r.stop()
		if got := r.dest.received()["g"]; !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
			t.Errorf("got %q", got)
		}
	})
}

// A row that was delivered from memory and is gone when a read passes its place is remembered no longer: another row may have its position one day.
func TestG1_HotRowsThatAreGoneAreForgotten(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		var hung atomic.Pointer[chan struct{}]
		r.source.slow = func() {
			if c := hung.Load(); c != nil {
				<-*c
			}
		}
		row := func(id string) *adapters.Row {
			return &adapters.Row{ID: id, Type: "t", Group: "g", Payload: []byte("{}"), CreatedAt: time.Now()}
		}
		r.start(r.route(nil))
		r.source.add(row("0"))
		r.await(1)
		hang := make(chan struct{})
		hung.Store(&hang)
		time.Sleep(time.Second) // a read is under way that does not see what follows
		r.hot(row("1"))
		r.hot(row("2"))
		r.await(3)
		time.Sleep(time.Second)
		slot := adapters.SlotOf("g", "")
		if beyond := r.state.beyond(slot); len(beyond) != 2 {
			t.Errorf("settled beyond the cursor are %v, want the two rows", beyond)
		}
		r.source.mu.Lock()
		gone := *r.source.rows[1]
		gone.Slot = -1
		r.source.rows = slices.Clone(r.source.rows)
		r.source.rows[1] = &gone
		r.source.mu.Unlock()
		hung.Store(nil)
		close(hang)
		time.Sleep(10 * time.Second)
		if beyond := r.state.beyond(slot); len(beyond) != 0 {
			t.Errorf("settled beyond the cursor are %v, want none", beyond)
		}
		r.stop()
		if got := r.dest.received()["g"]; !slices.Equal(got, []string{"0", "1", "2"}) {
			t.Errorf("got %q", got)
		}
	})
}

// beyond are the positions of a slot that are written as settled beyond the cursor.
func (m *memState) beyond(slot int) []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ref, st := range m.lanes {
		if ref.Slot == slot {
			return st.Beyond
		}
	}
	return nil
}
