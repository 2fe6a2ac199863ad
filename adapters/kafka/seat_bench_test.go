package kafka

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func alwaysOwned(context.Context) (bool, error) { return true, nil }

var _ = kgo.TryCommit

// BenchmarkExclusive compares waves with and without transactions, from 16 lanes
// at once, at several sizes of waves.
func BenchmarkExclusive(b *testing.B) {
	k := connect(b, testenv.Kafka(b))
	topic := k.topic(b, 8, nil)
	for _, size := range []int{1, 10, 100, 1000} {
		for _, exclusive := range []bool{false, true} {
			b.Run(fmt.Sprintf("wave=%d/exclusive=%v", size, exclusive), func(b *testing.B) {
				d := destination(b, Config{Brokers: k.addrs, Topic: topic, Exclusive: exclusive})
				waves := benchWaves()
				through := make([]outbox.Destination, len(waves))
				for l := range waves {
					through[l] = d
					if exclusive {
						through[l] = d.Fence(fmt.Sprintf("%s/%02d", topic, l), alwaysOwned)
						defer through[l].Close()
					}
				}
				run := func(n int) {
					var wg sync.WaitGroup
					for l := range waves {
						wg.Go(func() {
							for range n {
								if errs := through[l].Deliver(context.Background(), topic, waves[l][:size]); errs != nil {
									b.Error(errs[0])
								}
							}
						})
					}
					wg.Wait()
				}
				run(3)
				b.ReportAllocs()
				b.ResetTimer()
				n := max(1, b.N/(benchLanes*size))
				run(n)
				b.ReportMetric(float64(n*benchLanes*size)/b.Elapsed().Seconds(), "msg/s")
				b.ReportMetric(b.Elapsed().Seconds()*1000/float64(n), "ms/wave")
			})
		}
	}
}
