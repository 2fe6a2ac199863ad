package faults_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// full skips a test that takes long.
func full(t *testing.T) {
	t.Helper()
	if !testenv.Full() {
		t.Skipf("set %s to run it", testenv.EnvFull)
	}
}

// cut removes the records of the first partition before an offset, as retention does.
func (l *log) cut(before int64) {
	l.t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(l.topic, 0, before, -1)
	cut, err := l.admin.DeleteRecords(l.t.Context(), offsets)
	must(l.t, err)
	must(l.t, cut.Error())
}

// committed is the offset that the group has committed of a partition; -1: none.
func (l *log) committed(partition int32) int64 {
	l.t.Helper()
	offsets, err := l.admin.FetchOffsets(l.t.Context(), l.topic)
	must(l.t, err)
	if o, ok := offsets.Lookup(l.topic, partition); ok {
		return o.At
	}
	return -1
}

// eachOnce compares the rows with what a receiver has, without duplicates.
func eachOnce(t *testing.T, rows []check.Row, to *receiver) {
	t.Helper()
	if report := check.Compare(rows, to.all()...); !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want each row once: %v", report)
	}
}

// rewind moves the route of a configuration to what is left of its topic.
func rewind(t *testing.T, config string) {
	t.Helper()
	if out := command(t, "seek", "orders0", "--to", "beginning", "--yes", "-c", config); strings.Contains(out, "outrider: ") {
		t.Fatal(out)
	}
}

// Records that retention removed before they were delivered are named, and nothing goes on before an operator decides: where a lane has its
// cursor from the state store, and where it has only the group's offset.
func TestRecordsThatAreGoneAreNamed(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	t.Run("behind the cursor", func(t *testing.T) {
		t.Parallel()
		l, db, to := newLogOf(t, brokers, 1, nil), newDatabase(t), receive(t, nil)
		config := l.config(db.url, toHTTP(to.url()))
		l.write("a", 10, 100)
		r := start(t, config)
		r.until("delivered", func() bool { return to.arrived() == 100 })
		r.stop()
		l.write("b", 10, 100)
		l.cut(150)
		r = start(t, config)
		r.says(`offsets 100 to 149 of partition 0 of topic \S+ were removed .*outrider seek orders0`)
		r.fails() // it has no other route
		rewind(t, r.config)
		if to.arrived() != 100 {
			t.Errorf("%d arrived before the seek", to.arrived())
		}
		r = start(t, config)
		r.until("delivered", func() bool { return to.arrived() == 150 })
		r.stop()
	})
	t.Run("before the first delivery", func(t *testing.T) {
		t.Parallel()
		l, db, to := newLogOf(t, brokers, 1, nil), newDatabase(t), receive(t, nil)
		r := start(t, l.config(db.url, toHTTP(to.url())))
		r.until("has begun", func() bool { return l.committed(0) == 0 })
		r.until("has a cursor", func() bool {
			return one[int](db, "SELECT count(*) FROM outrider_cursor WHERE slot = 0 AND owner <> ''") == 1
		})
		r.stop()
		l.write("a", 10, 100)
		l.cut(60)
		r = start(t, l.config(db.url, toHTTP(to.url())))
		r.says(`offsets 0 to 59 of partition 0 of topic \S+ were removed .*outrider seek orders0`)
		r.fails() // it has no other route
		if to.arrived() > 0 {
			t.Errorf("%d arrived before the seek", to.arrived())
		}
		rewind(t, r.config)
		r = start(t, l.config(db.url, toHTTP(to.url())))
		r.until("delivered the rest", func() bool { return to.arrived() == 40 })
		r.stop()
	})
	t.Run("before the route began", func(t *testing.T) { // it never had them to deliver
		t.Parallel()
		l, db, to := newLogOf(t, brokers, 1, nil), newDatabase(t), receive(t, nil)
		l.write("a", 10, 100)
		l.cut(60)
		r := start(t, l.config(db.url, toHTTP(to.url())))
		r.until("delivered what is left", func() bool { return to.arrived() == 40 })
		r.stop()
	})
	t.Run("behind the group's offset", func(t *testing.T) {
		t.Parallel()
		l, db, to := newLogOf(t, brokers, 1, nil), newDatabase(t), receive(t, nil)
		l.write("a", 10, 100)
		offsets := kadm.Offsets{}
		offsets.AddOffset(l.topic, 0, 20, -1)
		_, err := l.admin.CommitOffsets(t.Context(), l.topic, offsets)
		must(t, err)
		l.cut(60)
		r := start(t, l.config(db.url, toHTTP(to.url())))
		r.says(`offsets 20 to 59 of partition 0 of topic \S+ were removed .*outrider seek orders0`)
		r.fails() // it has no other route
		if to.arrived() > 0 {
			t.Errorf("%d arrived before the seek", to.arrived())
		}
		rewind(t, r.config)
		r = start(t, l.config(db.url, toHTTP(to.url())))
		r.until("delivered the rest", func() bool { return to.arrived() == 40 })
		r.stop()
	})
	t.Run("while the relay runs", func(t *testing.T) {
		t.Parallel()
		l, db := newLogOf(t, brokers, 1, nil), newDatabase(t)
		release := make(chan struct{})
		to := receive(t, func(req *http.Request, _ []payload) int {
			select {
			case <-release:
			case <-req.Context().Done():
			}
			return http.StatusOK
		})
		const n = 3000 // far more than is read ahead
		records := make([]*kgo.Record, n)
		for i := range records {
			records[i] = l.record(fmt.Sprint("m", i), fmt.Sprint("g", i%10))
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: "pad", Value: []byte(strings.Repeat("x", 4096))})
		}
		must(t, l.client.ProduceSync(t.Context(), records...).FirstErr())
		r := start(t, l.config(db.url, toHTTP(to.url())))
		r.until("sends", to.asked.Load)
		l.cut(n - 10)
		close(release)
		r.says(fmt.Sprintf(`offsets \d+ to %d of partition 0 of topic \S+ were removed .*outrider seek orders0`, n-11))
		r.fails() // it has no other route
		rewind(t, r.config)
		r = start(t, l.config(db.url, toHTTP(to.url())))
		r.until("delivered the rest", func() bool {
			to.mu.Lock()
			defer to.mu.Unlock()
			_, last := to.distinct[fmt.Sprint("m", n-1)]
			return last
		})
		r.stop()
	})
}

// Of transactions only what was committed is delivered, and tombstones and the marks of transactions hold up no offset.
func TestTransactionsAndTombstonesOfATopic(t *testing.T) {
	t.Parallel()
	l, db, to := newLogOf(t, testenv.Kafka(t), 1, nil), newDatabase(t), receive(t, nil)
	writer, err := kgo.NewClient(kgo.SeedBrokers(l.brokers...), kgo.TransactionalID(l.topic))
	must(t, err)
	defer writer.Close()
	transaction := func(id string, end kgo.TransactionEndTry) {
		t.Helper()
		must(t, writer.BeginTransaction())
		for i := range 20 {
			must(t, writer.ProduceSync(t.Context(), l.record(fmt.Sprint(id, i), fmt.Sprint("g", i%4))).FirstErr())
			l.write(fmt.Sprint(id, "-beside-", i), 4, 1)
		}
		must(t, writer.EndTransaction(t.Context(), end))
	}
	r := start(t, l.config(db.url, toHTTP(to.url()), "tombstones: skip"))
	transaction("first", kgo.TryCommit)
	transaction("aborted", kgo.TryAbort)
	must(t, l.client.ProduceSync(t.Context(), &kgo.Record{Topic: l.topic, Key: []byte("g0")}).FirstErr())
	transaction("second", kgo.TryCommit)
	transaction("last", kgo.TryAbort)
	must(t, l.client.ProduceSync(t.Context(), &kgo.Record{Topic: l.topic, Key: []byte("g0")}).FirstErr())
	rows := l.rows()
	if len(rows) != 2*20+4*20 {
		t.Fatalf("%d records are committed", len(rows))
	}
	r.until("delivered", func() bool { return to.arrived() == len(rows) })
	ends, err := l.admin.ListEndOffsets(t.Context(), l.topic)
	must(t, err)
	r.until("has committed the end", func() bool { return l.committed(0) == ends[l.topic][0].Offset })
	r.stop()
	eachOnce(t, rows, to)
}

// A topic that is deleted and created again is another one: the route stops until an operator decides, and then has the new records alone.
func TestATopicIsDeletedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	full(t) // the client asks for the former topic several times
	l, db, to := newLogOf(t, testenv.Kafka(t), 2, nil), newDatabase(t), receive(t, nil)
	config := l.config(db.url, toHTTP(to.url()))
	l.write("old", 10, 100)
	r := start(t, config)
	r.until("delivered", func() bool { return to.arrived() == 100 })
	_, err := l.admin.DeleteTopic(t.Context(), l.topic)
	must(t, err)
	until(t, "the topic is gone", func() bool {
		topics, err := l.admin.ListTopics(t.Context(), l.topic)
		return err == nil && topics[l.topic].Err != nil
	})
	l.create(2, nil)
	again := newClientOf(t, l)
	for i := range 300 {
		must(t, again.ProduceSync(t.Context(), l.record(fmt.Sprint("new", i), fmt.Sprint("g", i%10))).FirstErr())
	}
	r.says(`the route is stopped`)
	r.fails() // it has no other route
	if to.arrived() != 100 {
		t.Errorf("%d arrived before the seek", to.arrived())
	}
	rewind(t, r.config)
	r = start(t, config)
	r.until("delivered what is new", func() bool { return to.arrived() == 400 })
	r.stop()
	if n := to.repeated(); n > 0 {
		t.Errorf("%d came twice", n)
	}
}

func newClientOf(t *testing.T, l *log) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(l.brokers...), kgo.UnknownTopicRetries(-1))
	must(t, err)
	t.Cleanup(client.Close)
	return client
}

// What is written to a partition that was added while the relay runs is delivered from its first record, wherever the route began.
func TestPartitionsAreAddedToATopic(t *testing.T) {
	t.Parallel()
	full(t) // the client looks for them every 30 s
	l, to := newLogOf(t, testenv.Kafka(t), 2, nil), receive(t, nil)
	f := newGroup(t, l, toHTTP(to.url()))
	f.config += "    start: end\n"
	l.write("before", 10, 100)
	f.members = append(f.members, start(t, f.config), start(t, f.config))
	for _, r := range f.members {
		r.admit(f)
	}
	f.members[0].until("has begun", func() bool { return l.committed(0) >= 0 && l.committed(1) >= 0 })
	_, err := l.admin.CreatePartitions(t.Context(), 6, l.topic)
	must(t, err)
	until(t, "the partitions are served", func() bool {
		ends, err := l.admin.ListEndOffsets(t.Context(), l.topic)
		return err == nil && ends.Error() == nil && len(ends[l.topic]) == 8
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(l.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, err)
	defer client.Close()
	for i := range 80 {
		r := l.record(fmt.Sprint("after", i), fmt.Sprint("g", i%8))
		r.Partition = int32(i % 8)
		must(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
	f.members[0].until("delivered", func() bool { return to.arrived() >= 80 })
	for _, r := range f.members {
		r.stop()
	}
	if to.arrived() != 80 || to.repeated() > 0 {
		t.Errorf("%d arrived of 80, %d twice", to.arrived(), to.repeated())
	}
}

// A compacted topic has holes where records were, and tombstones.
func TestACompactedTopicHasHoles(t *testing.T) {
	t.Parallel()
	full(t) // the cleaner waits 15 s
	l, db, to := newLogOf(t, testenv.Kafka(t), 1, map[string]string{
		"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "200", "delete.retention.ms": "100000",
	}), newDatabase(t), receive(t, nil)
	for i := range 20 {
		l.write(fmt.Sprint("round", i, "-"), 10, 50)
		pause(t.Context(), 250*time.Millisecond)
	}
	must(t, l.client.ProduceSync(t.Context(), &kgo.Record{Topic: l.topic, Key: []byte("g3")}).FirstErr())
	more := 0
	until(t, "the topic is compacted", func() bool {
		l.write(fmt.Sprint("more", more, "-"), 1, 1)
		more++
		return len(l.rows()) < 500
	})
	before := l.rows()
	r := start(t, l.config(db.url, toHTTP(to.url()), "tombstones: skip"))
	ends, err := l.admin.ListEndOffsets(t.Context(), l.topic)
	must(t, err)
	r.until("has committed the end", func() bool { return l.committed(0) == ends[l.topic][0].Offset })
	r.stop()
	after := l.rows() // the cleaner goes on meanwhile
	t.Logf("%d, then %d of %d offsets hold records", len(before), len(after), ends[l.topic][0].Offset)
	if report := check.Compare(after, to.all()...); report.Lost > 0 {
		t.Errorf("want all that is left: %v", report)
	}
	if report := check.Compare(before, to.all()...); report.OutOfOrder+report.Unknown+report.Duplicates > 0 {
		t.Errorf("want nothing twice, out of order or unknown: %v", report)
	}
}

// A key whose receiver hangs holds up neither other keys of its partition nor the hand-over of the partition.
func TestG2_AHangingKeyDuringAHandOver(t *testing.T) {
	t.Parallel()
	full(t) // deliveries are cut off when the drain's time is over
	l := newLog(t, testenv.Kafka(t))
	release := make(chan struct{})
	to := receive(t, func(req *http.Request, batch []payload) int {
		switch batch[0].Group {
		case "g3":
			select {
			case <-release:
			case <-req.Context().Done():
			}
		case "g4":
			return http.StatusBadRequest // poisoned
		}
		return http.StatusOK
	})
	f := newGroup(t, l, toHTTP(to.url())+", batch: {max_messages: 1}")
	f.config += "    middleware: [poison, {retry: {attempts: 2, base: 20ms}}, {timeout: 30s}]\n"
	l.write("m", 100, 2000)
	f.members = append(f.members, start(t, f.config))
	f.members[0].until("delivered the keys that can be", func() bool { return to.arrived() == 2000-2*20 })
	f.join() // half of the partitions change hands, and so do both with the next one
	r := f.members[0]
	f.remove(r)
	must(t, r.cmd.Process.Signal(syscall.SIGTERM))
	<-r.done
	f.spread()
	close(release)
	f.members[0].until("delivered all but the poisoned key", func() bool { return to.arrived() == 2000-20 })
	f.members[0].until("parked the poisoned key", func() bool { return f.parked("status = 'dead'") == 20 })
	f.members[0].stop()
	rows := l.rows()
	report := check.Compare(rows, to.all()...)
	if report.Lost != 20 || report.OutOfOrder > 0 || report.Unknown > 0 {
		t.Errorf("want all but the 20 of the poisoned key: %v", report)
	}
}
