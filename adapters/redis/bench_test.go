package redis

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/outriderhq/outrider/internal/testenv"
)

// wavesOf is how many messages of 300 bytes the benchmarks send at once.
const wavesOf = 500

// BenchmarkDeliver delivers waves; an operation is a message.
func BenchmarkDeliver(b *testing.B) {
	address, stream := testenv.StartRedis(b, "appendonly no").Address(), newKey(b)
	d := destination(b, Config{Servers: at(address), Stream: stream, MaxLen: 100_000})
	batch := sequence("g", wavesOf)
	for i := range batch {
		batch[i] = newMessage(strconv.Itoa(i), "g", 290)
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += wavesOf {
		if errs := d.Deliver(b.Context(), stream, batch); errs != nil {
			b.Fatal(errs[0])
		}
	}
}

// BenchmarkBare is what a loop with the same client reaches that adds the same entries in a pipeline, as a transaction or without.
func BenchmarkBare(b *testing.B) {
	for name, pipe := range map[string]func(*redis.Client) redis.Pipeliner{"pipeline": (*redis.Client).Pipeline, "transaction": (*redis.Client).TxPipeline} {
		b.Run(name, func(b *testing.B) {
			address, stream := testenv.StartRedis(b, "appendonly no").Address(), newKey(b)
			servers := at(address)
			c, _ := servers.open(1).(*redis.Client)
			b.Cleanup(func() { _ = c.Close() })
			msg := newMessage("1", "g", 290)
			for n := 0; n < b.N; n += wavesOf {
				p := pipe(c)
				for range wavesOf {
					p.XAdd(b.Context(), &redis.XAddArgs{Stream: stream, MaxLen: 100_000, Approx: true, Values: []any{
						"_watermill_message_uuid", msg.UUID, "metadata", metadata(msg.Metadata), "payload", []byte(msg.Payload)}})
				}
				if _, err := p.Exec(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
