package demo

import (
	"context"
	"sync/atomic"
	"time"
)

// longestCycle is the period after which the trouble repeats. A shorter demo has all
// of it once.
const longestCycle = 20 * time.Second

// trouble makes receivers fail and recover repeatedly.
type trouble struct {
	cycle     time.Duration
	receivers map[string]*receiver   // by region
	now       atomic.Pointer[string] // the current trouble, in words
}

// scene is a moment of the cycle at which something changes.
type scene struct {
	at   float64 // share of the cycle
	text string
	play func(context.Context) error
}

func newTrouble(length time.Duration, receivers []*receiver) *trouble {
	t := &trouble{cycle: longestCycle, receivers: map[string]*receiver{}}
	if length > 0 {
		t.cycle = min(length, longestCycle)
	}
	for _, r := range receivers {
		t.receivers[r.region] = r
	}
	t.say("all receivers are healthy")
	return t
}

func (t *trouble) scenes() []scene {
	return []scene{
		{0.15, "customer " + failingCustomer + " answers 500: its groups wait, all others flow", func(context.Context) error {
			return t.failCustomer(true)
		}},
		{0.40, failingCustomer + " has recovered", func(context.Context) error {
			return t.failCustomer(false)
		}},
		{0.55, "region " + failingRegion + " refuses connections: its groups wait, all others flow", func(context.Context) error {
			return t.receivers[failingRegion].close()
		}},
		{0.75, "region " + failingRegion + " is back", t.receivers[failingRegion].open},
		{1, "all receivers are healthy", func(context.Context) error { return nil }},
	}
}

// run plays the scenes until ctx ends.
func (t *trouble) run(ctx context.Context) error {
	if len(t.receivers) == 0 { // a broker's troubles are its own
		<-ctx.Done()
		return nil
	}
	for begin := time.Now(); ; begin = begin.Add(t.cycle) {
		for _, s := range t.scenes() {
			at := begin.Add(time.Duration(s.at * float64(t.cycle)))
			timer := time.NewTimer(time.Until(at))
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return nil
			}
			if err := s.play(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			t.say(s.text)
		}
	}
}

// heal ends all trouble. It is called after run.
func (t *trouble) heal(ctx context.Context) error {
	t.say("the shop is closed; parked groups are retried within seconds")
	_ = t.failCustomer(false) // never fails
	if r := t.receivers[failingRegion]; r != nil && !r.isOpen() {
		return r.open(ctx)
	}
	return nil
}

// failCustomer is set on all receivers; only the one that serves the customer fails.
func (t *trouble) failCustomer(yes bool) error {
	for _, r := range t.receivers {
		r.failing.Store(yes)
	}
	return nil
}

func (t *trouble) say(text string) { t.now.Store(&text) }
