package router

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
)

// BenchmarkRoute measures what a message costs between a source and a
// destination that cost next to nothing: its place, its chain with the default
// middleware, the gate, its verdict and settling.
func BenchmarkRoute(b *testing.B) {
	for name, first := range map[string]bool{"waiting chains": false, "deliver first": true} {
		b.Run(name, func(b *testing.B) { benchmarkRoute(b, first) })
	}
}

func benchmarkRoute(b *testing.B, deliverFirst bool) {
	b.ReportAllocs()
	src := newSpring(b.N)
	dst := &sink{}
	r, err := New(Config{Logger: slog.New(slog.DiscardHandler)}, []Route{{
		Name: "orders", Source: src, State: newMemState(), Destination: dst, Middleware: stack(0, 10), DeliverFirst: deliverFirst,
	}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	<-r.Ready()
	b.ResetTimer()
	close(src.open)
	for dst.n.Load() < int64(b.N) {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// spring yields rows that are made as they are read: at a position of a slot there is
// the same one again, because a row that found no room is read once more.
type spring struct {
	memSource
	last    [adapters.Slots]int64 // position of the last row
	groups  [adapters.Slots][]string
	open    chan struct{}
	payload []byte
	created time.Time
}

func newSpring(n int) *spring {
	s := &spring{open: make(chan struct{}), payload: make([]byte, 300), created: time.Now()}
	for i := range 1000 {
		group := "customer-" + strconv.Itoa(i)
		slot := adapters.SlotOf(group, "")
		s.groups[slot] = append(s.groups[slot], group)
	}
	for i := range n {
		s.last[i%adapters.Slots]++
	}
	return s
}

func (s *spring) Fetch(_ context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) ([]adapters.ReadResult, error) {
	out := make([]adapters.ReadResult, len(reads))
	flows := false
	select {
	case <-s.open:
		flows = true
	default:
	}
	const id = "01JCXW5Z3M8Q4T6V7Y9B2D1F0G"
	for i, rd := range reads {
		next, last := rd.From, rd.From.Position
		if flows {
			last = s.last[rd.Slot]
		}
		if rd.Until != nil {
			last = min(last, rd.Until.Position)
		}
		slab := make([]adapters.Row, max(min(int64(rd.Limit), last-rd.From.Position), 0))
		page := &adapters.Page{From: rd.From}
		for j := range slab {
			p := rd.From.Position + int64(j) + 1
			slab[j] = adapters.Row{ID: id, CreatedAt: s.created, Type: "order.placed", Slot: rd.Slot, Position: p, Page: page,
				Group: s.groups[rd.Slot][int(p)%len(s.groups[rd.Slot])], Payload: append([]byte(nil), s.payload...)}
			next = slab[j].After()
			if !take(i, &slab[j]) {
				return nil, nil
			}
		}
		out[i] = adapters.ReadResult{Next: next, Drained: next.Position >= last}
	}
	return out, nil
}

// sink takes whole waves.
type sink struct{ n atomic.Int64 }

func (*sink) Ordering() adapters.Ordering {
	return adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: 2000, Static: true}
}
func (*sink) Address(*message.Message) (string, error) { return "orders", nil }
func (d *sink) Deliver(_ context.Context, _ string, batch []*message.Message) []error {
	d.n.Add(int64(len(batch)))
	return nil
}
func (*sink) Close() error { return nil }
