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
	b.ReportAllocs()
	src := newSpring(b.N)
	dst := &sink{}
	r, err := New(Config{Logger: slog.New(slog.DiscardHandler)}, []Route{{
		Name: "orders", Source: src, State: newMemState(), Destination: dst, Middleware: stack(0, 10),
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

// spring yields rows that are made as they are read.
type spring struct {
	memSource
	left    int
	next    [16]int64
	groups  [16][]string
	open    chan struct{}
	payload []byte
}

func newSpring(n int) *spring {
	s := &spring{left: n, open: make(chan struct{}), payload: make([]byte, 300)}
	for i := range 1000 {
		group := "customer-" + strconv.Itoa(i)
		slot := adapters.SlotOf(group, "")
		s.groups[slot] = append(s.groups[slot], group)
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
		next := rd.From
		slab := make([]adapters.Row, max(rd.Limit, 0))
		page := &adapters.Page{From: rd.From}
		for j := range slab {
			if !flows || s.left == 0 {
				break
			}
			s.left--
			s.next[rd.Slot]++
			p := s.next[rd.Slot]
			slab[j] = adapters.Row{ID: id, Type: "order.placed", Slot: rd.Slot, Position: p, Page: page,
				Group: s.groups[rd.Slot][int(p)%len(s.groups[rd.Slot])], Payload: append([]byte(nil), s.payload...)}
			next = slab[j].After()
			if !take(i, &slab[j]) {
				return nil, nil
			}
		}
		out[i] = adapters.ReadResult{Next: next, Drained: !flows || s.left == 0}
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
