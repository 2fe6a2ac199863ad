package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
)

// hotQueue is a queue of whose rows those can be claimed from memory that this process has committed.
type hotQueue struct{ *memQueue }

var _ adapters.HotQueue = hotQueue{}

func (q hotQueue) Announce(string) adapters.HotInsert { return &hotInsert{} }
func (q hotQueue) SkipRecent(time.Duration)           {}

func (q hotQueue) ClaimHot(c adapters.ClaimRequest, rows []*adapters.HotRow) (claimed []*adapters.Row, left int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, hot := range rows {
		i := slices.IndexFunc(q.rows, func(r *queueRow) bool { return r.ID == hot.Key })
		switch r := q.rows[i]; {
		case r.status != "pending":
		case !c.Match(&r.Row):
			left++
		default:
			claimed = append(claimed, q.take(r))
		}
	}
	return claimed, left
}

// hotInsert has returned the ids of rows.
type hotInsert struct{ rows []*adapters.HotRow }

func (*hotInsert) Statement() string          { return "" }
func (i *hotInsert) Rows() []*adapters.HotRow { return i.rows }
func (i *hotInsert) Forget()                  { i.rows = nil }
func (i *hotInsert) Inserted(columns []*string) {
	i.rows = append(i.rows, &adapters.HotRow{Key: *columns[0], At: time.Now()})
}

// There is room for one row. While it is taken, a row waits in memory that was committed here, and an older one in the table: the former is next.
// Both the claimer's next poll and the hot queue are signalled when there is room, so there are many rounds.
func TestRowsInMemoryGoBeforeThoseOfTheTable(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		var release chan struct{}
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if strings.HasPrefix(msg.UUID, "first") {
				<-release
			}
			return nil
		})
		q := hotQueue{r.table.open()}
		r.start(r.from(q, func(rt *Route) { rt.Claims.InMemory, rt.Hot = 1, Hot{Capacity: 10} }))
		var want []string
		for i := range 20 {
			first, hot, cold := fmt.Sprint("first ", i), fmt.Sprint("in memory ", i), fmt.Sprint("of the table ", i)
			release = make(chan struct{})
			r.put("", "g1", first)
			r.until("the first row is claimed", func() bool { return r.table.get(first).status == "processing" })
			r.put("", "g2", cold)
			in := r.router.Announce(q, "")
			r.put("", "g3", hot)
			in.Inserted([]*string{&hot})
			in.Committed()
			synctest.Wait()
			if s := r.router.Stats()[0].Queue; s.HotWaiting != 1 {
				t.Errorf("%d rows wait in memory, want 1", s.HotWaiting)
			}
			close(release)
			want = append(want, first, hot, cold)
			r.await(len(want))
		}
		r.stop()
		if got := r.dest.arrived(); !slices.Equal(got, want) {
			t.Errorf("delivered %q, want %q", got, want)
		}
		r.wantStatuses(map[string]int{"done": len(want)})
	})
}
