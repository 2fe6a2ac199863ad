package router

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// queueRig is a rig whose route claims from a queue.
type queueRig struct {
	*rig
	table *queueTable
}

// inQueueBubble runs a test with a queue, in virtual time.
func inQueueBubble(t *testing.T, o adapters.Ordering, f func(r *queueRig)) {
	t.Helper()
	inBubble(t, o, func(r *rig) {
		q := &queueRig{r, newQueueTable()}
		f(q)
		q.table.mu.Lock()
		defer q.table.mu.Unlock()
		if len(q.table.problems) > 0 {
			t.Errorf("the queue was misused: %q", q.table.problems[:min(len(q.table.problems), 8)])
		}
	})
}

// from is a route that claims from the queue.
func (r *queueRig) from(q adapters.Queue, change func(*Route)) Route {
	return r.route(func(rt *Route) {
		rt.Source, rt.Queue = nil, q
		if change != nil {
			change(rt)
		}
	})
}

func (r *queueRig) begin(change func(*Route)) *memQueue {
	r.t.Helper()
	q := r.table.open()
	r.start(r.from(q, change))
	return q
}

func (r *queueRig) put(address, group, id string) {
	r.table.add(adapters.Row{ID: id, Type: "t", Group: group, Payload: []byte(`{}`), CreatedAt: time.Now(),
		Headers: map[string]string{"address": address}})
}

// fill writes n messages to each of so many groups, interleaved.
func (r *queueRig) fill(groups, n int) {
	for i := range n {
		for g := range groups {
			r.put("", fmt.Sprintf("g%d", g), fmt.Sprintf("g%d-%d", g, i))
		}
	}
}

func (r *queueRig) wantStatuses(want map[string]int) {
	r.t.Helper()
	if got := r.table.statuses(); !maps.Equal(got, want) {
		r.t.Errorf("the statuses are %v, want %v", got, want)
	}
}

// wantRow checks a row's status and failed attempts.
func (r *queueRig) wantRow(id, status string, attempts int) {
	r.t.Helper()
	if got := r.table.get(id); got.status != status || got.attempts != attempts {
		r.t.Errorf("%s is %s with %d attempts, want %s with %d", id, got.status, got.attempts, status, attempts)
	}
}

func TestG1_G2_AQueueIsDeliveredInOrder(t *testing.T) {
	for name, o := range map[string]adapters.Ordering{"wave": wave, "group": group, "single": {}} {
		t.Run(name, func(t *testing.T) {
			inQueueBubble(t, o, func(r *queueRig) {
				r.table.delay = func() time.Duration { return time.Millisecond }
				r.fill(50, 40)
				r.begin(func(rt *Route) { rt.Claims.InMemory = 300 })
				r.await(2000)
				r.stop()
				r.checkOrdered(50, 40)
				r.wantStatuses(map[string]int{"done": 2000})
				r.wantParked()
			})
		})
	}
}

// Every failed attempt is in the table before the next one is made, and the
// group waits for it.
func TestG2_AQueueCountsAttemptsInTheTable(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.fill(3, 6)
		var seen []int
		r.table.retried = func(id string, attempts int) {
			if id == "g1-2" {
				seen = append(seen, attempts)
			}
		}
		tries := 0
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if msg.UUID != "g1-2" {
				return nil
			}
			if tries++; tries > 3 {
				return nil
			}
			if got := r.table.get("g1-2").attempts; got != tries-1 {
				t.Errorf("attempt %d: the table counts %d", tries, got)
			}
			return errors.New("status 500")
		})
		r.begin(nil)
		r.await(18)
		r.stop()
		r.checkOrdered(3, 6)
		r.wantRow("g1-2", "done", 3)
		r.wantStatuses(map[string]int{"done": 18})
		if !slices.Equal(seen, []int{1, 2, 3}) {
			t.Errorf("the table was told %v attempts, want 1, 2, 3", seen)
		}
	})
}

func TestG1_AQueueKeepsItsDead(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.fill(3, 6)
		r.dest.setFail(func(_ string, msg *message.Message) error {
			switch msg.UUID {
			case "g1-2":
				return errors.New("status 500")
			case "g2-0":
				return outbox.Permanent(errors.New("status 422"))
			}
			return nil
		})
		r.begin(func(rt *Route) { rt.Middleware, rt.Attempts = stack(time.Second, 4), 4 })
		r.await(16)
		time.Sleep(time.Minute)
		r.stop()
		r.wantRow("g1-2", "dead", 4)
		r.wantRow("g2-0", "dead", 1)
		if text := r.table.get("g1-2").text; !strings.Contains(text, "status 500") {
			t.Errorf("the error in the table is %q", text)
		}
		r.wantStatuses(map[string]int{"done": 16, "dead": 2})
		want := []string{"g1-0", "g1-1", "g1-3", "g1-4", "g1-5"}
		if got := r.dest.received()["g1"]; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// While a platform is down, no attempt is burnt, however it says so. (A message
// that was the failing probe a hundred times would be dead after all; see health.)
func TestG10_AnOutageCostsAQueueNoAttempts(t *testing.T) {
	for name, err := range map[string]error{
		"unavailable": outbox.Unavailable(errors.New("connection refused"), 0),
		"status 500":  errors.New("status 500"),
	} {
		t.Run(name, func(t *testing.T) {
			inQueueBubble(t, adapters.Ordering{MaxMessages: 10, Static: true}, func(r *queueRig) {
				r.fill(10, 200)
				r.dest.setFail(func(string, *message.Message) error { return err })
				r.begin(func(rt *Route) {
					rt.Middleware, rt.Attempts, rt.Claims.InMemory = stack(time.Second, 100), 100, 100
				})
				time.Sleep(7 * time.Minute) // longer than claims live
				if got := r.router.Stats()[0].Oldest; got != 7*time.Minute {
					t.Errorf("the oldest is %v old, want 7m", got)
				}
				if got := r.table.statuses()["dead"]; got != 0 {
					t.Errorf("%d are dead", got)
				}
				r.dest.setFail(nil)
				r.await(2000)
				r.stop()
				r.checkOrdered(10, 200)
				r.wantStatuses(map[string]int{"done": 2000})
				for g := range 10 {
					r.wantRow(fmt.Sprintf("g%d-0", g), "done", 0)
				}
				if s := r.router.Stats()[0].Queue; s.Lost != 0 || s.Recovered != 0 {
					t.Errorf("%d were lost, %d recovered", s.Lost, s.Recovered)
				}
			})
		})
	}
}

// Whatever is under way, after a stop nothing is marked as being processed, and
// nothing comes twice.
func TestG3_AStoppedQueueHoldsNothing(t *testing.T) {
	for name, o := range map[string]adapters.Ordering{"wave": wave, "group": group} {
		t.Run(name, func(t *testing.T) {
			inQueueBubble(t, o, func(r *queueRig) {
				r.table.delay = func() time.Duration { return 3 * time.Millisecond }
				slow := flaky(outbox.Transient(errInjected, 1200*time.Millisecond))
				r.dest.setFail(func(a string, msg *message.Message) error {
					time.Sleep(time.Millisecond)
					return slow(a, msg)
				})
				r.fill(20, 50)
				for i := range 10 {
					r.begin(func(rt *Route) { rt.Claims.InMemory = 200 })
					r.await(min(100*(i+1), 900))
					r.stop()
					if n := r.table.statuses()["processing"]; n != 0 {
						t.Fatalf("after stop %d: %d rows are marked as being processed", i+1, n)
					}
				}
				r.begin(nil)
				r.await(1000)
				time.Sleep(5 * time.Second)
				r.stop()
				r.checkOrdered(20, 50)
				r.wantStatuses(map[string]int{"done": 1000})
			})
		})
	}
}

// A table that cannot be written at the end is told: what was delivered comes
// again.
func TestG3_AQueueThatCannotBeSettledSaysSo(t *testing.T) {
	inQueueBubble(t, wave, func(r *queueRig) {
		r.config.DrainTimeout = time.Second
		r.fill(2, 2)
		r.table.fail = func(what string) error {
			if what == "Settle" {
				return errTable
			}
			return nil
		}
		r.begin(nil)
		r.await(4)
		r.cancel()
		if err := <-r.done; err == nil || !strings.Contains(err.Error(), "4 rows stay marked as being processed") {
			t.Errorf("got %v", err)
		}
	})
}

// A table that is away for a moment at the end costs no duplicates.
func TestG3_AStoppingQueueTriesAgain(t *testing.T) {
	inQueueBubble(t, wave, func(r *queueRig) {
		r.config.DrainTimeout = 10 * time.Second
		r.fill(2, 2)
		var back time.Time // guarded by the table's mutex
		r.table.fail = func(what string) error {
			if what == "Settle" && (back.IsZero() || time.Now().Before(back)) {
				return errTable
			}
			return nil
		}
		r.begin(nil)
		r.await(4)
		r.table.mu.Lock()
		back = time.Now().Add(5 * time.Second)
		r.table.mu.Unlock()
		r.stop()
		r.wantStatuses(map[string]int{"done": 4})
	})
}

func TestG11_WhatAQueueCannotDoIsRefused(t *testing.T) {
	t.Parallel()
	q := newQueueTable().open()
	for want, change := range map[string]func(*Route){
		"order global needs a source":  func(r *Route) { r.Order = adapters.OrderGlobal },
		"and only one of them":         func(r *Route) { r.Source = &memSource{} },
		"needs a state store":          func(r *Route) { r.State = nil },
		"needs a source, a queue or a": func(r *Route) { r.Queue = nil },
	} {
		def := Route{Name: "jobs", Queue: q, Destination: &receiver{}, State: newMemState()}
		change(&def)
		if _, err := New(Config{}, []Route{def}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
