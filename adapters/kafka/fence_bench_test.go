package kafka

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

// BenchmarkExclusive is what transactions cost: waves of several sizes from
// 16 lanes at once, plain, exclusive and with notes. docs/exclusive.md has the figures.
func BenchmarkExclusive(b *testing.B) {
	k := connect(b, testenv.Kafka(b))
	topic := k.topic(b, 8, nil)
	for _, size := range []int{1, 10, 100, benchWave} {
		for _, way := range []string{"no", "exclusive", "once"} {
			b.Run(fmt.Sprintf("wave=%d/%s", size, way), func(b *testing.B) {
				d := destination(b, Config{Brokers: k.addrs, Topic: topic, Exclusive: way != "no", Once: way == "once", TransactionalID: topic})
				benchThrough(b, d, topic, size)
			})
		}
	}
}

// benchThrough delivers waves of a size until there are b.N messages.
func benchThrough(b *testing.B, d *Destination, topic string, size int) {
	lanes := make([]adapters.Destination, benchLanes)
	for l := range lanes {
		lanes[l] = through(b, d, fmt.Sprintf("orders/%02d", l))
	}
	waves := benchWaves()
	run := func(n int) {
		var wg sync.WaitGroup
		for l, own := range lanes {
			wg.Go(func() { deliverWaves(b, own, topic, waves[l][:size], n) })
		}
		wg.Wait()
	}
	run(3)
	n := max(1, b.N/(benchLanes*size))
	before := cpu()
	b.ReportAllocs()
	b.ResetTimer()
	run(n)
	messages := float64(n * benchLanes * size)
	b.ReportMetric(messages/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64((cpu()-before).Microseconds())/messages, "cpu-us/msg")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(n), "ms/wave")
}

func deliverWaves(b *testing.B, own adapters.Destination, topic string, wave []*message.Message, n int) {
	for range n {
		var errs []error
		if once, ok := own.(adapters.OnceDestination); ok {
			errs = once.DeliverOnce(context.Background(), topic, wave, longNotes{})
		} else {
			errs = own.Deliver(context.Background(), topic, wave)
		}
		if errs != nil {
			b.Error(errs[0])
		}
	}
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for a wrong argument only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// longNotes are the notes of lanes that have delivered nothing yet, as long as they can be.
type longNotes struct{}

func (longNotes) Read(map[string]string) {}
func (longNotes) Delivered(int) bool     { return false }
func (longNotes) Write([]int) string     { return strings.Repeat("x", adapters.NoteMost) }
func (longNotes) Committed()             {}
