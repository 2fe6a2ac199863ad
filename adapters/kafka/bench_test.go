package kafka

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

const (
	benchLanes = 16
	benchWave  = 1000
)

// benchWaves returns a wave for each lane, as router would send them: 300 bytes
// of payload and 1000 groups.
func benchWaves() [][]*message.Message {
	waves := make([][]*message.Message, benchLanes)
	for l := range waves {
		for i := range benchWave {
			waves[l] = append(waves[l], adapters.NewMessage(&adapters.Row{
				ID: fmt.Sprintf("01J%023d", l*benchWave+i), Type: "order.created",
				Group: fmt.Sprintf("order-%d", l*63+i%63), Position: int64(i),
				Payload: newMessage("", "", 290).Payload,
			}, fmt.Sprintf("orders/%02d", l)))
		}
	}
	return waves
}

// BenchmarkDeliver delivers from 16 lanes at once, wave by wave.
func BenchmarkDeliver(b *testing.B) {
	k := connect(b, testenv.Kafka(b))
	topic := k.topic(b, 8, nil)
	d := destination(b, Config{Brokers: k.addrs, Topic: topic})
	waves := benchWaves()
	run := func(n int) {
		var wg sync.WaitGroup
		for l := range waves {
			wg.Go(func() {
				for range n {
					if errs := d.Deliver(context.Background(), topic, waves[l]); errs != nil {
						b.Error(errs[0])
					}
				}
			})
		}
		wg.Wait()
	}
	run(2)
	perMessage(b, run)
}

// BenchmarkPlain is the floor: one client, every record ready made, and no
// waiting for anything until the end.
func BenchmarkPlain(b *testing.B) {
	k := connect(b, testenv.Kafka(b))
	topic := k.topic(b, 8, nil)
	d := destination(b, Config{Brokers: k.addrs, Topic: topic})
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.addrs...), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	waves := benchWaves()
	encoded := make([]*wave, len(waves))
	for l := range waves {
		encoded[l] = newWave(d)
	}
	run := func(n int) {
		for range n {
			var wg sync.WaitGroup
			for l, w := range encoded {
				w.reset()
				w.encode(topic, waves[l])
				wg.Add(len(w.recs))
				for i := range w.recs {
					cl.Produce(context.Background(), &w.recs[i], func(_ *kgo.Record, err error) {
						if err != nil {
							b.Error(err)
						}
						wg.Done()
					})
				}
			}
			wg.Wait()
		}
	}
	run(2)
	perMessage(b, run)
}

// perMessage runs b.N messages, in whole waves of all lanes.
func perMessage(b *testing.B, run func(n int)) {
	b.ReportAllocs()
	b.ResetTimer()
	run(max(1, b.N/(benchLanes*benchWave)))
}

// BenchmarkEncode is what a wave costs before franz-go has it.
func BenchmarkEncode(b *testing.B) {
	d := destination(b, Config{Brokers: []string{"127.0.0.1:1"}, Topic: "t"})
	batch := benchWaves()[0]
	w := newWave(d)
	b.ReportAllocs()
	b.ResetTimer()
	for range max(1, b.N/benchWave) {
		w.reset()
		w.encode("t", batch)
	}
}
