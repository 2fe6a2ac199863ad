package faults_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// redisBroker is a server of Redis.
func redisBroker(t *testing.T) broker {
	s := testenv.StartRedis(t)
	client := redis.NewClient(&redis.Options{Addr: s.Address()})
	t.Cleanup(func() { _ = client.Close() })
	last := "0"
	network := testenv.StartProxy(t, s.Address())
	return broker{server: s, network: network, section: fmt.Sprintf("type: redis, addresses: [%q], stream: orders, format: raw, timeout: 2s", network.Address()),
		source: fmt.Sprintf("type: redis, addresses: [%q], stream: orders, group: relay", s.Address()),
		content: reading(t, func(ctx context.Context, take func(id, group string)) error {
			for {
				found, err := client.XRangeN(ctx, "orders", "("+last, "+", 1000).Result()
				if err != nil || len(found) == 0 {
					return err
				}
				for _, entry := range found {
					id, _ := entry.Values["id"].(string)
					group, _ := entry.Values[outbox.MetaGroup].(string)
					take(id, group)
					last = entry.ID
				}
			}
		})}
}
