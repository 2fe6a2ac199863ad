package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// One message of a queue does not move: 10,000 of other groups arrive, and
// afterwards its own group goes on in order.
func TestG6_OneBlockedGroupOfAQueue(t *testing.T) {
	for name, tt := range map[string]struct {
		ordering  adapters.Ordering
		err       error
		followers int
	}{
		"hanging, no followers":     {templated, nil, 0},
		"hanging, many followers":   {templated, nil, 300},
		"hanging, static":           {adapters.Ordering{MaxMessages: 10, MaxRequests: 1000, Static: true}, nil, 300},
		"unavailable, no followers": {templated, outbox.Unavailable(errInjected, 0), 0},
		"unavailable, followers":    {templated, outbox.Unavailable(errInjected, 0), 300},
		"poisoned":                  {templated, errInjected, 300},
		"later":                     {templated, outbox.Transient(errInjected, time.Minute), 300},
	} {
		t.Run(name, func(t *testing.T) {
			inQueueBubble(t, tt.ordering, func(r *queueRig) {
				h := newHanging(tt.err, "slow")
				r.dest.setFail(h.fault)
				var want []string
				for i := range tt.followers + 1 {
					want = append(want, fmt.Sprintf("slow-%d", i))
					r.put("slow", "slow", want[i])
				}
				n := testenv.Size(2000, 10_000)
				if name == "hanging, many followers" || name == "poisoned" { // what G6 promises
					n = 10_000
				}
				for i := range n {
					r.put("fast", fmt.Sprint("k", i%20), fmt.Sprint("m", i))
				}
				r.begin(func(rt *Route) {
					rt.Claims.InMemory, rt.Attempts = 128, 1000000
					rt.SendTimeout = time.Hour
					rt.Middleware = nil
				})
				r.await(n)
				time.Sleep(5 * time.Second)
				close(h.release)
				r.await(n + len(want))
				r.stop()
				if got := r.dest.received()["slow"]; !slices.Equal(got, want) {
					t.Errorf("the slow group: got %v, want %v", got, want)
				}
				r.wantStatuses(map[string]int{"done": n + len(want)})
			})
		})
	}
}

// An address with a large backlog in many groups is down. What goes elsewhere
// arrives, and rows are not claimed and put back all the time.
func TestG6_ADownAddressOfAQueue(t *testing.T) {
	inQueueBubble(t, templated, func(r *queueRig) {
		h := newHanging(outbox.Unavailable(errInjected, 0), "down")
		r.dest.setFail(func(address string, _ *message.Message) error {
			if address == "down" {
				select {
				case <-h.release:
				default:
					return h.err
				}
			}
			return nil
		})
		const blocked, n = 300, 2000
		for i := range blocked {
			r.put("down", fmt.Sprint("d", i%150), fmt.Sprint("down-", i))
		}
		for i := range n {
			r.put("fast", fmt.Sprint("k", i%20), fmt.Sprint("m", i))
		}
		r.begin(func(rt *Route) { rt.Claims.InMemory, rt.Poll.Max = 40, time.Second })
		r.await(n)
		time.Sleep(time.Minute)
		before := r.table.get("down-299").claims
		r.table.mu.Lock()
		puts := r.table.puts
		r.table.mu.Unlock()
		time.Sleep(10 * time.Minute)
		r.table.mu.Lock()
		puts = r.table.puts - puts
		r.table.mu.Unlock()
		// Each row comes once per minute at most.
		if puts > 11*blocked {
			t.Errorf("%d rows were put back within 10 minutes (the last one was claimed %d times before)", puts, before)
		}
		for i := range blocked {
			if row := r.table.get(fmt.Sprint("down-", i)); row.attempts != 0 {
				t.Fatalf("%s has %d attempts", row.ID, row.attempts)
			}
		}
		close(h.release)
		began := time.Now()
		r.await(n + blocked)
		if d := time.Since(began); d > time.Minute {
			t.Errorf("after the outage it took %v", d)
		}
		r.stop()
		r.wantStatuses(map[string]int{"done": n + blocked})
		for g, got := range r.dest.received() {
			if !strings.HasPrefix(g, "d") {
				continue
			}
			i, _ := strconv.Atoi(g[1:])
			if want := []string{fmt.Sprint("down-", i), fmt.Sprint("down-", i+150)}; !slices.Equal(got, want) {
				t.Errorf("group %s: got %v, want %v", g, got, want)
			}
		}
	})
}

// The first of two routes on one queue is down: the other one's rows arrive.
func TestG6_ADownRouteOfAQueue(t *testing.T) {
	inQueueBubble(t, adapters.Ordering{MaxMessages: 10, Static: true}, func(r *queueRig) {
		for i := range 2000 {
			r.put("down", fmt.Sprint("d", i%10), fmt.Sprint("a", i))
			r.put("fast", fmt.Sprint("f", i%10), fmt.Sprint("b", i))
		}
		down := &receiver{ordering: r.dest.ordering}
		down.setFail(func(string, *message.Message) error { return outbox.Unavailable(errInjected, 0) })
		q := r.table.open()
		first := r.from(q, func(rt *Route) {
			rt.Name, rt.Destination, rt.Claims.InMemory = "down", down, 100
			rt.Match = func(row *adapters.Row) bool { return row.Headers["address"] == "down" }
		})
		r.start(first, r.from(q, nil))
		r.await(2000)
		if n := down.count(); n != 0 {
			t.Errorf("%d arrived at the route that is down", n)
		}
		down.setFail(nil)
		r.until("the other route's messages", func() bool { return down.count() == 2000 })
		r.stop()
		r.wantStatuses(map[string]int{"done": 4000})
	})
}

// Memory stays within the budget, whatever the rows' size.
func TestG7_AQueueStaysWithinTheBudget(t *testing.T) {
	for name, blind := range map[string]bool{"by bytes": false, "by estimate": true} {
		t.Run(name, func(t *testing.T) {
			inQueueBubble(t, group, func(r *queueRig) {
				const budget = 4 << 20
				r.config.Memory = budget
				r.table.blind = blind
				random := rand.New(rand.NewPCG(1, 2))
				for i := range 600 {
					size := 100
					if i%3 == 0 {
						size = random.IntN(1 << 20)
					}
					r.table.add(adapters.Row{ID: fmt.Sprintf("g%d-%d", i%6, i/6), Group: fmt.Sprintf("g%d", i%6), Payload: make([]byte, size)})
				}
				var mu sync.Mutex
				peak := int64(0)
				r.dest.setFail(func(string, *message.Message) error {
					time.Sleep(10 * time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					peak = max(peak, r.router.budget.Used.Load())
					return nil
				})
				r.begin(nil)
				r.await(600)
				r.stop()
				r.checkOrdered(6, 100)
				r.wantStatuses(map[string]int{"done": 600})
				if peak > budget {
					t.Errorf("%d bytes were in use, the budget is %d", peak, budget)
				}
				if used := r.router.budget.Used.Load(); used != 0 {
					t.Errorf("%d bytes are in use at the end", used)
				}
			})
		})
	}
}

// sizedQueue counts claims that ask for more rows than their bytes are enough for.
type sizedQueue struct {
	*memQueue
	payload int
	greedy  atomic.Int64
}

func (q *sizedQueue) Claim(ctx context.Context, c adapters.ClaimRequest) ([]*adapters.Row, error) {
	if c.Limit > 1 && c.Bytes < int64(c.Limit*q.payload) {
		q.greedy.Add(1)
	}
	return q.memQueue.Claim(ctx, c)
}

// A claim asks for no more rows than there is memory for, with their payloads. Otherwise a queue reads thousands of rows to find out that
// none of them fits.
func TestG8_AClaimAsksForWhatFits(t *testing.T) {
	inQueueBubble(t, adapters.Ordering{MaxMessages: 100, Static: true}, func(r *queueRig) {
		const groups, each, size = 50, 100, 300
		r.config.Memory = 16 << 20
		for i := range each {
			for g := range groups {
				group := fmt.Sprintf("g%d", g)
				r.table.add(adapters.Row{ID: fmt.Sprintf("%s-%d", group, i), Group: group, Payload: make([]byte, size)})
			}
		}
		r.dest.setFail(func(string, *message.Message) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		})
		q := &sizedQueue{memQueue: r.table.open(), payload: size}
		r.start(r.from(q, func(rt *Route) { rt.Poll.Batch, rt.Claims.InMemory = 2000, 4000 }))
		r.await(groups * each)
		r.stop()
		r.checkOrdered(groups, each)
		if n := q.greedy.Load(); n > 0 {
			t.Errorf("%d claims asked for more rows than their bytes are enough for", n)
		}
	})
}

// What no route matches stays untouched and is counted; what stands behind it
// in its group is delivered. A queue that does not look at Match costs no more
// than a claim a minute.
func TestG1_UnmatchedRowsOfAQueue(t *testing.T) {
	for name, blind := range map[string]bool{"matched in the queue": false, "matched here": true} {
		t.Run(name, func(t *testing.T) {
			inQueueBubble(t, group, func(r *queueRig) {
				r.table.blind = blind
				for i := range 50 {
					r.put("", "g", fmt.Sprint("mine", i))
					r.put("", "g", fmt.Sprint("other", i))
				}
				mine := func(rt *Route) {
					rt.Match = func(row *adapters.Row) bool { return strings.HasPrefix(row.ID, "mine") }
				}
				r.begin(mine)
				r.await(50)
				time.Sleep(10 * time.Minute)
				if n := r.router.Stats()[0].Queue.Unmatched; n != 50 && !blind {
					t.Errorf("%d are counted as unmatched, want 50", n)
				}
				r.stop()
				r.wantStatuses(map[string]int{"done": 50, "pending": 50})
				claims := r.table.get("other0").claims
				if most := map[bool]int{true: 11}[blind]; claims > most {
					t.Errorf("a row that nobody wants was claimed %d times, at most %d may be", claims, most)
				}
			})
		})
	}
}

// A poll interval that is fixed is kept under load; an adaptive one is not.
func TestAQueueIsPolledAsConfigured(t *testing.T) {
	for name, tt := range map[string]struct {
		poll Poll
		want int // messages after 10 s
	}{
		"fixed":    {Poll{Batch: 5, Min: time.Second, Max: time.Second}, 50},
		"adaptive": {Poll{Batch: 5}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			inQueueBubble(t, group, func(r *queueRig) {
				r.fill(10, 50)
				r.begin(func(rt *Route) { rt.Poll = tt.poll })
				time.Sleep(9900 * time.Millisecond)
				if n := r.dest.count(); n != tt.want {
					t.Errorf("%d arrived, want %d", n, tt.want)
				}
				r.stop()
			})
		})
	}
}

// Whoever has committed in this process wakes a claimer, however it polls.
func TestG1_AWokenQueueDoesNotWaitForAFixedPoll(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		q := r.begin(func(rt *Route) { rt.Poll = Poll{Min: time.Hour, Max: time.Hour} })
		time.Sleep(time.Second) // it has found nothing
		r.fill(1, 3)
		r.router.Wake(q)
		time.Sleep(time.Second)
		if n := r.dest.count(); n != 3 {
			t.Errorf("%d arrived, want 3", n)
		}
		r.stop()
	})
}
