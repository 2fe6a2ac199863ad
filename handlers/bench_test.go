package handlers

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
)

// BenchmarkGate measures a message's way through a gate, with the goroutine
// that Watermill runs for it and a destination that does nothing but yield, so
// that batches grow as they do while a broker answers: 16 lanes with 1000
// groups among them, windows of 1024 messages.
func BenchmarkGate(b *testing.B) {
	for _, bm := range []struct {
		name     string
		ordering adapters.Ordering
		groups   int
		yields   int
	}{
		{"wave", adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: 5000}, 1000, 10},
		{"group", adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 100}, 1000, 10},
		{"group of one", adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 1, MaxGroups: 1}, 1000, 10},
		{"wave, one group", adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: 5000}, 1, 10},
		{"wave, no groups", adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: 5000}, 0, 10},
		{"wave, instant", adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: 5000}, 1000, 0},
	} {
		b.Run(bm.name, func(b *testing.B) { benchmarkGate(b, bm.ordering, bm.groups, bm.yields) })
	}
}

func benchmarkGate(b *testing.B, ordering adapters.Ordering, groups, yields int) {
	const lanes, window = 16, 1024
	var batches atomic.Int64
	destination := &destination{ordering: ordering, deliver: func(context.Context, string, []*message.Message) []error {
		batches.Add(1)
		for range yields {
			runtime.Gosched()
		}
		return nil
	}}
	limiter := NewLimiter(adapters.DefaultMaxRequests, false)
	var all sync.WaitGroup
	b.ReportAllocs()
	for lane := range lanes {
		keys := []string{""}
		for i := lane; i < groups; i += lanes {
			keys = append(keys, fmt.Sprint("group ", i))
		}
		if len(keys) > 1 {
			keys = keys[1:]
		}
		g := NewGate(GateConfig{Destination: destination, Limiter: limiter, SendTimeout: time.Minute,
			Allow: func(string, *Ticket) Allowance { return AllowAll }, Permit: func() bool { return true }})
		all.Go(func() { benchmarkLane(b.N/lanes+1, window, g, keys) })
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/float64(batches.Load()), "msgs/batch")
}

// benchmarkLane brings n messages through one gate, never more than the window
// at once.
func benchmarkLane(n, window int, g *Gate, keys []string) {
	msg := message.NewMessage("id", make([]byte, 300))
	msg.Metadata["address"] = "x"
	msg.SetContext(quiet{context.Background(), nil})
	room := make(chan struct{}, window)
	for i := range n {
		room <- struct{}{}
		t := new(Ticket) // part of the item that a lane makes
		g.Enter(t, keys[i%len(keys)])
		go func() {
			_ = g.Handle(t, msg)
			<-room
		}()
	}
	for range window {
		room <- struct{}{}
	}
	g.Stop()
}
