package kafka

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters"
)

const (
	// aheadBytes bounds what is read ahead of a partition, to within one fetch.
	aheadBytes = 512 << 10

	// fetchBytes and fetchPartitionBytes bound an answer of a broker. A larger record comes alone. They count what is compressed: a partition's
	// 512 KiB of small records made a process with 16 partitions 350 MiB large.
	fetchBytes          = 8 << 20
	fetchPartitionBytes = 128 << 10

	// firstRecords is how long a bounded read waits for the first records: it is an operator's command, which does not poll.
	firstRecords = 5 * time.Second
)

// readAhead has the client that reads partitions, and what it has read ahead of the lanes.
type readAhead struct {
	source *Source
	wake   chan struct{}

	turn sync.Mutex // of who uses the client: the goroutine that polls, or one that moves a partition

	mu     sync.Mutex
	client *kgo.Client // nil: not opened yet
	cancel func()      // ends the poll that waits
	parts  map[int]*ahead
	failed error         // of the last poll
	more   chan struct{} // closed when something has come
	closed bool
	moving int // who waits for the turn: polls do not wait then
	work   sync.WaitGroup
}

// ahead is what was read of a partition: all records from one offset up to another.
type ahead struct {
	records []*kgo.Record
	from    int64
	upto    int64 // behind the last record; from: none was read
	bytes   int
	paused  bool
	failed  error
}

func newReadAhead(s *Source) *readAhead {
	return &readAhead{source: s, wake: make(chan struct{}, 1), parts: map[int]*ahead{}, more: make(chan struct{})}
}

// open begins to read. Call with the mutex held.
func (r *readAhead) open() error {
	if r.client != nil {
		return nil
	}
	if r.closed {
		return errClosed
	}
	cl, err := kgo.NewClient(append(slices.Clip(r.source.opts), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchPartitionBytes), kgo.FetchMaxWait(time.Second))...)
	if err != nil {
		return err
	}
	r.client = cl
	r.work.Go(func() {
		for r.poll(cl) {
		}
	})
	return nil
}

func (r *readAhead) close() {
	r.mu.Lock()
	r.closed = true
	if r.cancel != nil {
		r.cancel()
	}
	cl := r.client
	r.mu.Unlock()
	r.work.Wait()
	if cl != nil {
		cl.Close()
	}
}

// poll waits for records and keeps them; false: the source is closed.
func (r *readAhead) poll(cl *kgo.Client) bool {
	r.turn.Lock()
	ctx, cancel := context.WithCancel(context.Background())
	r.mu.Lock()
	r.cancel = cancel
	if r.closed || r.moving > 0 {
		cancel()
	}
	r.mu.Unlock()
	fetches := cl.PollFetches(ctx)
	cancel()
	r.keep(cl, fetches)
	r.turn.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.closed
}

// keep adds what was read. Partitions that are far enough ahead are paused.
func (r *readAhead) keep(cl *kgo.Client, fetches kgo.Fetches) {
	r.mu.Lock()
	defer r.mu.Unlock()
	some := false
	var pause []int32
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		p := r.parts[int(f.Partition)]
		switch {
		case errors.Is(f.Err, context.Canceled):
			return
		case f.Err != nil && (p == nil || f.Topic == ""):
			r.failed, some = f.Err, true
			return
		case p == nil:
			return
		case f.Err != nil:
			p.failed, some = f.Err, true
			return
		}
		for _, rec := range f.Records {
			p.records = append(p.records, rec)
			p.bytes += sizeOf(rec)
			p.upto, some = rec.Offset+1, true
		}
		if p.bytes > aheadBytes && !p.paused {
			p.paused = true
			pause = append(pause, f.Partition)
		}
	})
	if len(pause) > 0 {
		cl.PauseFetchPartitions(map[string][]int32{r.source.cfg.Topic: pause})
	}
	if some {
		close(r.more)
		r.more = make(chan struct{})
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

func sizeOf(rec *kgo.Record) int {
	n := len(rec.Key) + len(rec.Value) + 128
	for _, h := range rec.Headers {
		n += len(h.Key) + len(h.Value) + 48
	}
	return n
}

// move has partitions read from other offsets.
func (r *readAhead) move(cl *kgo.Client, to map[int32]kgo.Offset) {
	topic, parts := r.source.cfg.Topic, slices.Collect(maps.Keys(to))
	r.interrupt()
	defer r.turn.Unlock()
	r.drop(cl, parts)
	r.mu.Lock()
	for p, at := range to {
		from := at.EpochOffset().Offset
		r.parts[int(p)] = &ahead{from: from, upto: from}
	}
	r.mu.Unlock()
	cl.ResumeFetchPartitions(map[string][]int32{topic: parts})
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: to})
}

// forget ends the reading of partitions that are another instance's now.
func (r *readAhead) forget(parts []int32) {
	r.interrupt()
	defer r.turn.Unlock()
	r.mu.Lock()
	cl := r.client
	r.mu.Unlock()
	if cl != nil {
		r.drop(cl, parts)
	}
}

// interrupt takes the turn, also where a poll waits.
func (r *readAhead) interrupt() {
	r.mu.Lock()
	r.moving++
	if r.cancel != nil {
		r.cancel()
	}
	r.mu.Unlock()
	r.turn.Lock()
	r.mu.Lock()
	r.moving--
	r.mu.Unlock()
}

// drop drops what was read of partitions, also what the client has not returned yet. Call with the turn.
func (r *readAhead) drop(cl *kgo.Client, parts []int32) {
	cl.RemoveConsumePartitions(map[string][]int32{r.source.cfg.Topic: parts})
	r.mu.Lock()
	for _, p := range parts {
		delete(r.parts, int(p))
	}
	r.mu.Unlock()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		f := cl.PollFetches(over)
		if f.NumRecords() == 0 {
			break
		}
		r.keep(cl, f)
	}
}

// Fetch implements [adapters.Source]. It takes what was read ahead, and does not wait for more unless a read is bounded.
func (s *Source) Fetch(ctx context.Context, reads []adapters.Read, take func(read int, row *adapters.Row) bool) ([]adapters.ReadResult, error) {
	r := s.reader
	r.mu.Lock()
	err := r.open()
	cl := r.client
	r.mu.Unlock()
	if err != nil {
		return nil, s.wrap(err)
	}
	if to := r.elsewhere(reads); len(to) > 0 {
		r.move(cl, to)
	}
	results := make([]adapters.ReadResult, len(reads))
	var failed error
	for i, rd := range reads {
		records, err := r.take(ctx, cl, rd)
		if err != nil { // others may have what they wait for
			failed = cmp.Or(failed, s.explain(err))
			continue
		}
		if !s.give(i, rd, records, take, &results[i]) {
			return nil, failed
		}
	}
	return results, failed
}

// explain says what an error means for cursors.
func (s *Source) explain(err error) error {
	if errors.Is(err, kerr.OffsetOutOfRange) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) {
		return gone(s.wrap(err).Error())
	}
	return s.wrap(err)
}

// elsewhere returns the partitions that are not being read where reads begin.
func (r *readAhead) elsewhere(reads []adapters.Read) map[int32]kgo.Offset {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := map[int32]kgo.Offset{}
	for _, rd := range reads {
		next := rd.From.Position + 1
		if p := r.parts[rd.Slot]; p == nil || next < p.from || next > p.upto {
			to[int32(rd.Slot)] = kgo.NewOffset().At(next)
		}
	}
	return to
}

// take returns the records of a read that are there.
func (r *readAhead) take(ctx context.Context, cl *kgo.Client, rd adapters.Read) ([]*kgo.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failed; err != nil {
		r.failed = nil
		return nil, err
	}
	p := r.parts[rd.Slot]
	if p == nil { // it was handed over meanwhile
		return nil, nil
	}
	if rd.Until != nil && rd.From.Position < rd.Until.Position {
		for wait := time.Now().Add(firstRecords); len(p.records) == 0 && p.failed == nil && time.Now().Before(wait) && ctx.Err() == nil; {
			more := r.more
			r.mu.Unlock()
			select {
			case <-more:
			case <-ctx.Done():
			case <-time.After(time.Until(wait)):
			}
			r.mu.Lock()
		}
	}
	if err := p.failed; err != nil {
		*p = ahead{from: math.MaxInt64} // no read begins there, so the next one begins anew at its cursor
		return nil, err
	}
	n := 0
	for ; n < len(p.records) && p.records[n].Offset <= rd.From.Position; n++ {
		p.bytes -= sizeOf(p.records[n])
		p.from = p.records[n].Offset + 1
	}
	clear(p.records[:n])
	p.records = p.records[n:]
	if p.paused && p.bytes < aheadBytes/2 {
		p.paused = false
		cl.ResumeFetchPartitions(map[string][]int32{r.source.cfg.Topic: {int32(rd.Slot)}})
	}
	return p.records[:min(len(p.records), max(rd.Limit, 1)):len(p.records)], nil
}

// give passes rows on; false: the rest is not wanted.
func (s *Source) give(i int, rd adapters.Read, records []*kgo.Record, take func(int, *adapters.Row) bool, result *adapters.ReadResult) bool {
	page := &adapters.Page{From: rd.From, At: time.Now()}
	result.Next = rd.From
	for _, rec := range records {
		if rd.Until != nil && rec.Offset > rd.Until.Position {
			result.Drained = true
			return true
		}
		if rec.Attrs.IsControl() || rec.Value == nil && s.cfg.SkipTombstones {
			result.Next = adapters.Cursor{Position: rec.Offset}
			continue
		}
		row := s.cfg.row(rec)
		row.Page = page
		if !take(i, row) {
			return false
		}
		result.Next = row.After()
	}
	result.Drained = len(records) < rd.Limit
	return true
}
