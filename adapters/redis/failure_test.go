package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// deliverAll delivers messages in order until none is left, at most so many at a time, as the router does.
func deliverAll(t *testing.T, d *Destination, stream string, msgs []*message.Message, most int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(msgs) > 0 {
		if ctx.Err() != nil {
			t.Errorf("%d messages are left", len(msgs))
			return
		}
		n := min(most, len(msgs))
		var again []*message.Message
		for i, err := range d.Deliver(ctx, stream, msgs[:n]) {
			if kind := outbox.KindOf(err); err != nil && kind != outbox.KindUnavailable && kind != outbox.KindReleased {
				t.Errorf("message %s: %v", msgs[i].UUID, err)
			}
			if err != nil {
				again = append(again, msgs[i])
			}
		}
		msgs = append(again, msgs[n:]...)
	}
}

// sequence returns n messages of a group.
func sequence(group string, n int) (msgs []*message.Message) {
	for i := range n {
		msgs = append(msgs, newMessage(fmt.Sprintf("%s-%05d", group, i), group, 10))
	}
	return msgs
}

// wantOnceInOrder checks that each message is in the stream, and that the first arrivals of a group are in order. It returns how many
// more there are.
func wantOnceInOrder(t *testing.T, c redis.Cmdable, stream string, msgs []*message.Message) (duplicates int) {
	t.Helper()
	first := map[string]int{}
	for i, e := range entries(t, c, stream) {
		id, _ := e.Values[redisstream.UUIDHeaderKey].(string)
		if _, ok := first[id]; ok {
			duplicates++
			continue
		}
		first[id] = i
	}
	last := map[string]int{}
	for _, msg := range msgs {
		at, ok := first[msg.UUID]
		group := msg.Metadata[outbox.MetaGroup]
		switch before, some := last[group]; {
		case !ok:
			t.Errorf("message %s is lost", msg.UUID)
			continue
		case some && at < before:
			t.Errorf("message %s is out of order", msg.UUID)
		}
		last[group] = at
	}
	return duplicates
}

// A connection that breaks anywhere in a batch leaves all of it or nothing.
func TestG2_ACutConnectionStoresTheWholeBatchOrNothing(t *testing.T) {
	t.Parallel()
	s := testenv.StartRedis(t)
	c, p := client(t, s.Address()), testenv.StartProxy(t, s.Address())
	d := destination(t, Config{Servers: at(p.Address()), Stream: "{{.Type}}"})
	msgs := sequence("g", 100)
	for cut := range 30 {
		stream := fmt.Sprint("cut-", cut)
		lift := p.Limit(cut * 1024)
		errs := d.Deliver(t.Context(), stream, msgs)
		stored := len(entries(t, c, stream))
		lift()
		p.Cut()
		if stored != 0 && stored != len(msgs) {
			t.Errorf("after %d KiB %d of %d messages are stored", cut, stored, len(msgs))
		}
		if errs == nil && stored != len(msgs) || errs != nil && outbox.KindOf(errs[0]) != outbox.KindUnavailable {
			t.Errorf("after %d KiB %d messages are stored: %v", cut, stored, errs)
		}
		deliverAll(t, d, stream, msgs, 40)
		wantOnceInOrder(t, c, stream, msgs)
	}
}

// An answer that is lost leaves the outcome unknown: the batch is sent again, and is there twice.
func TestG2_ALostAnswerIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := testenv.StartRedis(t)
	c, p := client(t, s.Address()), testenv.StartProxy(t, s.Address())
	d := destination(t, Config{Servers: at(p.Address()), Stream: "orders"})
	msgs := sequence("g", 10)
	deliverAll(t, d, "orders", msgs[:1], 1) // the connection is there
	release := p.Hang()
	lost := make(chan []error)
	go func() { lost <- d.Deliver(t.Context(), "orders", msgs[1:3]) }()
	await(t, "the messages are stored", func() bool { return c.XLen(t.Context(), "orders").Val() == 3 })
	p.Cut()
	if got := kinds(msgs[1:3], <-lost); got != "g-00001 unavailable, g-00002 unavailable" {
		t.Errorf("a batch without an answer: %s", got)
	}
	release()
	deliverAll(t, d, "orders", msgs[1:], 100)
	if n := wantOnceInOrder(t, c, "orders", msgs); n != 2 {
		t.Errorf("%d duplicates, and 2 messages had an unknown outcome", n)
	}
}

// A server that hangs is an outage after the timeout. It executes what it was sent when it goes on: order and messages are kept.
func TestG10_AServerThatHangsIsAnOutage(t *testing.T) {
	t.Parallel()
	s := testenv.StartRedis(t)
	d := destination(t, Config{Servers: Servers{Addresses: []string{s.Address()}, Timeout: 200 * time.Millisecond}, Stream: "orders"})
	msgs := sequence("g", 200)
	deliverAll(t, d, "orders", msgs[:50], 10)
	s.Freeze()
	errs := d.Deliver(t.Context(), "orders", msgs[50:60])
	if outbox.KindOf(errs[0]) != outbox.KindUnavailable || !strings.Contains(errs[0].Error(), "within 200ms") {
		t.Errorf("a server that hangs: %v", errs[0])
	}
	_ = d.Deliver(t.Context(), "orders", msgs[50:51])
	s.Thaw()
	deliverAll(t, d, "orders", msgs[50:], 10)
	wantOnceInOrder(t, client(t, s.Address()), "orders", msgs)
}

// Lanes deliver at the same time while the server is killed and started again.
func TestG2_G10_AServerThatIsKilledLosesAndInvertsNothing(t *testing.T) {
	t.Parallel()
	s := testenv.StartRedis(t)
	d := destination(t, Config{Servers: at(s.Address()), Stream: "orders"})
	kills := testenv.Brief(4, 50)
	var all []*message.Message
	var lanes sync.WaitGroup
	done := make(chan struct{})
	for lane := range 6 {
		msgs := sequence(fmt.Sprint("g", lane), 400*kills)
		all = append(all, msgs...)
		lanes.Go(func() { deliverAll(t, d, "orders", msgs, 25) })
	}
	go func() {
		defer close(done)
		lanes.Wait()
	}()
	for range kills {
		s.Kill()
		s.Start()
		c := client(t, s.Address())
		for n := c.XLen(t.Context(), "orders").Val() + 100; c.XLen(t.Context(), "orders").Val() < n; { // it takes messages again
			select {
			case <-done:
				n = 0
			case <-time.After(time.Millisecond):
			}
		}
	}
	<-done
	n := wantOnceInOrder(t, client(t, s.Address()), "orders", all)
	if most := kills * 6 * 25; n > most {
		t.Errorf("%d duplicates, at most %d messages had an unknown outcome", n, most)
	}
	t.Logf("%d messages, %d kills, %d duplicates", len(all), kills, n)
}

// What keeps the server from taking messages concerns none of them, and stores none.
func TestG10_RefusalsOfTheServerAreOutages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings []string
		login    Servers
		node     bool    // of a cluster, without slots
		do       [][]any // by another client
		want     string
	}{
		"wrong type":     {do: [][]any{{"set", "orders", "x"}}, want: "WRONGTYPE"},
		"out of memory":  {do: [][]any{{"config", "set", "maxmemory", "1"}}, want: "raise maxmemory"},
		"a replica":      {do: [][]any{{"replicaof", "127.0.0.1", "1"}}, want: "the server is a replica"},
		"no replicas":    {settings: []string{"min-replicas-to-write 1"}, want: "NOREPLICAS"},
		"no password":    {settings: []string{"requirepass secret"}, want: "set username and password"},
		"wrong password": {login: Servers{Username: "u", Password: "other"}, settings: []string{"user u on >secret ~* +@all"}, want: "check username and password"},
		"no permission":  {login: Servers{Username: "u", Password: "secret"}, settings: []string{"user u on >secret ~* +multi +exec +ping +discard"}, want: "+xadd"},
		"no key":         {login: Servers{Username: "u", Password: "secret"}, settings: []string{"user u on >secret ~other +@all"}, want: "NOPERM"},
		"cluster down":   {node: true, want: "CLUSTERDOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *testenv.RedisServer
			if test.node {
				s = testenv.StartRedisNode(t)
			} else {
				s = testenv.StartRedis(t, test.settings...)
			}
			c := client(t, s.Address())
			for _, args := range test.do {
				if err := c.Do(t.Context(), args...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			servers := at(s.Address())
			servers.Username, servers.Password = test.login.Username, test.login.Password
			d := destination(t, Config{Servers: servers, Stream: "orders"})
			msgs := sequence("g", 3)
			errs := d.Deliver(t.Context(), "orders", msgs)
			if got := kinds(msgs, errs); got != "g-00000 unavailable, g-00001 unavailable, g-00002 unavailable" {
				t.Fatalf("%s: %v", got, errs)
			}
			if !strings.Contains(errs[0].Error(), test.want) {
				t.Errorf("%v, want %q in it", errs[0], test.want)
			}
			if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Check: %v, want %q in it", err, test.want)
			}
			if n := c.XLen(t.Context(), "orders").Val(); n != 0 {
				t.Errorf("%d messages were stored", n)
			}
		})
	}
}

// A message that has no form is dead, and what is behind it in its group waits.
func TestG2_AMessageWithoutAFormHoldsItsGroup(t *testing.T) {
	t.Parallel()
	s := testenv.StartRedis(t)
	d := destination(t, Config{Servers: at(s.Address()), Stream: "orders"})
	msgs := append(sequence("a", 3), sequence("b", 1)...)
	msgs[1].Metadata[redisstream.UUIDHeaderKey] = "x"
	errs := d.Deliver(t.Context(), "orders", msgs)
	if got := kinds(msgs, errs); got != "a-00000 ok, a-00001 permanent, a-00002 released, b-00000 ok" {
		t.Errorf("%s: %v", got, errs)
	}
}

func TestACreatedStreamIsRefusedClearly(t *testing.T) {
	t.Parallel()
	d := destination(t, Config{Servers: at(testenv.Refused(t)), Stream: "orders"})
	if _, err := d.CreateTopic(t.Context(), adaptersNewTopic("orders")); err == nil || !strings.Contains(err.Error(), "the first message") {
		t.Errorf("creating a stream: %v", err)
	}
	errs := d.Deliver(t.Context(), "orders", sequence("g", 1))
	if outbox.KindOf(errs[0]) != outbox.KindUnavailable || !strings.Contains(errs[0].Error(), "connection refused") {
		t.Errorf("a server that is not there: %v", errs[0])
	}
}
