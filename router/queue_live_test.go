package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// partQueue is a queue that notifies, and whose claims read a part of it each, as those of a large table do, and say so.
type partQueue struct {
	*memQueue
	random *rand.Rand // of the goroutine that claims
	parts  int        // claims that it takes to read everything
	rests  int        // after so many of ten times that everything was read, claims read only one half for a while
	part   int        // that the next claim reads
	began  time.Time  // when the first part was read
	odd    int        // the half
	look   adapters.Coverage
	woken  chan struct{}
	follow bool // every commit wakes the claimer
	claims atomic.Int64

	mu     sync.Mutex
	asleep bool
	open   int // transactions that took the claimer to be awake
}

func (q *partQueue) Claim(ctx context.Context, c adapters.ClaimRequest) ([]*adapters.Row, error) {
	q.claims.Add(1)
	now, match, part, of := time.Now(), c.Match, q.part, q.parts
	rests := now.Before(q.look.Next)
	if rests {
		part, of = q.odd, 2
	} else if part == 0 {
		q.began = now
	}
	c.Match = func(row *adapters.Row) bool { return adapters.SlotOf(row.Group, row.ID)%of == part && match(row) }
	rows, err := q.memQueue.Claim(ctx, c)
	if rests || err != nil || len(rows) == c.Limit { // there may be more
		return rows, err
	}
	if q.part = (part + 1) % of; q.part == 0 {
		if q.look.Since = q.began; q.random.IntN(10) < q.rests {
			q.look.Next, q.odd = time.Now().Add(time.Duration(q.random.IntN(2000))*time.Millisecond), q.random.IntN(2)
		}
	}
	return rows, err
}

func (q *partQueue) Coverage() adapters.Coverage {
	look := q.look
	if look.Due = q.due(q.look.Since); !look.Due.IsZero() && !look.Due.After(time.Now()) {
		look.Since, look.Due = time.Time{}, time.Time{}
	}
	return look
}

func (q *partQueue) Wake() <-chan struct{} { return q.woken }

func (q *partQueue) Sleep(context.Context) adapters.Sleep {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open > 0 {
		return adapters.Draining
	}
	q.asleep = true
	return adapters.Armed
}

func (q *partQueue) Follows() bool { return q.follow }

func (q *partQueue) Awake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asleep = false
}

// write inserts a row, and commits after a while.
func (q *partQueue) write(id, group string, open time.Duration) {
	row := adapters.Row{ID: id, Group: group, Payload: []byte("{}"), CreatedAt: time.Now()}
	q.mu.Lock()
	call := q.asleep
	if !call {
		q.open++
	}
	q.mu.Unlock()
	time.Sleep(open)
	q.table().add(row)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.follow:
		signal.Send(q.woken)
	case !call:
		q.open--
	case q.asleep:
		q.asleep = false
		signal.Send(q.woken)
	}
}

func (q *partQueue) table() *queueTable { return q.queueTable }

// liveScenario is what is random about TestG13_WhatIsReadyInAQueueIsSent.
type liveScenario struct {
	order         adapters.OrderMode
	ordering      adapters.Ordering
	parts, rests  int // see partQueue
	writers, each int
	groups        int // 0: rows have none
	claims        Claims
	faults        int  // of a hundred statements, so many fail
	delay         int  // of statements, at most, in milliseconds
	refused       int  // of a hundred messages, so many are delivered at the second try
	dues          bool // the table says when a row is due again
	follow        bool // every commit wakes the claimer
	others        int  // then other transactions are committed meanwhile, one in so many milliseconds at most; 0: none
	seed          uint64
}

func drawLiveScenario(t *rapid.T) liveScenario {
	return liveScenario{
		order: rapid.SampledFrom([]adapters.OrderMode{adapters.OrderGroup, adapters.OrderNone}).Draw(t, "order"),
		ordering: rapid.SampledFrom([]adapters.Ordering{
			{}, {Unit: adapters.UnitWave, MaxMessages: 50}, {Unit: adapters.UnitGroup, MaxMessages: 8, MaxRequests: 4}, {MaxMessages: 10, Static: true},
		}).Draw(t, "unit"),
		parts:   rapid.IntRange(1, 3).Draw(t, "parts"),
		rests:   rapid.IntRange(0, 9).Draw(t, "rests"),
		writers: rapid.IntRange(1, 4).Draw(t, "writers"),
		each:    rapid.IntRange(1, 20).Draw(t, "each"),
		groups:  rapid.IntRange(0, 6).Draw(t, "groups"),
		claims:  Claims{InMemory: rapid.IntRange(4, 100).Draw(t, "memory"), PerGroup: rapid.IntRange(1, 30).Draw(t, "per group")},
		faults:  rapid.SampledFrom([]int{0, 0, 5, 20}).Draw(t, "faults"),
		delay:   rapid.SampledFrom([]int{1, 20, 100, 1000}).Draw(t, "delay"),
		refused: rapid.SampledFrom([]int{0, 0, 10, 50}).Draw(t, "refused"),
		dues:    rapid.Bool().Draw(t, "dues"),
		follow:  rapid.Bool().Draw(t, "follow"),
		others:  rapid.SampledFrom([]int{0, 2, 20, 200}).Draw(t, "others"),
		seed:    rapid.Uint64().Draw(t, "seed"),
	}
}

func (sc liveScenario) play(t *testing.T) (err error) {
	r := &queueRig{newRig(t, sc.ordering), newQueueTable()}
	random := rand.New(rand.NewPCG(sc.seed, 1))
	var mu sync.Mutex
	number := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	// At least a little: with statements that take no time at all, it cannot be told whether a commit was before a claim.
	r.table.delay = func() time.Duration { return time.Duration(number(sc.delay))*time.Millisecond + time.Microsecond }
	r.table.fail = func(string) error {
		if number(100) < sc.faults {
			return errTable
		}
		return nil
	}
	r.table.dues = sc.dues
	tried := map[string]bool{}
	r.dest.setFail(func(_ string, msg *message.Message) error {
		refuse := number(100) < sc.refused
		mu.Lock()
		defer mu.Unlock()
		if refuse = refuse && !tried[msg.UUID]; refuse {
			tried[msg.UUID] = true
			return errInjected
		}
		return nil
	})
	q := &partQueue{memQueue: r.table.open(), random: rand.New(rand.NewPCG(sc.seed, 2)), parts: sc.parts, rests: sc.rests,
		follow: sc.follow, woken: make(chan struct{}, 1)}
	r.start(r.from(q, func(rt *Route) {
		rt.Order, rt.Claims, rt.Poll = sc.order, sc.claims, Poll{Min: time.Hour, Max: time.Hour, Batch: 60}
		rt.Middleware[1] = middleware.Retry{Attempts: 100, Base: 2 * time.Second, Factor: 1}.Middleware
	}))
	var writing sync.WaitGroup
	for w := range sc.writers {
		writing.Go(func() {
			for i := range sc.each {
				time.Sleep(time.Duration(number(300)) * time.Millisecond)
				group := ""
				if sc.groups > 0 {
					group = fmt.Sprintf("g%d", number(sc.groups))
				}
				q.write(fmt.Sprintf("m%d-%d", w, i), group, time.Duration(number(200))*time.Millisecond)
			}
		})
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		writing.Wait()
	}()
	for others := sc.follow && sc.others > 0; others; {
		signal.Send(q.woken)
		others = signal.Sleep(time.Duration(number(sc.others))*time.Millisecond+time.Microsecond, written)
	}
	<-written
	all, stall := sc.writers*sc.each, 30*time.Second
	if sc.refused > 0 { // a request fails as a whole, so that some messages are tried again and again
		stall = 5 * time.Minute
	}
	for n := r.table.statuses()["done"]; err == nil && n < all; {
		was := n
		time.Sleep(stall)
		if n = r.table.statuses()["done"]; n == was {
			err = fmt.Errorf("%d of %d rows were delivered, and none in the last %v; the next poll is in an hour", n, all, stall)
		}
	}
	before := q.claims.Load()
	time.Sleep(10 * time.Minute)
	if n := q.claims.Load() - before; err == nil && n > 100 {
		err = fmt.Errorf("%d claims in ten idle minutes", n)
	}
	r.stop()
	return err
}

// Whatever a claim leaves out, and whenever rows become visible: rows are delivered until none is
// left, without a stall although no poll is due, and once everything has been
// looked at no claims follow.
func TestG13_WhatIsReadyInAQueueIsSent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := drawLiveScenario(rt)
		var err error
		synctest.Test(t, func(t *testing.T) { err = sc.play(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// A row that is committed while a round goes on, among the commits of others, is found by the next round: it is not left to the poll.
func TestG13_ARowAmongTheCommitsOfOthersIsNotLeftToThePoll(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			sc := liveScenario{order: adapters.OrderGroup, parts: 2, writers: 1, each: 5, groups: 1, claims: Claims{InMemory: 4, PerGroup: 23},
				delay: 20, follow: true, others: 2, seed: seed}
			if err := sc.play(t); err != nil {
				t.Error(err)
			}
		})
	}
}
