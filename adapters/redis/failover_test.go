package redis

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// await returns when done reports true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// follow makes a server a replica of another, and returns when it has all that is there.
func follow(t *testing.T, replica, master *testenv.RedisServer) {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Address())
	if err := client(t, replica.Address()).Do(t.Context(), "replicaof", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	m := client(t, master.Address())
	await(t, "the replica follows", func() bool {
		n, err := m.Do(t.Context(), "wait", 1, 100).Int()
		return err == nil && n == 1
	})
}

// confirming is how long a replica that is there may take to confirm, on a busy machine.
const confirming = 8 * time.Second

// What replicas do not confirm is sent again, but not while they are missing: each try would be stored.
func TestReplicasHaveToConfirm(t *testing.T) {
	t.Parallel()
	master, replica := testenv.StartRedis(t), testenv.StartRedis(t)
	follow(t, replica, master)
	servers := at(master.Address())
	servers.Timeout = confirming + time.Second
	d := destination(t, Config{Servers: servers, Stream: "orders", Replicas: 1, ReplicaTimeout: confirming})
	msgs := sequence("g", 20)
	deliverAll(t, d, "orders", msgs[:10], 5)
	if n := len(entries(t, client(t, replica.Address()), "orders")); n != 10 {
		t.Errorf("the replica has %d messages, and confirmed 10", n)
	}
	replica.Freeze()
	d.cfg.ReplicaTimeout = time.Second
	errs := d.Deliver(t.Context(), "orders", msgs[10:12])
	if outbox.KindOf(errs[0]) != outbox.KindUnavailable || !strings.Contains(errs[0].Error(), "0 of 1 replicas confirmed") {
		t.Errorf("without a replica: %v", errs[0])
	}
	replica.Kill()
	c := client(t, master.Address())
	await(t, "the master misses its replica", func() bool { return info(c.Info(t.Context(), "replication").Val())["connected_slaves"] == "0" })
	for range 3 {
		if err := d.Deliver(t.Context(), "orders", msgs[10:12])[0]; !strings.Contains(err.Error(), "nothing is sent") {
			t.Errorf("while the replica is missing: %v", err)
		}
	}
	if n := len(entries(t, c, "orders")); n != 12 {
		t.Errorf("%d messages were stored while the replica was missing, want 12 in all", n)
	}
	d.cfg.ReplicaTimeout = confirming
	replica.Start()
	follow(t, replica, master)
	deliverAll(t, d, "orders", msgs[10:], 5)
	if n := wantOnceInOrder(t, c, "orders", msgs); n > 2 {
		t.Errorf("%d duplicates of 2 messages with an unknown outcome", n)
	}
}

func TestG10_SentinelsNameTheNextMaster(t *testing.T) {
	t.Parallel()
	master, replica := testenv.StartRedis(t), testenv.StartRedis(t)
	follow(t, replica, master)
	sentinel := testenv.StartRedisSentinel(t, master)
	s := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Address(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = s.Close() })
	await(t, "the sentinel knows the replica", func() bool {
		known, err := s.Replicas(t.Context(), "main").Result()
		return err == nil && len(known) == 1 && known[0]["flags"] == "slave" && known[0]["master-link-status"] == "ok"
	})
	servers := at(sentinel.Address())
	servers.Sentinel.Master, servers.Timeout = "main", confirming+time.Second
	d := destination(t, Config{Servers: servers, Stream: "orders", Replicas: 1, ReplicaTimeout: confirming})
	msgs := sequence("g", 100)
	deliverAll(t, d, "orders", msgs[:50], 10)
	master.Kill()
	c := client(t, replica.Address())
	await(t, "the replica is the master", func() bool { return info(c.Info(t.Context(), "replication").Val())["role"] == "master" })
	if kind := outbox.KindOf(d.Deliver(t.Context(), "orders", msgs[50:51])[0]); kind != outbox.KindUnavailable {
		t.Errorf("the next master has no replica: %v", kind)
	}
	d.cfg.Replicas = 0
	deliverAll(t, d, "orders", msgs[50:], 10)
	if n := wantOnceInOrder(t, c, "orders", msgs); n > 1 {
		t.Errorf("%d duplicates, 1 message had an unknown outcome", n)
	}
}

// A cluster moves a stream to another node.
func TestG10_StreamsMoveBetweenNodesOfACluster(t *testing.T) {
	t.Parallel()
	const slots = 16384
	nodes := []*testenv.RedisServer{testenv.StartRedisNode(t), testenv.StartRedisNode(t)}
	a, b := client(t, nodes[0].Address()), client(t, nodes[1].Address())
	do := func(c *redis.Client, args ...any) string {
		t.Helper()
		v, err := c.Do(t.Context(), args...).Result()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return fmt.Sprint(v)
	}
	do(a, "cluster", "addslotsrange", 0, slots-1)
	host, port, _ := net.SplitHostPort(nodes[1].Address())
	_, bus, _ := net.SplitHostPort(nodes[1].ClusterBus())
	do(a, "cluster", "meet", host, port, bus)
	await(t, "both nodes agree", func() bool {
		return strings.Contains(do(b, "cluster", "info"), "cluster_state:ok") && strings.Contains(do(a, "cluster", "info"), "cluster_known_nodes:2")
	})
	servers := at(nodes[0].Address())
	servers.Cluster = true
	d := destination(t, Config{Servers: servers, Stream: "{{.Type}}"})
	msgs := sequence("g", 100)
	deliverAll(t, d, "orders", msgs[:50], 10)

	slot, target := do(a, "cluster", "keyslot", "orders"), do(b, "cluster", "myid")
	do(b, "cluster", "setslot", slot, "importing", do(a, "cluster", "myid"))
	do(a, "cluster", "setslot", slot, "migrating", target)
	do(a, "migrate", host, port, "orders", 0, 5000)
	if err := d.Deliver(t.Context(), "orders", msgs[50:51])[0]; outbox.KindOf(err) != outbox.KindUnavailable || !strings.Contains(err.Error(), "ASK") {
		t.Errorf("while the stream moves: %v", err)
	}
	do(b, "cluster", "setslot", slot, "node", target)
	do(a, "cluster", "setslot", slot, "node", target)
	deliverAll(t, d, "orders", msgs[50:], 10)
	if n := wantOnceInOrder(t, b, "orders", msgs); n != 0 {
		t.Errorf("%d duplicates", n)
	}
	alone := destination(t, Config{Servers: at(nodes[0].Address()), Stream: "orders"})
	if err := alone.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "cluster: true") {
		t.Errorf("a cluster that is not called one: %v", err)
	}
}
