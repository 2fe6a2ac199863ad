package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Rows that the table refuses, rows that another session has locked, and lanes that move to another instance meet in the same writes: all
// other rows are written, each lane without a locked row moves, and at last every row is done, in order. Only a refused row of a lane that moved is sent again.
func TestG1_G2_G3_LockedAndRefusedRowsWhileLanesMove(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inQueueBubble(t, group, func(r *queueRig) {
				const groups, each = 20, 10
				random := rand.New(rand.NewPCG(seed, 0))
				pick := func(n int) (rows []string) {
					for range n {
						rows = append(rows, fmt.Sprintf("g%d-%d", random.IntN(groups), random.IntN(each)))
					}
					return rows
				}
				locked, refused := pick(1+random.IntN(4)), pick(1+random.IntN(4))
				odd := map[string]bool{}
				for _, row := range slices.Concat(locked, refused) {
					odd[row] = true
				}
				var free atomic.Bool
				r.table.locked = func(id string) bool { return slices.Contains(locked, id) && !free.Load() }
				mend := r.refusing(func(res adapters.ClaimResult) bool { return slices.Contains(refused, res.Claim.Key) })
				r.fill(groups, each)
				a := r.joins("a", nil)
				a.until("all others are written", func() bool { return r.table.statuses()["done"] == groups*each-len(odd) })
				time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
				stays := map[int]bool{} // lanes with a locked row that is not refused: its result is known, and is written when the lock goes
				for _, row := range locked {
					group, _, _ := strings.Cut(row, "-")
					if slot := adapters.SlotOf(group, ""); !slices.Contains(refused, row) && slot >= adapters.Slots/2 {
						stays[slot] = true
					}
				}
				b := r.joins("b", nil)
				b.until("the other lanes move", func() bool { return r.state.lanesOf("b")["orders"] == adapters.Slots/2-len(stays) })
				steps := []func(){func() { free.Store(true) }, mend}
				if random.IntN(2) == 0 {
					slices.Reverse(steps)
				}
				for _, step := range steps {
					time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
					step()
				}
				b.until("all is written", func() bool { return r.table.statuses()["done"] == groups*each })
				b.until("all lanes move", func() bool { return r.state.lanesOf("b")["orders"] == adapters.Slots/2 })
				a.stop()
				b.stop()
				r.checkOrdered(groups, each)
				for _, row := range r.table.rows {
					if row.claims > 1 && !slices.Contains(refused, row.ID) {
						t.Errorf("%s was claimed %d times", row.ID, row.claims)
					}
				}
			})
		})
	}
}
