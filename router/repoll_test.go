package router

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/router/internal/lane"
)

// otherPolls are settings of all kinds: fixed and growing, small and large, rare and often.
func otherPolls(i int) Poll {
	return []Poll{
		{Batch: 1 + i, Min: time.Millisecond, Max: time.Millisecond},
		{Batch: 7, Max: time.Hour},
		{Batch: 100 * (i + 1)},
		{Min: time.Hour, Max: time.Hour},
	}[i%4]
}

// repolled changes how a source is polled 100 times, every 10 ms. The last settings
// are fixed, rare ones: with them nothing arrives but by the next change.
func repolled(t *testing.T, r *Router, source any) {
	t.Helper()
	var before []*lane.Session
	for i := range 100 {
		if i == 10 { // the lanes are ours by now
			before = r.routes.All()[0].Sessions()
		}
		r.SetPoll(source, otherPolls(i))
		time.Sleep(10 * time.Millisecond)
	}
	if after := r.routes.All()[0].Sessions(); len(before) == 0 || !slices.Equal(before, after) {
		t.Errorf("of %d sessions %d are left or new", len(before), len(after))
	}
}

// A source that is read is polled in another way from its next poll on, and keeps its lanes.
func TestG3_ASourceIsPolledAnewWithoutADrain(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.fill(20, 30)
		r.start(r.route(func(rt *Route) { rt.Poll = Poll{Batch: 1, Min: time.Hour, Max: time.Hour} }))
		repolled(t, r.router, r.source)
		r.await(600)
		time.Sleep(time.Second)
		r.fill(20, 30)
		time.Sleep(time.Minute)
		if n := r.dest.count(); n != 600 {
			t.Errorf("%d arrived with polls an hour apart, want 600", n)
		}
		r.router.SetPoll(r.source, Poll{})
		r.await(1200)
		time.Sleep(time.Second)
		if n := r.dest.count(); n != 1200 {
			t.Errorf("%d arrived, want 1200 once each", n)
		}
		r.fill(20, 30) // with nothing to wake the reader
		time.Sleep(10 * time.Second)
		if n := r.dest.count(); n != 1800 {
			t.Errorf("%d arrived by polls a second apart, want 1800", n)
		}
		r.stop()
	})
}

// So is a queue, and what is claimed stays claimed.
func TestG3_AQueueIsPolledAnewWithoutADrain(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.fill(20, 30)
		q := r.begin(func(rt *Route) { rt.Poll = Poll{Batch: 1, Min: time.Hour, Max: time.Hour} })
		repolled(t, r.router, q)
		r.await(600)
		r.router.SetPoll(q, Poll{Min: time.Hour, Max: time.Hour})
		time.Sleep(time.Second)
		for i := range 30 {
			r.put("", "late", "late-"+string(rune('a'+i)))
		}
		time.Sleep(time.Minute)
		if n := r.dest.count(); n != 600 {
			t.Errorf("%d arrived with polls an hour apart, want 600", n)
		}
		r.router.SetPoll(q, Poll{Batch: 5})
		r.await(630)
		r.table.mu.Lock()
		last := r.table.limits[len(r.table.limits)-1]
		r.table.mu.Unlock()
		if last != 5 {
			t.Errorf("the last claim was of %d rows, want 5", last)
		}
		time.Sleep(time.Second)
		if n := r.dest.count(); n != 630 {
			t.Errorf("%d arrived, want 630 once each", n)
		}
		r.stop()
		r.wantStatuses(map[string]int{"done": 630})
	})
}

// longestDelay changes the poll 100 times, every 10 ms, while a message is written each millisecond, and returns
// for how long a message waited at most until it was delivered.
func longestDelay(t *testing.T, r *Router, source any, dest *receiver, write func(id string)) (longest time.Duration) {
	t.Helper()
	var mu sync.Mutex
	written := map[string]time.Time{}
	dest.mu.Lock()
	dest.fail = func(_ string, msg *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		longest = max(longest, time.Since(written[msg.UUID]))
		return nil
	}
	dest.mu.Unlock()
	for i := range 1000 {
		if i%10 == 0 {
			r.SetPoll(source, otherPolls(i/10))
		}
		id := fmt.Sprint("m", i)
		mu.Lock()
		written[id] = time.Now()
		mu.Unlock()
		write(id)
		time.Sleep(time.Millisecond)
	}
	r.SetPoll(source, Poll{Max: 10 * time.Millisecond})
	time.Sleep(time.Second)
	if n := dest.count(); n != 1000 {
		t.Errorf("%d messages arrived, want 1000 once each", n)
	}
	mu.Lock()
	defer mu.Unlock()
	return longest
}

// In virtual time a delay is what the relay waits for, whatever the machine is: a change of the poll makes
// no message wait that the settings before or after it would not have.
func TestG3_ChangesOfThePollDelayNothing(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.start(r.route(nil))
		<-r.router.Ready()
		if longest := longestDelay(t, r.router, r.source, r.dest, func(id string) { r.add("g"+id[len(id)-1:], id) }); longest > 50*time.Millisecond {
			t.Errorf("a message waited for %v, want 50 ms at most", longest)
		}
		r.stop()
	})
}

func TestG3_ChangesOfThePollOfAQueueDelayNothing(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		q := r.begin(nil)
		<-r.router.Ready()
		if longest := longestDelay(t, r.router, q, r.dest, func(id string) { r.put("", "g"+id[len(id)-1:], id) }); longest > 50*time.Millisecond {
			t.Errorf("a message of the queue waited for %v, want 50 ms at most", longest)
		}
		r.stop()
	})
}
