package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// log is a topic that a consumer group of relays reads.
type log struct {
	t        *testing.T
	brokers  []string
	replicas int16
	topic    string
	client   *kgo.Client
	admin    *kadm.Client
}

// newLog makes a topic with as many partitions as a table has lanes, so that a [fleet] can watch it.
func newLog(t *testing.T, brokers []string) *log {
	t.Helper()
	return newLogOf(t, brokers, lanes, nil)
}

func newLogOf(t *testing.T, brokers []string, partitions int32, configs map[string]string) *log {
	t.Helper()
	return newReplicatedLog(t, brokers, 1, partitions, configs)
}

func newReplicatedLog(t *testing.T, brokers []string, replicas int16, partitions int32, configs map[string]string) *log {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(100*time.Millisecond), kgo.UnknownTopicRetries(-1))
	must(t, err)
	t.Cleanup(client.Close)
	l := &log{t: t, brokers: brokers, replicas: replicas, topic: topicName(), client: client, admin: kadm.NewClient(client)}
	l.create(partitions, configs)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = l.admin.DeleteTopic(ctx, l.topic) // a broker that the test has ended deletes nothing
	})
	return l
}

// create returns when the topic is served.
func (l *log) create(partitions int32, configs map[string]string) {
	l.t.Helper()
	settings := map[string]*string{}
	for k, v := range configs {
		settings[k] = &v
	}
	_, err := l.admin.CreateTopic(l.t.Context(), partitions, l.replicas, settings, l.topic)
	must(l.t, err)
	until(l.t, "the topic is served", func() bool {
		ends, err := l.admin.ListEndOffsets(l.t.Context(), l.topic)
		return err == nil && ends.Error() == nil && len(ends[l.topic]) == int(partitions)
	})
}

// record is a record of a group whose value is a [payload].
func (l *log) record(id, group string) *kgo.Record {
	value, err := json.Marshal(payload{ID: id, Group: group})
	must(l.t, err)
	return &kgo.Record{Topic: l.topic, Key: []byte(group), Value: value, Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}}
}

// write produces n records of so many groups.
func (l *log) write(prefix string, groups, n int) {
	l.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = l.record(fmt.Sprint(prefix, i), fmt.Sprint("g", i%groups))
	}
	must(l.t, l.client.ProduceSync(l.t.Context(), records...).FirstErr())
}

// keepWriting produces records until stop is called.
func (l *log) keepWriting(groups int) (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			l.client.Produce(ctx, l.record(fmt.Sprint("m", n), fmt.Sprint("g", n%groups)), nil)
			if n%16 == 0 {
				pause(ctx, 20*time.Millisecond)
			}
		}
	}()
	return func() {
		l.t.Helper()
		cancel()
		<-done
		ctx, cancel := context.WithTimeout(l.t.Context(), patience)
		defer cancel()
		must(l.t, l.client.Flush(ctx))
	}
}

// rows are the committed records of the topic, as another client reads them.
func (l *log) rows() (out []check.Row) {
	l.t.Helper()
	ends, err := l.admin.ListEndOffsets(l.t.Context(), l.topic)
	must(l.t, err)
	left := map[int32]int64{} // offsets at which partitions end
	for p, end := range ends[l.topic] {
		if end.Offset > 0 {
			left[p] = end.Offset
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(l.brokers...), kgo.ConsumeTopics(l.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(l.t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	for len(left) > 0 && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			var p payload
			if !r.Attrs.IsControl() && r.Value != nil {
				must(l.t, json.Unmarshal(r.Value, &p))
				out = append(out, check.Row{ID: p.ID, Group: string(r.Key), Position: r.Offset})
			}
		})
	}
	must(l.t, ctx.Err())
	return out
}

// config is that of an instance. A member that has died holds up a rebalance for as long as rebalance_timeout.
func (l *log) config(state, destination string, more ...string) string {
	return fmt.Sprintf(`admin: {listen: off}
settle_interval: 20ms
lease: 2s
drain_timeout: 2s
state: {url: %q}
sources:
  topic: {type: kafka, brokers: ["%s"], topic: %s, group: %[3]s, session_timeout: 6s, rebalance_timeout: 3s%s}
destinations:
  there: {%s}
routes:
  orders0:
    from: topic
    to: there
    window: %d
`, state, strings.Join(l.brokers, `", "`), l.topic, strings.Join(append([]string{""}, more...), ", "), destination, killWindow)
}

// newGroup is a fleet whose members read a topic.
func newGroup(t *testing.T, l *log, destination string, more ...string) *fleet {
	t.Helper()
	f := newFleet(t, shortLease, destination)
	f.config = l.config(f.url, destination, more...)
	return f
}

// endGroup lets the fleet deliver all rows, stops it and compares.
func (f *fleet) endGroup(rows []check.Row, to destination) check.Report {
	f.t.Helper()
	f.members[0].until("delivered everything", func() bool { return to.arrived() >= len(rows) })
	for _, r := range f.members {
		r.stop()
	}
	if n := one[int](f.database, "SELECT count(*) FROM moved_back"); n > 0 {
		f.t.Errorf("cursors moved back %d times: somebody settled who was no owner", n)
	}
	return check.Compare(rows, to.all()...)
}

// freeze stops a member for longer than its session and its lease, and lets it continue.
func (f *fleet) freeze(to destination) {
	f.t.Helper()
	r := f.any()
	f.remove(r)
	must(f.t, r.cmd.Process.Signal(syscall.SIGSTOP))
	f.spread() // over those that are awake
	before := to.arrived()
	f.members[0].until("delivers in its place", func() bool { return to.arrived() > before+100 })
	must(f.t, r.cmd.Process.Signal(syscall.SIGCONT))
	f.members = append(f.members, r)
	f.spread()
}

// killAndFreeze kills one member after the other, each when so many more messages have arrived, and has another one join; every fifth is stopped
// instead, and a member is frozen after each so many. That happens n times, and in a soak until 51 were killed.
func (f *fleet) killAndFreeze(n, freezeEach, more int, to destination) (kills, freezes int) {
	f.t.Helper()
	for round := range rounds(f.t, n, 63) {
		before := to.arrived()
		f.members[0].until("delivers under load", func() bool { return to.arrived() > before+more })
		r := f.any()
		f.remove(r)
		if round%5 == 4 {
			r.stop()
		} else {
			r.kill()
			kills++
		}
		if round%2 == 1 { // its lease or session ends; otherwise the next member takes its place
			f.spread()
		}
		f.join()
		if round%freezeEach == freezeEach-1 {
			f.freeze(to)
			freezes++
		}
	}
	return kills, freezes
}

// Processes of a consumer group are killed, frozen, stopped and replaced while a producer goes on.
func TestG1_G2_G3_AConsumerGroupIsKilledAndFrozen(t *testing.T) {
	t.Parallel()
	l := newLog(t, testenv.Kafka(t))
	to := receive(t, slowly(2*time.Millisecond))
	f := newGroup(t, l, toHTTP(to.url()))
	for range testenv.Brief(2, 3) {
		f.join()
	}
	stop := l.keepWriting(1000)
	kills, freezes := f.killAndFreeze(testenv.Brief(1, 6), 6, 100, to)
	stop()
	report := f.endGroup(l.rows(), to)
	t.Logf("%d kills and %d freezes of members of a group: %v, worst time to an even spread %v", kills, freezes, report, f.worst.Round(time.Millisecond))
	if !report.Clean() || report.Duplicates > (kills+freezes)*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
}

// takeHooks records requests whose signatures hold.
func takeHooks(t *testing.T) *receiver {
	t.Helper()
	verify, err := standardwebhooks.NewWebhook(webhookSecrets[1])
	must(t, err)
	return receiveWith(t, func(r *receiver, w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var p payload
		if err != nil || json.Unmarshal(body, &p) != nil {
			w.WriteHeader(http.StatusBadRequest) // cut off by a kill
			return
		}
		if err := verify.Verify(body, req.Header); err != nil || req.Header.Get("webhook-id") != p.ID {
			t.Errorf("message %s came as %s: %v", p.ID, req.Header.Get("webhook-id"), err)
		}
		r.take([]payload{p})
	})
}

// From a table to Kafka, and from there by a consumer group to webhooks: each process is killed, and the receiver has what was committed.
func TestG1_G2_FromATableOverKafkaToWebhooks(t *testing.T) {
	t.Parallel()
	l := newLog(t, testenv.Kafka(t))
	to := takeHooks(t)
	f := newGroup(t, l, toWebhook(to.url()), "format: watermill")
	tables := newDatabase(t)
	feeder := settings{database: tables.url, top: quick, destination: toKafka(l.brokers, l.topic), window: killWindow}.text()
	for range testenv.Brief(2, 3) {
		f.join()
	}
	first := start(t, feeder)
	w := write(t, tables.pool, false)
	kills := 0
	for range rounds(t, testenv.Brief(1, 3), 50) {
		before := to.arrived()
		first.until("has messages delivered", func() bool { return to.arrived() > before+50 })
		first.kill()
		first = start(t, feeder)
		r := f.any()
		f.remove(r)
		r.kill()
		f.join()
		kills += 2
	}
	w.stop()
	report := f.endGroup(tables.rows(), to)
	first.stop()
	t.Logf("%d kills on the way from a table over Kafka to webhooks: %v", kills, report)
	if !report.Clean() || report.Duplicates > kills*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
}

// The broker is killed and comes back, while two members deliver.
func TestG1_G2_TheBrokerOfAGroupIsKilled(t *testing.T) {
	t.Parallel()
	full(t) // a broker of its own
	broker := testenv.StartKafka(t)
	l := newLog(t, broker.Brokers())
	to := receive(t, slowly(2*time.Millisecond))
	f := newGroup(t, l, toHTTP(to.url()))
	f.join()
	f.join()
	stop := l.keepWriting(1000)
	kills := 0
	for range rounds(t, 3, 20) {
		before := to.arrived()
		f.members[0].until("delivers", func() bool { return to.arrived() > before+100 })
		broker.Kill()
		broker.Start()
		kills++
	}
	before := to.arrived()
	f.members[0].until("delivers again", func() bool { return to.arrived() > before+100 })
	f.spread()
	stop()
	report := f.endGroup(l.rows(), to)
	t.Logf("%d kills of the broker: %v", kills, report)
	if !report.Clean() || report.Duplicates > kills*killWindow*lanes { // a lane may be lost with what is in flight
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
}

// The program is killed at each step between reading a record and writing down what became of it, in turn, while it sends batches and some fail.
func TestG1_G2_G3_KilledAtEveryStepOfATopic(t *testing.T) {
	t.Parallel()
	full(t) // the group waits for each dead member
	l, to := newLog(t, testenv.Kafka(t)), receive(t, failOn("77"))
	f := newGroup(t, l, toHTTP(to.url()))
	f.config += "    middleware: [poison, {retry: {attempts: 50, base: 1200ms, max: 1200ms, jitter: 0.1}}, timeout]\n"
	working := slices.DeleteFunc(slices.Clone(failpoint.Points), func(p failpoint.Point) bool {
		return slices.Contains(atTheEnd, p) || slices.Contains(failpoint.InTransactions, p)
	})
	stop := l.keepWriting(300)
	kills := killAtEachTimes(t, 4, working, to, func(env string) *relay { return startWith(t, f.config, env) })
	stop()
	f.members = append(f.members, start(t, f.config))
	report := f.endGroup(l.rows(), to)
	t.Logf("%d kills, at %v in turn: %v", kills, working, report)
	if !report.Clean() || report.Duplicates > kills*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
	if n := f.parked("status IN ('dead', 'held')"); n > 0 {
		t.Errorf("%d messages are dead", n)
	}
}
