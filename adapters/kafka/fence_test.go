package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// owner is an instance that may own the lane of a test.
type owner struct {
	adapters.Destination
	number int64
}

// ownership is who owns the lane of a test: what a state store knows.
type ownership struct {
	current atomic.Int64
	asked   atomic.Int64
}

// take makes an instance with a destination of its own the owner.
func (o *ownership) take(t *testing.T, cfg Config, opts ...kgo.Opt) *owner {
	t.Helper()
	d := destination(t, cfg)
	d.pool.opts = append(d.pool.opts, opts...)
	own := &owner{number: o.current.Add(1)}
	own.Destination = d.Fence("orders/07", func(context.Context) (bool, error) {
		o.asked.Add(1)
		return o.current.Load() == own.number, nil
	})
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return own
}

// exclusive is a configuration with an id that no other test uses.
func exclusive(b *cluster, topic string) Config {
	return Config{Brokers: b.addrs, Topic: topic, Exclusive: true, TransactionalID: topic, Timeout: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler)}
}

// deliver delivers messages of group g and returns the results.
func (o *owner) deliver(t *testing.T, topic string, ids ...string) string {
	t.Helper()
	msgs := make([]*message.Message, 0, len(ids))
	for _, id := range ids {
		msgs = append(msgs, newMessage(id, "g", 1))
	}
	return fmt.Sprint(results(msgs, o.Deliver(t.Context(), topic, msgs)))
}

// through returns what a lane that is never lost delivers through: the
// destination itself, if that is not exclusive.
func through(tb testing.TB, d *Destination, lane string) adapters.Destination {
	tb.Helper()
	own := d.Fence(lane, func(context.Context) (bool, error) { return true, nil })
	if own == nil {
		return d
	}
	tb.Cleanup(func() {
		if err := own.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return own
}

func TestG2_FormerOwnerIsFenced(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 2, nil)
	var lane ownership
	first := lane.take(t, exclusive(b, topic))
	if got := first.deliver(t, topic, "1", "2"); got != "map[1:ok 2:ok]" {
		t.Fatalf("the first owner: %v", got)
	}
	second := lane.take(t, exclusive(b, topic))
	if got := second.deliver(t, topic, "3"); got != "map[3:ok]" {
		t.Fatalf("the second owner: %v", got)
	}
	for range 3 { // it learns that it is fenced, then that the lane is lost, and leaves it alone
		if got := first.deliver(t, topic, "late"); got != "map[late:released]" {
			t.Errorf("the former owner: %v", got)
		}
	}
	if got := second.deliver(t, topic, "4"); got != "map[4:ok]" {
		t.Errorf("the second owner was disturbed: %v", got)
	}
	if got := fmt.Sprint(b.ids(t, topic, "g")); got != "[1 2 3 4]" {
		t.Errorf("arrived: %s", got)
	}
}

// Two installations whose names and routes make up one text have ids of their own.
func TestG2_TransactionalIDsOfInstallationsDiffer(t *testing.T) {
	t.Parallel()
	ids := map[string]string{}
	for _, installation := range []string{"shop", "shop-eu", "shop-", "shop-eu-orders"} {
		d := destination(t, Config{Brokers: []string{"127.0.0.1:1"}, Topic: "t", Exclusive: true, TransactionalID: installation})
		for _, lane := range []string{"orders/07", "eu-orders/07", "-eu-orders/07", "eu/07", "check", "check/07", "07/07"} {
			id, of := d.transactionalID(lane), installation+" and "+lane
			if other, taken := ids[id]; taken {
				t.Errorf("%s is the id of %s, and of %s", id, other, of)
			}
			if ids[id] = of; !strings.HasPrefix(id, installation+"-") {
				t.Errorf("%s does not begin with what is granted to %s", id, of)
			}
		}
	}
}

// An owner of a former version has another id, and is shut out all the same.
func TestG2_AnOwnerOfAFormerVersionIsFenced(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 1, nil)
	var lane ownership
	next := lane.take(t, exclusive(b, topic))
	former, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.TransactionalID(topic+"-orders-07"))
	if err != nil {
		t.Fatal(err)
	}
	defer former.Close()
	if err := former.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := former.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("g"), Headers: []kgo.RecordHeader{{Key: "id", Value: []byte("late")}}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2"} {
		if got := next.deliver(t, topic, id); got != "map["+id+":ok]" {
			t.Fatalf("the next owner: %v", got)
		}
	}
	if err := former.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
		t.Error("the former owner could commit")
	}
	if got := fmt.Sprint(b.ids(t, topic, "g")); got != "[1 2]" {
		t.Errorf("arrived: %s", got)
	}
}

// frozen is a client that stands still once Kafka has acknowledged its records,
// before it commits.
type frozen struct {
	arm     atomic.Bool
	stands  chan struct{}
	goOn    chan struct{}
	release sync.Once
}

func newFrozen(t *testing.T) *frozen {
	f := &frozen{stands: make(chan struct{}), goOn: make(chan struct{})}
	t.Cleanup(f.wake)
	return f
}

func (f *frozen) wake() { f.release.Do(func() { close(f.goOn) }) }

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (f *frozen) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, _ kgo.BrokerE2E) {
	if key == int16(kmsg.Produce) && f.arm.CompareAndSwap(true, false) {
		close(f.stands)
		<-f.goOn
	}
}

func TestG2_FrozenWaveIsNeverSeen(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 1, nil)
	var lane ownership
	freeze := newFrozen(t)
	first := lane.take(t, exclusive(b, topic), kgo.WithHooks(freeze))
	if got := first.deliver(t, topic, "1"); got != "map[1:ok]" {
		t.Fatalf("the first owner: %v", got)
	}
	freeze.arm.Store(true)
	woken := make(chan string)
	go func() { woken <- first.deliver(t, topic, "2", "3") }()
	select {
	case <-freeze.stands:
	case got := <-woken:
		t.Fatalf("the first owner was not frozen before it committed: %v", got)
	}
	second := lane.take(t, exclusive(b, topic))
	if got := second.deliver(t, topic, "2", "3", "4"); got != "map[2:ok 3:ok 4:ok]" {
		t.Fatalf("the second owner: %v", got)
	}
	freeze.wake()
	if got := <-woken; got != "map[2:released 3:released]" {
		t.Errorf("the frozen owner after it woke up: %v", got)
	}
	if got := fmt.Sprint(b.ids(t, topic, "g")); got != "[1 2 3 4]" {
		t.Errorf("a consumer with read_committed sees %s", got)
	}
	if got := fmt.Sprint(b.uncommitted(t, topic)); got != "[1 2 3 2 3 4]" {
		t.Errorf("a consumer with read_uncommitted sees %s: the frozen wave was not in the topic, so the test shows nothing", got)
	}
}

// An owner without traffic has no id. If it freezes right before it initialises
// one, and wakes up behind the next owner, it must send nothing.
func TestG2_LateInitialisationSendsNothing(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 1, nil)
	var lane ownership
	first, second := lane.take(t, exclusive(b, topic)), (*owner)(nil)
	inner := first.Destination.(*fencedProducer).owned
	first.Destination.(*fencedProducer).owned = func(ctx context.Context) (bool, error) {
		ours, err := inner(ctx)
		if second == nil { // asked, answered, and frozen
			second = lane.take(t, exclusive(b, topic))
			if got := second.deliver(t, topic, "1", "2"); got != "map[1:ok 2:ok]" {
				t.Errorf("the second owner: %v", got)
			}
		}
		return ours, err
	}
	if got := first.deliver(t, topic, "1"); got != "map[1:released]" {
		t.Errorf("the frozen owner after it woke up: %v", got)
	}
	if got := second.deliver(t, topic, "3"); got != "map[3:released]" {
		t.Errorf("the owner whose id was taken: %v, want its messages back, and no attempt charged", got)
	}
	if got := second.deliver(t, topic, "3"); got != "map[3:ok]" {
		t.Errorf("the owner whose id was taken, the next time: %v", got)
	}
	if got := fmt.Sprint(b.ids(t, topic, "g")); got != "[1 2 3]" {
		t.Errorf("arrived: %s", got)
	}
}

// Owners come at random and none of them stops by itself: only the id keeps the
// former ones from sending.
func TestG2_OrderAndNoLossUnderFencing(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	r := &succession{topic: b.topic(t, 3, nil), total: 600}
	var owners sync.WaitGroup
	for last := false; !last; {
		last = r.lane.current.Load() == 11
		r.mu.Lock()
		own := r.lane.take(t, exclusive(b, r.topic))
		r.mu.Unlock()
		waves := make(chan struct{})
		owners.Go(func() {
			defer close(waves)
			r.work(t, own, waves)
		})
		for n := rand.IntN(5); n > 0 || last; n-- { // the next one comes after so many waves
			if _, more := <-waves; !more {
				break
			}
		}
		go func() { // nobody counts any more
			for range waves {
			}
		}()
	}
	owners.Wait()
	b.checkOwners(t, r.topic, r.total)
}

// succession is a lane that passes from owner to owner.
type succession struct {
	topic string
	total int
	lane  ownership

	mu      sync.Mutex // a transaction of the state store
	settled int
}

// work delivers what is not settled, in waves, until all is or the lane is
// another's.
func (s *succession) work(t *testing.T, own *owner, waves chan<- struct{}) {
	s.mu.Lock()
	at := s.settled
	s.mu.Unlock()
	for failed := 0; at < s.total && failed < 3; {
		var msgs []*message.Message
		for i, end := at, min(at+1+rand.IntN(30), s.total); i < end; i++ {
			msg := newMessage(strconv.Itoa(i), "g"+strconv.Itoa(i%7), 1)
			msg.Metadata["owner"] = strconv.FormatInt(own.number, 10)
			msgs = append(msgs, msg)
		}
		errs := own.Deliver(t.Context(), s.topic, msgs)
		waves <- struct{}{}
		if errs != nil {
			failed++
			for _, err := range errs {
				if err == nil { // the first message to a topic goes alone
					continue
				}
				// While producers take turns, a broker sometimes answers UNKNOWN_SERVER_ERROR.
				confused := outbox.KindOf(err) == outbox.KindUnavailable && strings.Contains(err.Error(), "UNKNOWN_SERVER_ERROR")
				if outbox.KindOf(err) != outbox.KindReleased && !confused {
					t.Errorf("owner %d: %v", own.number, err)
				}
			}
			continue
		}
		at += len(msgs)
		s.mu.Lock()
		if s.lane.current.Load() == own.number {
			s.settled = at
		}
		s.mu.Unlock()
	}
}

// checkOwners checks that a topic holds everything, each group's first
// deliveries in order, and nothing of an owner behind what a later one sent.
func (b *cluster) checkOwners(t *testing.T, topic string, total int) {
	t.Helper()
	seen, next, last := map[string]bool{}, map[string]int{}, map[int32]int{}
	for _, r := range b.records(t, topic) {
		id, group := header(r, "id"), string(r.Key)
		from, _ := strconv.Atoi(header(r, "owner"))
		if from < last[r.Partition] {
			t.Errorf("message %s of owner %d is behind what owner %d sent", id, from, last[r.Partition])
		}
		last[r.Partition] = from
		if !seen[id] {
			at, _ := strconv.Atoi(id)
			if at < next[group] {
				t.Errorf("message %s is behind %d of its group %s", id, next[group], group)
			}
			seen[id], next[group] = true, at
		}
	}
	if len(seen) != total {
		t.Errorf("%d messages arrived, want %d", len(seen), total)
	}
}

// What a broker rejects takes the whole transaction with it.
func TestG2_CulpritOfATransaction(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 3, map[string]string{"max.message.bytes": "3000"})
	var lane ownership
	cfg := exclusive(b, topic)
	cfg.Timeout = 5 * time.Minute // one Deliver has some twenty transactions, of which each takes long on a busy machine
	own := lane.take(t, cfg)
	if got := own.deliver(t, topic, "first"); got != "map[first:ok]" {
		t.Fatal(got)
	}
	deliverWithTwoTooLarge(t, b, own, topic, 60)
	if got := own.deliver(t, topic, "last"); got != "map[last:ok]" {
		t.Error(got)
	}
}

func TestExclusiveCheck(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	cfg := exclusive(b, b.topic(t, 1, nil))
	wantError(t, destination(t, cfg).Check(t.Context()), "")
	cfg.Timeout = 16 * time.Minute
	wantError(t, destination(t, cfg).Check(t.Context()), "raise their transaction.max.timeout.ms, or lower the destination's timeout")
}

func TestNotExclusiveDoesNotFence(t *testing.T) {
	t.Parallel()
	d := destination(t, Config{Brokers: []string{"127.0.0.1:1"}, Topic: "t"})
	if own := d.Fence("orders/07", nil); own != nil {
		t.Errorf("got %v", own)
	}
}

// uncommitted returns the event ids of everything in a topic of one partition.
func (b *cluster) uncommitted(t *testing.T, topic string) []string {
	t.Helper()
	var ids []string
	for _, r := range b.read(t, topic, kgo.ReadUncommitted()) {
		ids = append(ids, header(r, "id"))
	}
	return slices.Clip(ids)
}
