package nats

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/outriderhq/outrider/internal/testenv/natsserver"
)

// eachSync runs a benchmark on a server that writes to disk now and then, and on one that does so before each acknowledgement.
func eachSync(b *testing.B, run func(b *testing.B, url string)) {
	for name, always := range map[string]bool{"lazy": false, "always": true} {
		b.Run(name, func(b *testing.B) {
			s := natsserver.Start(b, func(o *server.Options) { o.SyncAlways = always })
			createStream(b, admin(b, s.ClientURL()), "S", []string{"s"}, nil)
			run(b, s.ClientURL())
		})
	}
}

// BenchmarkDeliver delivers waves of 1,000 messages of 300 bytes.
func BenchmarkDeliver(b *testing.B) {
	eachSync(b, func(b *testing.B, url string) {
		d := destination(b, url, Config{Subject: "s"})
		next := 0
		for b.Loop() {
			b.StopTimer()
			msgs := make([]*message.Message, maxWaveMessages)
			for i := range msgs {
				msgs[i] = newMessage(fmt.Sprintf("e%d", next), strconv.Itoa(next%1000), 290)
				next++
			}
			b.StartTimer()
			if errs := d.Deliver(context.Background(), "s", msgs); errs != nil {
				b.Fatal(errs[0])
			}
		}
		b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "msg/s")
	})
}

// bare makes waves with the same headers, which the floor sends.
func bare(b *testing.B, url string, send func(js jetstream.JetStream, msgs []*natsgo.Msg)) {
	js := admin(b, url)
	d := destination(b, url, Config{Subject: "s"})
	next := 0
	for b.Loop() {
		b.StopTimer()
		msgs := make([]*natsgo.Msg, maxWaveMessages)
		for i := range msgs {
			var err error
			if msgs[i], _, err = d.encode("s", newMessage(fmt.Sprintf("e%d", next), strconv.Itoa(next%1000), 290), nil); err != nil {
				b.Fatal(err)
			}
			next++
		}
		b.StartTimer()
		send(js, msgs)
	}
	b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkBareBatch is the floor of waves: the same client's batches.
func BenchmarkBareBatch(b *testing.B) {
	eachSync(b, func(b *testing.B, url string) {
		bare(b, url, func(js jetstream.JetStream, msgs []*natsgo.Msg) {
			if _, err := jetstreamext.PublishMsgBatch(context.Background(), js, msgs); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// BenchmarkBareAsync publishes a wave asynchronously, without any order when something fails.
func BenchmarkBareAsync(b *testing.B) {
	eachSync(b, func(b *testing.B, url string) {
		bare(b, url, func(js jetstream.JetStream, msgs []*natsgo.Msg) {
			futures := make([]jetstream.PubAckFuture, len(msgs))
			for i, msg := range msgs {
				var err error
				if futures[i], err = js.PublishMsgAsync(msg); err != nil {
					b.Fatal(err)
				}
			}
			for _, f := range futures {
				select {
				case <-f.Ok():
				case err := <-f.Err():
					b.Fatal(err)
				}
			}
		})
	})
}
