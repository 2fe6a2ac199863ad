package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// lateSource is a log table whose writers commit in another order than they write, in memory. A snapshot
// is the number of transactions that had been committed.
type lateSource struct {
	*memSource
	commits []int // by row: the number of its commit; 0: not committed
	last    int   // number of the latest commit
}

// begin writes the rows of a transaction.
func (s *lateSource) begin(group string, n int) (from, to int) {
	from = len(s.rows)
	for range n {
		row := &adapters.Row{ID: fmt.Sprint("m", len(s.rows)), Type: "t", Payload: []byte(group), CreatedAt: time.Now()}
		s.add(row) // by its id in any slot, as rows are that have no group
		s.mu.Lock()
		s.commits = append(s.commits, 0)
		s.mu.Unlock()
	}
	return from, len(s.rows)
}

func (s *lateSource) commit(from, to int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	for i := from; i < to; i++ {
		s.commits[i] = s.last
	}
}

// Covers implements [adapters.SnapshotComparer].
func (s *lateSource) Covers(snapshot, other string) bool { return number(snapshot) >= number(other) }

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func (s *lateSource) Start(context.Context, adapters.Start) (adapters.Cursor, error) {
	return adapters.Cursor{Snapshot: "0"}, nil
}

// Fetch follows the rule of cursors that adapters/postgres/internal/reader states.
func (s *lateSource) Fetch(_ context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) ([]adapters.ReadResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]adapters.ReadResult, len(reads))
	for i, rd := range reads {
		target, upto := s.last, int64(len(s.commits)) // a row that insert has just added is not there yet
		next := adapters.ReadResult{Drained: true, Next: adapters.Cursor{Position: rd.From.Position}}
		switch {
		case rd.From.Window != "":
			target, upto, next.Drained = number(rd.From.Window), rd.From.Position, false
		case rd.Until != nil:
			if rd.Until.Position < rd.From.Position || number(rd.Until.Snapshot) < number(rd.From.Snapshot) {
				return nil, fmt.Errorf("the bound %+v does not cover %+v", *rd.Until, rd.From)
			}
			target, upto = number(rd.Until.Snapshot), rd.Until.Position
			next.Next.Position = upto
		}
		next.Next.Snapshot = strconv.Itoa(target)
		page, n := &adapters.Page{From: rd.From, Snapshot: next.Next.Snapshot}, 0
		for p, row := range s.rows[:upto] {
			late := row.Position <= rd.From.Position
			if row.Slot != rd.Slot || s.commits[p] == 0 || s.commits[p] > target ||
				late && (s.commits[p] <= number(rd.From.Snapshot) || rd.From.Window != "" && row.Position <= rd.From.Paged) {
				continue
			}
			given := *row
			given.Page, given.Late = page, late
			if !late && rd.Until == nil {
				next.Next = given.After()
			}
			if !take(i, &given) {
				return nil, nil
			}
			if n++; n == rd.Limit {
				next = adapters.ReadResult{Next: given.After()}
				break
			}
		}
		out[i] = next
	}
	return out, nil
}

// Transactions commit in another order than they wrote, while instances stop, crash and take over. Writers of a group take turns:
// its rows arrive in the order in which they were written, in whichever slots they are and wherever each slot's cursor stands. Two routes
// share reads as long as they stand at one place, which their windows part.
func TestG2_GlobalOrderOfLateCommits(t *testing.T) {
	for seed := uint64(20); seed < 20+uint64(testenv.Brief(4, 16)); seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inBubble(t, wave, func(r *rig) { playLateCommits(r, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

// openTransaction is one that a group's writer has not ended yet.
type openTransaction struct {
	from, to int
	until    time.Time
}

func playLateCommits(r *rig, random *rand.Rand) {
	src := &lateSource{memSource: r.source}
	var dead atomic.Bool
	r.dest.setFail(func(string, *message.Message) error {
		if dead.Load() {
			return errInjected
		}
		return nil
	})
	store := &mortal{memState: r.state}
	begin := func() {
		store = &mortal{memState: r.state}
		route := func(name string, window int) Route {
			return r.route(func(rt *Route) {
				rt.Name, rt.Source, rt.State, rt.Order, rt.Window = name, src, store, adapters.OrderGlobal, window
			})
		}
		r.start(route("orders", 64), route("copies", 24))
	}
	begin()
	open := map[string]openTransaction{}
	written := 0
	for range 400 {
		group := fmt.Sprint("g", random.IntN(6))
		if tx, busy := open[group]; busy {
			if !time.Now().Before(tx.until) {
				src.commit(tx.from, tx.to)
				delete(open, group)
			}
		} else {
			n := 1 + random.IntN(4)
			if random.IntN(20) == 0 {
				n = 300 // more late rows of each slot than a read takes
			}
			from, to := src.begin(group, n)
			written += n
			open[group] = openTransaction{from, to, time.Now().Add(time.Duration(random.IntN(300)) * time.Millisecond)}
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		switch random.IntN(40) {
		case 0:
			r.stop()
			begin()
		case 1:
			dead.Store(true)
			store.dead.Store(true)
			r.state.evict()
			r.cancel()
			if err := <-r.done; err != nil { // there was something to settle
				r.t.Log(err)
			}
			dead.Store(false)
			begin()
		}
	}
	for _, tx := range open {
		src.commit(tx.from, tx.to)
	}
	r.until("everything arrives", func() bool { return len(arrivals(r.dest)) == 2*written })
	r.stop()
	furthest := map[string]int{}
	for _, msg := range arrivals(r.dest) {
		group, at := routeOf(msg)+" "+string(msg.Payload), number(msg.UUID[1:])
		if before, ok := furthest[group]; ok && at < before {
			r.t.Errorf("row %d of %s arrived behind row %d", at, group, before)
		}
		furthest[group] = at
	}
}

// routeOf is the route by which a message arrived.
func routeOf(msg *message.Message) string {
	route, _, _ := strings.Cut(msg.Metadata[outbox.MetaLane], "/")
	return route
}

// arrivals are the first arrivals of messages by each route, in order.
func arrivals(d *receiver) (first []*message.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[string]bool{}
	for _, msg := range d.got {
		if key := routeOf(msg) + " " + msg.UUID; !seen[key] {
			seen[key] = true
			first = append(first, msg)
		}
	}
	return first
}
